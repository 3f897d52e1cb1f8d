package resp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"cvmstore/volume"
)

// dialogue is a connection in memory: it delivers chunks, one a read, takes replies a few bytes at a time if it is narrow, and
// keeps them.
type dialogue struct {
	chunks [][]byte
	out    bytes.Buffer
	narrow int
	shut   bool
}

func (c *dialogue) held() bool  { return false }
func (c *dialogue) unsent() int { return 0 }
func (c *dialogue) push() error { return nil }
func (c *dialogue) fd() int     { return -1 }
func (c *dialogue) close()      { c.shut = true }

func (c *dialogue) read(p []byte) (int, error) {
	if len(c.chunks) == 0 {
		return 0, errAgain
	}
	n := copy(p, c.chunks[0])
	if c.chunks[0] = c.chunks[0][n:]; len(c.chunks[0]) == 0 {
		c.chunks = c.chunks[1:]
	}
	return n, nil
}

func (c *dialogue) write(p []byte) (int, error) {
	if c.narrow > 0 {
		p = p[:min(len(p), c.narrow)]
	}
	return c.out.Write(p)
}

// play runs one client's dialogue on a loop by hand, round by round, until all is answered.
func (l *loop) play(c *dialogue) *session {
	s := &session{conn: c, waitAt: -1, parkedAt: -1}
	s.p.reset()
	s.ID, s.FD = 1, -1
	s.Session.Reset(l.config.RequirePass == "")
	l.sessions[-1] = s
	for range 100_000 {
		l.round++
		l.now = nanos()
		if !s.closed && len(c.chunks) > 0 && s.phase == phaseRun {
			l.read(s)
		}
		if s.wantOut && !s.closed {
			l.flush(s)
		}
		l.srv.pause.until.Store(0) // nor is paused
		l.runReady()
		l.pollReader()
		l.deliver()
		l.step()
		for _, parked := range l.parked {
			parked.park.Until = 1 // nobody waits for real in a dialogue
			l.nextPark = 1
		}
		l.sweep()
		if s.closed || len(c.chunks) == 0 && s.pending() == 0 && !s.parkedPhase() && len(l.ready) == 0 {
			break
		}
	}
	return s
}

// benchLoop is a loop that nobody runs, on a volume in memory.
func benchLoop(t *testing.T, o rigOptions) *loop {
	r := newRig(t, o)
	l := r.srv.loops[0]
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stopped := make(chan struct{})
	l.post(func(l *loop) { l.stopping = true; l.stopBy = 0; close(stopped) })
	select {
	case <-stopped:
	case <-ctx.Done():
		t.Fatal("the loop does not stop")
	}
	r.srv.running.Wait()
	return l
}

func TestASessionAnswersInOrderHoweverItsBytesArrive(t *testing.T) {
	l := benchLoop(t, rigOptions{cacheBytes: -1})
	in := wire("FLUSHALL") + wire("SET", "a", "1") + "INCR a\r\n" + wire("GET", "a") + "*0\r\n\r\n" + wire("MSET", "b", "2", "c", "3") +
		wire("MGET", "a", "b", "c") + wire("NOSUCH") + wire("WAIT", "2", "10") + wire("CLIENT", "REPLY", "SKIP") + wire("GET", "a") + wire("DEL", "a", "b", "c")
	want := "+OK\r\n+OK\r\n:2\r\n" + bulk("2") + "+OK\r\n*3\r\n" + bulk("2") + bulk("2") + bulk("3") +
		"-ERR unknown command 'NOSUCH', with args beginning with: \r\n:1\r\n:3\r\n"
	for seed := range uint64(60) {
		c := &dialogue{chunks: cuts([]byte(in), seed), narrow: int(seed % 5)}
		l.play(c)
		if c.out.String() != want {
			t.Fatalf("seed %d:\ngot  %q\nwant %q", seed, c.out.String(), want)
		}
	}
}

// TestRepliesLeaveWhenAnotherLoopLedBetweenStepAndCron: whoever finds that a level was reached writes the reply.
func TestRepliesLeaveWhenAnotherLoopLedBetweenStepAndCron(t *testing.T) {
	l := benchLoop(t, rigOptions{})
	c := &dialogue{chunks: [][]byte{[]byte(wire("SET", "k", "v"))}}
	s := &session{conn: c, waitAt: -1, parkedAt: -1}
	s.p.reset()
	s.FD = -1
	s.Session.Reset(true)
	l.sessions[-1] = s
	l.now = nanos()
	l.read(s)
	l.vol.Want(l.wants[volume.LevelFresh], volume.LevelFresh)
	for !l.vol.Reached(s.marks[0].counter, volume.LevelFresh) {
		l.vol.Step()
	}
	l.timeouts()
	if got := c.out.String(); got != "+OK\r\n" || len(l.waiting) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestExecutionDoesNotAllocate: in steady state a command costs no garbage in this package, nor below it for a cached value.
func TestExecutionDoesNotAllocate(t *testing.T) {
	l := benchLoop(t, rigOptions{})
	c := &dialogue{chunks: [][]byte{[]byte(wire("SET", "k", "v"))}}
	s := l.play(c)
	get, one := []byte(wire("GET", "k")), make([][]byte, 1)
	if n := testing.AllocsPerRun(1000, func() {
		one[0] = get
		c.chunks = one
		c.out.Reset()
		l.read(s)
	}); n != 0 {
		t.Errorf("%v allocations a GET", n)
	}
}

func FuzzSession(f *testing.F) {
	for _, s := range []string{
		wire("SET", "a", "1", "EX", "10") + wire("GET", "a"), wire("HELLO", "3") + wire("CONFIG", "GET", "*") + wire("INFO"),
		"PING\r\nSET a \"b\r\n", wire("COMMAND") + wire("CLIENT", "LIST"), wire("SCAN", "0") + wire("KEYS", "*"), wire("QUIT") + "PING\r\n",
		wire("WAIT", "3", "0") + wire("CVM.STATUS"), wire("AUTH", "a", "b") + wire("RESET") + "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$900000\r\n",
	} {
		f.Add([]byte(s), uint64(len(s)))
	}
	var l *loop
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		if l == nil {
			l = benchLoopForFuzz(t)
		}
		c := &dialogue{chunks: cuts(in, seed), narrow: int(seed % 7)}
		s := l.play(c)
		if cap(s.in) > 4*len(in)+64<<10 {
			t.Fatalf("%d bytes of input take %d", len(in), cap(s.in))
		}
		r := bufio.NewReader(&c.out)
		for {
			if reply, err := readReply(r); err == io.EOF && reply == "" {
				break
			} else if err != nil {
				t.Fatalf("%q: reply %q: %v", in, reply, err)
			}
		}
		l.close(s)
		l.sweep()
		l.play(&dialogue{chunks: [][]byte{[]byte(wire("FLUSHALL"))}})
	})
}

// benchLoopForFuzz makes a loop that outlives one input.
func benchLoopForFuzz(t *testing.T) *loop {
	var l *loop
	ok := t.Run("loop", func(t *testing.T) { l = benchLoop(t, rigOptions{keep: true}) })
	if !ok {
		t.Fatal("no loop")
	}
	return l
}
