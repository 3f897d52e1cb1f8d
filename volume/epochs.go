package volume

import (
	"time"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
)

// Epochs bound what an adversarial restart can take from replies that did not wait for fresh (DESIGN.md 4.1, 4.4). An epoch is
// opened by its first mutation. It ends at its operations, at its bytes, or when a state within it is sent to the counter: at its
// time, or as soon as no commit is under way and a reply waits. Ended and uncommitted epochs, and the open one, are never more
// than the configured number: then no further mutation of any level is admitted.
//
// Blocking mode allows one: at the end of each epoch mutations are held until its commit. Non-blocking mode allows two (or
// more): the next fills while the commit is under way. Its time then runs on as long as the service answers: an epoch whose time
// is up, but whose predecessor's commit is under way, stays open until that answer, and for at most epochPatience.

// epochPatience bounds how long an epoch whose time is up stays open while the counter does not answer.
const epochPatience = time.Second

// epochLedger keeps the ends of uncommitted epochs. Guarded by Volume.mu.
type epochLedger struct {
	max         int
	number      epoch.Epoch // of the open one
	firstNumber epoch.Epoch // of this run
	ends        []Counter   // of ended ones, oldest first
	start       Counter     // where the open one starts
	bytes       uint64      // and of how many bytes of records that is the end
	since       time.Duration
}

// began takes note of when the first mutation of the open epoch came.
func (l *epochLedger) began(last Counter, now func() time.Duration) {
	if l.since == 0 && l.open(last) {
		l.since = max(now(), 1)
	}
}

// open reports whether the open epoch holds anything.
func (l *epochLedger) open(last Counter) bool { return last > l.start }

// first returns the end of the oldest ended epoch, 0 if there is none; end that of the newest.
func (l *epochLedger) first() Counter {
	if len(l.ends) == 0 {
		return 0
	}
	return l.ends[0]
}

func (l *epochLedger) end() Counter {
	if n := len(l.ends); n > 0 {
		return l.ends[n-1]
	}
	return 0
}

// close ends the open epoch at c.
func (l *epochLedger) close(c Counter, bytes uint64) {
	if c <= l.start {
		return
	}
	l.ends = append(l.ends, c)
	l.number++
	l.start, l.bytes, l.since = c, bytes, 0
}

// endAt takes note of a state that is being committed. If it lies in the open epoch, that ends there, and what came after it
// belongs to the next one. If epochs have ended before it, the open one goes on, its part in this commit included: to end it too
// would leave the next one less room, and to join them would let more be uncommitted than was promised.
func (l *epochLedger) endAt(p point, now time.Duration) {
	if p.complete <= l.start || len(l.ends) > 0 {
		return
	}
	l.close(p.complete, p.bytes)
	l.since = max(now, 1) // of what came after p, if anything did: later is not known, and earlier would be no harm
}

// committed takes note of a commit. An epoch of which only a part is committed is not.
func (l *epochLedger) committed(p point) {
	n := 0
	for n < len(l.ends) && (l.ends[n] <= p.complete || mutant.On(mutant.ForgetEpochs)) {
		n++
	}
	l.ends = append(l.ends[:0], l.ends[n:]...)
	if p.complete > l.start {
		l.number++
		l.start, l.bytes = p.complete, p.bytes
	}
}

// admits reports whether one more mutation may come.
func (l *epochLedger) admits(last Counter) bool {
	n := len(l.ends)
	if l.open(last) {
		n++
		return n <= l.max
	}
	return n < l.max
}

func (l *epochLedger) setMax(o *Options) {
	l.max = o.EpochsUncommitted
	if o.Blocking {
		l.max = 1
	}
	if mutant.On(mutant.OneEpochMore) {
		l.max++
	}
}

// epochAdmitsLocked ends the open epoch if it is full, and says whether a mutation may come.
func (v *Volume) epochAdmitsLocked() bool {
	l := &v.epochs
	if int(v.last-l.start) >= v.opts.EpochOps || int(v.bytes-l.bytes) >= v.opts.EpochBytes {
		v.closeEpochLocked()
	}
	if v.opts.Blocking && mutant.On(mutant.BlockingLeaks) {
		return true
	}
	return l.admits(v.last)
}

func (v *Volume) closeEpochLocked() { v.epochs.close(v.last, v.bytes) }

// holdOverdue ends the open epoch when the counter has not answered for too long: with the ones before it that is as much as may be
// uncommitted, so from then on nothing is admitted until the service is back.
func (v *Volume) holdOverdue() {
	if v.clock.Monotonic() < v.overdueAt() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epochs.open(v.last) && len(v.epochs.ends) < v.epochs.max {
		v.closeEpochLocked()
	}
}

func (v *Volume) overdueAt() time.Duration {
	return v.commit.first + max(epochPatience, v.opts.EpochLength)
}
