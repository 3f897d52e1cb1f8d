package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// roundsDefault is how often the server is killed under load; make soak sets CVMSTORE_KILL_ROUNDS.
const roundsDefault = 5

// writer is one client that remembers what it had acknowledged, and in order what it sent after that. One connection's commands
// take effect in order, and durable means the prefix (DESIGN.md 4.2): after a crash its keys are in the state that the acknowledged
// commands and some number of the later ones left, each of them whole (4.8).
type writer struct {
	id    int
	level string
	rng   *rand.Rand
	next  int // number of the next value

	acked map[string]string // each key's value after the last acknowledged command
	sent  []change          // since then
	acks  int
	wide  bool // some MSETs are on all keys, and too large for a frame or even for a small segment
}

// keysPerWriter is small, so that keys are written again and again.
const keysPerWriter = 20

func newWriter(id int, seed uint64) *writer {
	w := &writer{id: id, level: []string{"fresh", "durable"}[id%2], acked: map[string]string{}}
	w.rng = rand.New(rand.NewPCG(seed, uint64(id)))
	for i := range keysPerWriter {
		w.acked[w.key(i)] = missing
	}
	return w
}

func (w *writer) key(i int) string { return fmt.Sprintf("w%d:k%d", w.id, i) }

// change is one command and what it leaves behind.
type change struct {
	args  []string
	after map[string]string
}

// random makes a command: mostly a SET of up to 2000 bytes, sometimes a DEL, or an MSET of two keys, which is one batch.
func (w *writer) random() change {
	w.next++
	value := strconv.Itoa(w.next) + ":" + strings.Repeat("x", w.rng.IntN(2000))
	a, b := w.rng.IntN(keysPerWriter), w.rng.IntN(keysPerWriter/2)*2
	switch r := w.rng.IntN(10); {
	case r == 0 && w.wide && w.rng.IntN(4) == 0:
		return w.all()
	case r == 0:
		return change{[]string{"DEL", w.key(a)}, map[string]string{w.key(a): missing}}
	case r <= 2:
		return change{
			[]string{"MSET", w.key(b), value, w.key(b + 1), value},
			map[string]string{w.key(b): value, w.key(b + 1): value},
		}
	}
	return change{[]string{"SET", w.key(a), value}, map[string]string{w.key(a): value}}
}

// all makes an MSET of all keys.
func (w *writer) all() change {
	c := change{[]string{"MSET"}, map[string]string{}}
	size := w.rng.IntN(8000)
	for i := range keysPerWriter {
		w.next++
		value := strconv.Itoa(w.next) + ":" + strings.Repeat("x", size)
		c.args = append(c.args, w.key(i), value)
		c.after[w.key(i)] = value
	}
	return c
}

// run writes until the server is gone, in pipelines of up to 8.
func (w *writer) run(addr string) error {
	c, err := connect(addr)
	if err != nil {
		return nil //nolint:nilerr // killed before we came
	}
	defer c.conn.Close() //nolint:errcheck // the server is gone
	if err := c.send([]string{"CVM.DURABILITY", w.level}); err != nil {
		return nil //nolint:nilerr // killed
	}
	if reply, err := c.receive(); err == nil && reply != "OK" {
		return fmt.Errorf("CVM.DURABILITY %s: %s", w.level, reply)
	}
	for {
		pipeline := make([]change, 1+w.rng.IntN(8))
		commands := make([][]string, len(pipeline))
		for i := range pipeline {
			pipeline[i] = w.random()
			commands[i] = pipeline[i].args
			w.sent = append(w.sent, pipeline[i])
		}
		if c.send(commands...) != nil {
			return nil
		}
		for _, p := range pipeline {
			reply, err := c.receive()
			if err != nil {
				return nil //nolint:nilerr // killed
			}
			if reply[0] == '-' {
				return fmt.Errorf("%s: %s", p.args[0], reply)
			}
			w.acknowledge()
		}
	}
}

// acknowledge takes the reply to the oldest command without one: what it left may not be lost any more.
func (w *writer) acknowledge() {
	w.acks++
	maps.Copy(w.acked, w.sent[0].after)
	w.sent = w.sent[1:]
}

// check reads all keys after the restart and takes what it finds for the state from now on.
func (w *writer) check(t *testing.T, c *client) {
	t.Helper()
	found := map[string]string{}
	for key := range w.acked {
		found[key] = c.do(t, "GET", key)
	}
	if err := w.verify(found); err != nil {
		t.Errorf("writer %d (%s): %v", w.id, w.level, err)
	}
	w.acked, w.sent = found, nil
}

// verify says whether the keys are in a state that a crash may leave. If not, it says what is wrong with the nearest one.
func (w *writer) verify(found map[string]string) error {
	state := maps.Clone(w.acked)
	nearest, wrong := len(found)+1, ""
	for n := 0; ; n++ {
		var differ []string
		for _, key := range slices.Sorted(maps.Keys(state)) {
			if found[key] != state[key] {
				differ = append(differ, fmt.Sprintf("%s is %.12q and not %.12q", key, found[key], state[key]))
			}
		}
		if len(differ) == 0 {
			return nil
		}
		if len(differ) < nearest {
			nearest, wrong = len(differ), fmt.Sprintf("after %d of %d commands without a reply: %s", n, len(w.sent), strings.Join(differ, "; "))
		}
		if n == len(w.sent) {
			return fmt.Errorf("no state that a crash may leave, the nearest is that %s", wrong)
		}
		maps.Copy(state, w.sent[n].after)
	}
}

// rounds is how often a server is killed.
func rounds(t *testing.T) int {
	t.Helper()
	n := roundsDefault
	if testing.Short() {
		n = 2
	}
	if text := os.Getenv("CVMSTORE_KILL_ROUNDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Nothing that was acknowledged at fresh or durable is missing after kill -9 under load, and no batch is half there: neither where
// nothing but the load happens, nor in a volume so small that segments end, are summarised, emptied and used again all the time,
// and batches are larger than frames and segments.
func TestKillUnderLoad(t *testing.T) {
	small := []string{"--segment-size", "64kb", "--volume-size", "12mb"}
	for _, v := range []struct {
		name string
		wide bool
		args []string
	}{
		{"default", false, nil},
		{"small segments", true, small},
		{"small segments, PARALLEL", true, append([]string{"--commit-order", "parallel"}, small...)},
		{"small segments, short epochs", true, append([]string{"--epoch-length", "1", "--epoch-ops", "64", "--blob-size", "4kb"}, small...)},
	} {
		t.Run(v.name, func(t *testing.T) { killUnderLoad(t, v.wide, v.args) })
	}
}

func killUnderLoad(t *testing.T, wide bool, args []string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	writers := make([]*writer, 8)
	for i := range writers {
		writers[i] = newWriter(i, seed)
		writers[i].wide = wide
	}
	for round := range rounds(t) {
		s := start(t, dir, args...)
		if round > 0 { // what the last kill left
			checkAll(t, s, writers)
			if t.Failed() {
				t.Fatalf("after round %d", round)
			}
		}
		after := 50*time.Millisecond + time.Duration(rng.Int64N(int64(400*time.Millisecond)))
		underLoad(t, s, writers, after, func() { _ = s.cmd.Process.Kill() })
		s.kill()
	}
	s := start(t, dir, args...)
	checkAll(t, s, writers)
	s.kill()
	acks := 0
	for _, w := range writers {
		acks += w.acks
	}
	t.Logf("%d writes acknowledged", acks)
}

// SIGTERM under load drains: exit code 0, and what was acknowledged is there.
func TestTerminateUnderLoad(t *testing.T) {
	dir := t.TempDir()
	writers := make([]*writer, 8)
	for i := range writers {
		writers[i] = newWriter(i, uint64(time.Now().UnixNano()))
	}
	s := start(t, dir)
	underLoad(t, s, writers, 300*time.Millisecond, func() { _ = s.cmd.Process.Signal(syscall.SIGTERM) })
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s = start(t, dir)
	checkAll(t, s, writers)
	s.kill()
}

// underLoad lets the writers run, and ends the server after a while.
func underLoad(t *testing.T, s *server, writers []*writer, after time.Duration, end func()) {
	t.Helper()
	var all sync.WaitGroup
	for _, w := range writers {
		all.Go(func() {
			if err := w.run(s.addr); err != nil {
				t.Errorf("writer %d: %v", w.id, err)
			}
		})
	}
	timer := time.AfterFunc(after, end)
	defer timer.Stop()
	all.Wait()
}

// checkAll checks every writer's keys on a server that has just started.
func checkAll(t *testing.T, s *server, writers []*writer) {
	t.Helper()
	c := dial(t, s.addr)
	for _, w := range writers {
		w.check(t, c)
	}
}
