package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// roundsDefault is how often the server is killed under load; make soak sets CVMSTORE_KILL_ROUNDS.
const roundsDefault = 5

// writer is one client that remembers, for each of its keys, every state since the last one that was acknowledged. After a crash
// the key must be in one of them.
type writer struct {
	id    int
	level string
	rng   *rand.Rand
	next  int // number of the next value

	states map[string][]string // the acknowledged state, then those that were sent after it, in order
	acks   int
}

// keysPerWriter is small, so that keys are written again and again.
const keysPerWriter = 20

func newWriter(id int, seed uint64) *writer {
	w := &writer{id: id, level: []string{"fresh", "durable"}[id%2], states: map[string][]string{}}
	w.rng = rand.New(rand.NewPCG(seed, uint64(id)))
	for i := range keysPerWriter {
		w.states[w.key(i)] = []string{missing}
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
	switch w.rng.IntN(10) {
	case 0:
		return change{[]string{"DEL", w.key(a)}, map[string]string{w.key(a): missing}}
	case 1, 2:
		return change{
			[]string{"MSET", w.key(b), value, w.key(b + 1), value},
			map[string]string{w.key(b): value, w.key(b + 1): value},
		}
	}
	return change{[]string{"SET", w.key(a), value}, map[string]string{w.key(a): value}}
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
			for key, value := range pipeline[i].after {
				w.states[key] = append(w.states[key], value)
			}
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
			w.acknowledge(p)
		}
	}
}

// acknowledge forgets the states before the one that p left: they may not come back.
func (w *writer) acknowledge(p change) {
	w.acks++
	for key, value := range p.after {
		states := w.states[key]
		for i := 1; i < len(states); i++ {
			if states[i] == value {
				w.states[key] = states[i:]
				break
			}
		}
	}
}

// check reads all keys after the restart and takes what it finds for the state from now on.
func (w *writer) check(t *testing.T, c *client) {
	t.Helper()
	found := map[string]string{}
	for key, states := range w.states {
		got := c.do(t, "GET", key)
		ok := false
		for _, s := range states {
			ok = ok || s == got
		}
		if !ok {
			t.Errorf("%s (%s) is %.12q; acknowledged was %.12q, and %d states were sent after it", key, w.level, got, states[0], len(states)-1)
		}
		found[key] = got
	}
	w.checkPairs(t, found)
	for key, got := range found {
		w.states[key] = []string{got}
	}
}

// checkPairs looks for halves of an MSET: its value in one of the two keys, and in the other one that is older. Numbers of values
// grow, and a later SET or DEL of one key of the pair is among the states of that key.
func (w *writer) checkPairs(t *testing.T, found map[string]string) {
	t.Helper()
	for i := 0; i < keysPerWriter; i += 2 {
		for _, pair := range [][2]string{{w.key(i), w.key(i + 1)}, {w.key(i + 1), w.key(i)}} {
			value := found[pair[0]]
			if value == missing {
				continue
			}
			at, other := index(w.states[pair[1]], value), index(w.states[pair[1]], found[pair[1]])
			if at > 0 && other >= 0 && other < at {
				t.Errorf("half an MSET: %s has its value %.12q, %s an older one", pair[0], value, pair[1])
			}
		}
	}
}

func index(states []string, value string) int {
	for i, s := range states {
		if s == value {
			return i
		}
	}
	return -1
}

// Nothing that was acknowledged at fresh or durable is missing after kill -9 under load, and no batch is half there.
func TestKillUnderLoad(t *testing.T) {
	rounds := roundsDefault
	if testing.Short() {
		rounds = 2
	}
	if text := os.Getenv("CVMSTORE_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	writers := make([]*writer, 8)
	for i := range writers {
		writers[i] = newWriter(i, seed)
	}
	for round := range rounds {
		s := start(t, dir)
		after := 100*time.Millisecond + time.Duration(rng.Int64N(int64(400*time.Millisecond)))
		underLoad(t, s, writers, after, func() { _ = s.cmd.Process.Kill() })
		s.kill()
		checkAll(t, dir, writers)
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
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
	checkAll(t, dir, writers)
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

// checkAll starts the server again and checks every writer's keys.
func checkAll(t *testing.T, dir string, writers []*writer) {
	t.Helper()
	s := start(t, dir)
	c := dial(t, s.addr)
	for _, w := range writers {
		w.check(t, c)
	}
	s.kill()
}
