package volume

import (
	"context"
	"sync/atomic"
	"time"

	"cvmstore/internal/mutant"
)

// The fresh lease (DESIGN.md 9). Another server's Open fences this one's commits, but says nothing to it. So nothing claims to be
// fresh once the last commit that succeeded began longer ago than the lease: until then, whoever opened the store since must
// itself have waited. An idle server commits its unchanged state again and again to keep it. The clock is the guest's: against a
// host that slows it, only confirming each read helps (docs/THREATS.md).

// freshLease is read by everybody who asks whether something is fresh.
type freshLease struct {
	length time.Duration // 0: none, what is committed stays fresh
	clock  Clock
	began  atomic.Int64 // when the last commit that succeeded began, monotonic ns
}

func (l *freshLease) start(length time.Duration, c Clock) { l.length, l.clock = length, c }

// renewed takes note of a commit that succeeded: it is its beginning that counts, since the service may have answered then.
func (l *freshLease) renewed(began time.Duration, c Clock) {
	if mutant.On(mutant.LeaseFromAnswer) {
		began = c.Monotonic()
	}
	if int64(began) > l.began.Load() {
		l.began.Store(int64(began))
	}
}

func (l *freshLease) holds() bool {
	if l.length == 0 || mutant.On(mutant.ForgetLease) {
		return true
	}
	return l.clock.Monotonic()-time.Duration(l.began.Load()) <= l.length
}

// Lapsed reports whether nothing may be called fresh now, not even what was committed long ago: the counter has not confirmed this
// server for longer than the lease.
func (v *Volume) Lapsed() bool { return !v.lease.holds() }

// renewInterval is how often an unchanged state is committed again: for the stamp each second, for the lease well within it.
func (v *Volume) renewInterval() (time.Duration, bool) {
	switch {
	case v.lease.length > 0 && v.service.TimeBounded():
		return min(stampInterval, v.lease.length/4), true
	case v.lease.length > 0:
		return v.lease.length / 4, true
	}
	return stampInterval, v.service.TimeBounded()
}

// sharedLeaseMax is the longest lease where another server may take over: it waits that long before it serves.
const sharedLeaseMax = 2 * time.Second

// longestIO is how long a write of a server that was fenced may still be on its way to a device that both can reach.
const longestIO = 2 * time.Second

// waitForPredecessor lets the lease of a server that this one may have fenced run out, where both can reach the device: until then it
// may answer reads of what it calls fresh. Its last commit began before Open's answer.
func (v *Volume) waitForPredecessor(ctx context.Context, answered time.Duration) error {
	if v.lease.length == 0 || v.dev.Info().Exclusive {
		return nil
	}
	until := answered + v.lease.length + longestIO
	v.log.Info().Dur("for", until-v.clock.Monotonic()).Msg("another server may have been in charge: waiting for its lease to end")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for v.clock.Monotonic() < until {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
