package command

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/volume"
)

// Observed is what the server has noted about commands: the slow log and the latency events. All loops share it; its lock is
// taken only for commands that were slow, and by those who ask.
type Observed struct {
	LastSave atomic.Int64  // Unix seconds of the last SAVE, or of the start
	SavedAt  atomic.Uint64 // the newest counter then

	mu     sync.Mutex
	slow   []slowEntry // newest last
	nextID int64
	events map[string]*latencyEvent
}

type slowEntry struct {
	id, at, usec int64
	args         [][]byte
	addr, name   string
	seen         volume.Counter // what the command's reply depended on
}

// Bounds of what a slow command leaves behind, as with Redis.
const (
	slowArgs = 32
	slowArg  = 128
)

// Slow notes a command that took so long, and keeps the newest keep.
func (o *Observed) Slow(s *Session, cmd *Command, args [][]byte, took time.Duration, keep int64, seen volume.Counter) {
	e := slowEntry{at: time.Now().Unix(), usec: took.Microseconds(), addr: s.Addr, name: s.Name, seen: seen}
	n := len(args)
	if n > slowArgs {
		n = slowArgs - 1
	}
	for i, a := range args[:n] {
		switch {
		case secretArg(cmd, args, i):
			e.args = append(e.args, redacted)
		case len(a) > slowArg:
			short := append([]byte(nil), a[:slowArg]...)
			short = append(short, "... ("...)
			short = appendDecimal(short, int64(len(a)-slowArg), 1)
			e.args = append(e.args, append(short, " more bytes)"...))
		default:
			e.args = append(e.args, slices.Clone(a))
		}
	}
	if n < len(args) {
		more := append([]byte("... ("), appendDecimal(nil, int64(len(args)-n), 1)...)
		e.args = append(e.args, append(more, " more arguments)"...))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	e.id = o.nextID
	o.nextID++
	o.slow = append(o.slow, e)
	if over := len(o.slow) - int(keep); over > 0 {
		o.slow = slices.Delete(o.slow, 0, over)
	}
}

// latencyEvent is one kind of event: its newest samples, one a second at most.
type latencyEvent struct {
	samples []latencySample
	max     int64
}

type latencySample struct{ at, ms int64 }

const latencySamples = 160

// Latency notes that an event took so many milliseconds.
func (o *Observed) Latency(event string, ms int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.events == nil {
		o.events = map[string]*latencyEvent{}
	}
	e := o.events[event]
	if e == nil {
		e = &latencyEvent{}
		o.events[event] = e
	}
	e.max = max(e.max, ms)
	now := time.Now().Unix()
	if n := len(e.samples); n > 0 && e.samples[n-1].at == now {
		e.samples[n-1].ms = max(e.samples[n-1].ms, ms)
		return
	}
	if len(e.samples) == latencySamples {
		e.samples = slices.Delete(e.samples, 0, 1)
	}
	e.samples = append(e.samples, latencySample{now, ms})
}

// Buckets is the number of a latency histogram's buckets: bucket n counts what took at most 2^n microseconds.
const Buckets = 31

// Bucket returns the bucket of a duration.
func Bucket(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 1))
	return min(bits.Len64(us-1), Buckets-1)
}
