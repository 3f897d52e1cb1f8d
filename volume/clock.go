package volume

import (
	"sync/atomic"
	"time"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
)

// stampLead is how far store time may run ahead of the counter service's last stamp (DESIGN.md 4.7).
const stampLead = 10 * time.Second

// storeClock makes store time, in milliseconds: it never goes back, starts no earlier than the last accepted frame and
// Open's stamp, and advances with the monotonic clock from the last stamp. Jumps of the host's wall clock while running do
// not touch it. With a service whose stamps are bounded it stands still once it is stampLead ahead of the last one; the
// embedded counter has no clock of its own, so there the start is the host's word.
type storeClock struct {
	clock   Clock
	bounded bool
	last    atomic.Int64 // the largest value given out or written in a frame
	stamp   atomic.Int64 // the last stamp, ms
	stampAt atomic.Int64 // monotonic ns when it arrived
}

// start takes Open's stamp, which arrived at the monotonic time at: what recovery did since then counts as time that passed.
func (c *storeClock) start(clock Clock, bounded bool, frameTime int64, stamp epoch.Stamp, at time.Duration) {
	c.clock, c.bounded = clock, bounded
	c.last.Store(max(frameTime, int64(stamp)))
	c.stampAt.Store(int64(at))
	c.stamp.Store(int64(stamp))
}

// stamped takes a new stamp of a bounded service. Stamps of an unbounded one are the host's clock again, so they are ignored
// after the start.
func (c *storeClock) stamped(s epoch.Stamp) {
	if !c.bounded || int64(s) < c.stamp.Load() {
		return
	}
	c.stampAt.Store(int64(c.clock.Monotonic()))
	c.stamp.Store(int64(s))
}

func (c *storeClock) now() int64 {
	elapsed := c.clock.Monotonic() - time.Duration(c.stampAt.Load())
	if c.bounded && !mutant.On(mutant.ExpireEarly) {
		elapsed = min(elapsed, stampLead)
	}
	t := c.stamp.Load() + max(elapsed, 0).Milliseconds()
	for {
		last := c.last.Load()
		if t <= last {
			return last
		}
		if c.last.CompareAndSwap(last, t) {
			return t
		}
	}
}

// Now returns store time in milliseconds since the Unix epoch (DESIGN.md 4.7).
func (v *Volume) Now() int64 { return v.time.now() }

var processStart = time.Now()

// systemClock is the machine's clock. Its monotonic side counts time that the machine was suspended, so that TTLs run on;
// that needs a system call, so it is looked up once a second and added to Go's cheap monotonic clock.
type systemClock struct{}

var suspended struct {
	offset atomic.Int64 // ns
	lookup atomic.Int64 // ns since processStart of the next look-up
}

func (systemClock) Monotonic() time.Duration {
	t := time.Since(processStart)
	if int64(t) >= suspended.lookup.Load() {
		suspended.lookup.Store(int64(t + time.Second))
		if o := int64(suspendedTime()); o > suspended.offset.Load() {
			suspended.offset.Store(o)
		}
	}
	return t + time.Duration(suspended.offset.Load())
}
