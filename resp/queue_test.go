package resp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cvmstore/volume"
)

// fakeLine is a volume whose watermarks a test moves.
type fakeLine struct{ durable, fresh volume.Counter }

func (f *fakeLine) Reached(c volume.Counter, l volume.Level) bool {
	switch l {
	case volume.LevelFresh:
		return c <= f.fresh
	case volume.LevelDurable:
		return c <= f.durable
	}
	return true
}

func (q *queue) put(text string, c volume.Counter, l volume.Level, round uint64, deadline int64) {
	q.out = append(q.out, text...)
	q.add(c, l, round, deadline)
}

// leave takes what may be written.
func (q *queue) leave() string {
	s := string(q.ready())
	q.wrote(len(s))
	return s
}

func TestRepliesLeaveInOrderAndAtTheirLevel(t *testing.T) {
	var q queue
	line := &fakeLine{}
	q.put("a", 0, volume.LevelFresh, 1, 0)
	q.put("b", 5, volume.LevelFresh, 1, 0)
	q.put("c", 0, volume.LevelFresh, 1, 0)
	q.put("d", 4, volume.LevelDurable, 1, 0)
	if got := q.leave(); got != "a" {
		t.Fatalf("before anything is reached: %q", got)
	}
	line.durable = 9
	if q.release(line) {
		t.Fatal("the durable reply overtook the fresh one")
	}
	line.fresh = 5
	q.release(line)
	if got := q.leave(); got != "bcd" || q.pending() != 0 || len(q.marks) != 0 {
		t.Fatalf("after all is reached: %q", got)
	}
}

func TestAPipelineWaitsOnce(t *testing.T) {
	var q queue
	for c := volume.Counter(1); c <= 100; c++ {
		q.put("+OK\r\n", c, volume.LevelFresh, 7, 0)
	}
	if len(q.marks) != 1 || q.marks[0].replies != 100 || q.marks[0].counter != 100 {
		t.Fatalf("marks: %+v", q.marks)
	}
	q.put("+OK\r\n", 101, volume.LevelFresh, 8, 0)
	q.put("$1\r\nx\r\n", 50, volume.LevelFresh, 9, 0) // depends on less than what is before it
	if len(q.marks) != 2 || q.marks[1].replies != 2 {
		t.Fatalf("marks: %+v", q.marks)
	}
}

func TestRepliesPastTheirDeadlineBecomeErrorsOneEach(t *testing.T) {
	var q queue
	line := &fakeLine{}
	q.put("+1\r\n", 1, volume.LevelFresh, 1, 100)
	q.put("+2\r\n", 2, volume.LevelFresh, 1, 100)
	q.put("+P\r\n", 0, volume.LevelFresh, 1, 100)
	q.put("+3\r\n", 3, volume.LevelFresh, 2, 200)
	q.put("+P\r\n", 0, volume.LevelFresh, 2, 200)
	if n := q.expire(line, 99, nil, "E"); n != 0 {
		t.Fatal("expired early")
	}
	if n := q.expire(line, 150, nil, "E"); n != 2 {
		t.Fatalf("%d replaced", n)
	}
	if got := q.leave(); got != "-E\r\n-E\r\n+P\r\n" {
		t.Fatalf("left: %q", got)
	}
	line.fresh = 3
	q.release(line)
	if got := q.leave(); got != "+3\r\n+P\r\n" {
		t.Fatalf("left: %q", got)
	}
}

func TestAFailureTurnsWhatIsNotReachedIntoErrors(t *testing.T) {
	var q queue
	line := &fakeLine{durable: 1}
	q.put("+1\r\n", 1, volume.LevelDurable, 1, 1000)
	q.put("+2\r\n", 2, volume.LevelDurable, 2, 1000)
	if n := q.expire(line, 5, errors.New("device"), "IOERR"); n != 1 {
		t.Fatalf("%d replaced", n)
	}
	if got := q.leave(); got != "+1\r\n-IOERR\r\n" {
		t.Fatalf("left: %q", got)
	}
}

// TestQueueAgainstItsTwin compares the queue with one that keeps every reply on its own, under random partial writes.
func TestQueueAgainstItsTwin(t *testing.T) {
	type reply struct {
		text string
		c    volume.Counter
		l    volume.Level
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var q queue
		line := &fakeLine{}
		var twin []reply
		var got, want strings.Builder
		var last volume.Counter
		drain := func(all bool) {
			q.release(line)
			n := len(q.ready())
			if !all && n > 0 {
				n = r.IntN(n + 1)
			}
			got.Write(q.ready()[:n])
			q.wrote(n)
		}
		for i := range 300 {
			switch r.IntN(4) {
			case 0:
				line.durable += volume.Counter(r.IntN(5))
				line.durable = min(line.durable, last)
				line.fresh = min(line.durable, line.fresh+volume.Counter(r.IntN(4)))
			case 1:
				drain(false)
			default:
				rep := reply{text: fmt.Sprintf("+%d\r\n", i), l: volume.LevelDurable + volume.Level(r.IntN(2))}
				if r.IntN(3) > 0 {
					last += volume.Counter(r.IntN(2))
					rep.c = last - min(last, volume.Counter(r.IntN(3)))
				}
				if line.Reached(rep.c, rep.l) {
					rep.c = 0
				}
				q.put(rep.text, rep.c, rep.l, uint64(i/10), 0)
				twin = append(twin, rep)
			}
			// Nothing may leave before its own level; the twin gives the upper bound of what may have left.
			allowed := 0
			for _, rep := range twin {
				if !line.Reached(rep.c, rep.l) {
					break
				}
				allowed += len(rep.text)
			}
			if got.Len() > allowed {
				t.Fatalf("seed %d: %d bytes left, %d were allowed", seed, got.Len(), allowed)
			}
		}
		line.durable, line.fresh = last, last
		drain(true)
		for _, rep := range twin {
			want.WriteString(rep.text)
		}
		if got.String() != want.String() || q.pending() != 0 {
			t.Fatalf("seed %d: not all left, or not in order", seed)
		}
	}
}
