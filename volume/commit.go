package volume

import (
	"errors"
	"sync/atomic"
	"time"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
)

// This file sends states to the trusted counter, one at a time, and takes its answers (DESIGN.md 4.1, 4.6, 9). What a state is
// comes from committer.go (durable) and, in PARALLEL, from what was sealed; epochs.go says when; lease.go what an answer allows.

// The states of a counter commit. done may run before Commit returns, or later on another goroutine, which then must wake
// the leader.
const (
	commitIdle int32 = iota
	commitCalling
	commitWaiting
	commitDone
)

type commitState struct {
	state     atomic.Int32
	committed point // the newest state that the service confirmed
	synced    point // the newest that no accepted restart goes back behind: settled, and durable at the service
	before    point // the state before committed
	request   epoch.CommitRequest
	target    point
	stamp     epoch.Stamp // result
	err       error       // result
	at        time.Duration
	first     time.Duration // when the request under way was sent for the first time
	retryAt   timeOrNone
	backoff   time.Duration
	lastError error
	trip      time.Duration // of the last commit that succeeded at once
}

// timeOrNone is a monotonic time, or none.
type timeOrNone struct {
	t   time.Duration
	set bool
}

func (t timeOrNone) IsZero() bool { return !t.set }

const (
	commitBackoffMin = 5 * time.Millisecond
	commitBackoffMax = 500 * time.Millisecond
	stampInterval    = time.Second
)

// commitStep takes a result of the counter service and starts the next commit, one at a time.
func (v *Volume) commitStep() {
	for {
		c := &v.commit
		switch c.state.Load() {
		case commitCalling, commitWaiting:
			v.holdOverdue()
			return
		case commitDone:
			c.state.Store(commitIdle)
			v.commitResult()
		}
		if v.failure.Load() != nil || !v.commitDue() {
			return
		}
		v.sendCommit()
	}
}

// commitPoint is what a commit may name now: the durable prefix; in PARALLEL the newest sealed frame, once all frames of the
// epoch that was committed before are durable (DESIGN.md 4.6).
func (v *Volume) commitPoint() point {
	if mutant.On(mutant.CommitBeforeDurable) {
		return v.sealedPoint
	}
	if !v.opts.Parallel {
		return v.durablePoint
	}
	if v.commit.committed.seq <= v.durablePoint.seq || mutant.On(mutant.ParallelAhead) {
		return v.sealedPoint
	}
	return v.commit.committed
}

// commitDue says whether a commit goes out now: the one that failed before, or a new state, because a reply waits for it, its
// epoch is closed, or its time is up; or a renewal for the sake of the stamp and the lease (DESIGN.md 4.1, 4.7, 9).
func (v *Volume) commitDue() bool {
	c := &v.commit
	now := v.clock.Monotonic()
	if c.retryAt.set {
		v.holdOverdue()
		return now >= c.retryAt.t
	}
	target := v.commitPoint()
	if every, ok := v.renewInterval(); ok && now-c.at >= every {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	timeUp := now-c.at >= v.opts.EpochLength
	if v.opts.Blocking && (v.epochs.open(v.last) && now-v.epochs.since >= v.opts.EpochLength || v.wantNew.Load() > uint64(c.committed.complete)) {
		v.closeEpochLocked() // hold what comes until this is committed
	}
	if target.tag == c.committed.tag {
		return v.confirms()
	}
	if end := v.epochs.first(); end != 0 && target.complete >= end {
		return true
	}
	if v.opts.Blocking {
		return false // whole epochs only
	}
	return timeUp || v.starving || v.wantNew.Load() > uint64(c.committed.complete)
}

// commitDeadline is when commitDue is to be asked again if nothing else happens.
func (v *Volume) commitDeadline() (time.Duration, bool) {
	c := &v.commit
	if c.retryAt.set {
		return c.retryAt.t, true
	}
	if c.state.Load() != commitIdle {
		if v.epochs.open(v.last) {
			return v.overdueAt(), true
		}
		return 0, false
	}
	due, set := time.Duration(0), false
	switch {
	case v.opts.Blocking:
		if v.epochs.open(v.last) {
			due, set = v.epochs.since+v.opts.EpochLength, true
		}
	case v.commitPoint().tag != c.committed.tag:
		due, set = c.at+v.opts.EpochLength, true
	}
	if every, ok := v.renewInterval(); ok && (!set || c.at+every < due) {
		due, set = c.at+every, true
	}
	return due, set
}

func (v *Volume) sendCommit() {
	c := &v.commit
	now := v.clock.Monotonic()
	if !c.retryAt.set || mutant.On(mutant.RetryAsNew) {
		c.target, c.first = v.commitPoint(), now
		c.request = epoch.CommitRequest{
			Store: v.store, Gen: v.gen, Expected: c.committed.tag, Value: c.target.last, Tag: c.target.tag,
			Parallel: v.opts.Parallel && !v.confirms() || mutant.On(mutant.KeepBefore),
		}
		v.mu.Lock()
		v.epochs.endAt(c.target, now)
		if !v.epochs.open(v.last) {
			v.epochs.since = 0
		}
		v.mu.Unlock()
	}
	c.at = now
	c.retryAt = timeOrNone{}
	c.state.Store(commitCalling)
	v.stats.commits++
	v.service.Commit(c.request, func(s epoch.Stamp, err error) {
		c.stamp, c.err = s, err
		if c.state.CompareAndSwap(commitCalling, commitDone) {
			return
		}
		c.state.Store(commitDone)
		v.wake.signal()
	})
	c.state.CompareAndSwap(commitCalling, commitWaiting)
}

func (v *Volume) commitResult() {
	c := &v.commit
	if mutant.On(mutant.AssumeCommitted) && !refusedForGood(c.err) || mutant.On(mutant.IgnoreFence) && errors.Is(c.err, epoch.ErrFenced) {
		c.err = nil
	}
	switch {
	case c.err == nil:
		if c.at == c.first {
			c.trip = v.clock.Monotonic() - c.at
		}
		switch {
		case !c.request.Parallel:
			c.before = c.target
		case c.target.tag != c.committed.tag:
			c.before = c.committed
		}
		c.committed, c.backoff, c.lastError = c.target, 0, nil
		v.lease.renewed(c.at, v.clock)
		v.time.stamped(c.stamp)
		v.raiseFresh()
		v.moved = true
		v.mu.Lock()
		v.epochs.committed(c.committed)
		v.mu.Unlock()
	case refusedForGood(c.err):
		v.fail(ErrFenced, c.err)
	default: // outcome unknown: the same request again
		c.lastError = c.err
		c.backoff = min(max(2*c.backoff, commitBackoffMin), commitBackoffMax)
		var jitter [1]byte
		v.random.read(jitter[:])
		c.retryAt = timeOrNone{v.clock.Monotonic() + c.backoff + c.backoff*time.Duration(jitter[0])/512, true}
		v.log.Warn().Err(c.err).Dur("retry", c.backoff).Msg("commit to the trusted counter failed; outcome unknown, sending it again")
	}
}

// refusedForGood says whether the service's answer means that this server is not, or no longer, in charge.
func refusedForGood(err error) bool {
	return errors.Is(err, epoch.ErrFenced) || errors.Is(err, epoch.ErrConflict) || errors.Is(err, epoch.ErrNoRecord)
}

// confirms says whether a commit goes out that only tells the service that the current state is durable now, so that no restart goes
// back behind it and what it freed may be used. It does in PARALLEL, when space is wanted and no later commit brings that about.
func (v *Volume) confirms() bool {
	c := &v.commit
	return v.blobs.starving && c.before.seq < c.committed.seq && c.committed.seq <= v.durablePoint.seq && v.commitPoint().tag == c.committed.tag
}

// raiseFresh moves the fresh watermark: what is committed, and durable too (in PARALLEL one may come before the other).
func (v *Volume) raiseFresh() {
	p := v.commit.committed.complete
	if !mutant.On(mutant.FreshNotDurable) {
		p = min(p, v.durablePoint.complete)
	}
	if uint64(p) > v.fresh.Load() {
		v.fresh.Store(uint64(p))
	}
}

// settled is the newest state that no accepted restart goes back behind: what was committed; in PARALLEL the state before, since a
// restart may be one commit behind. What epochs up to it freed may be reused.
func (v *Volume) settled() point {
	if v.opts.Parallel && !mutant.On(mutant.ParallelFreesEarly) {
		return v.commit.before
	}
	return v.commit.committed
}
