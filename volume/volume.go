package volume

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
)

// Volume is an open sealed volume. Its methods may be called from any goroutine.
type Volume struct {
	opts          Options
	dev           device.Device
	service       epoch.Service
	keys          KeySource
	clock         Clock
	log           zerolog.Logger
	store         epoch.StoreID
	id            [16]byte
	gen           epoch.Generation
	segmentBlocks device.BlockCount
	blocks        device.BlockCount
	transfer      device.BlockCount // the largest single read or write
	multisetKey   [32]byte
	nameKey       [32]byte
	time          storeClock
	lease         freshLease
	started       time.Duration
	recovered     Counter
	recovery      Recovery

	segments  atomic.Pointer[segmentList]
	applied   atomic.Uint64
	durable   atomic.Uint64
	fresh     atomic.Uint64
	failure   atomic.Pointer[error]
	wantDur   atomic.Uint64 // the largest counter that somebody waits for at LevelDurable
	wantNew   atomic.Uint64 // and at LevelFresh
	pushMoves atomic.Bool   // what compaction has moved should go out now
	kick      atomic.Bool   // somebody found the leader at work and has news for it
	coming    atomic.Uint64 // blocks of emptied segments, not free yet
	spare     atomic.Uint64 // blocks that are free, as of the last step
	wake      *wakeup       // wakes whoever sleeps on Fds

	// The append side.
	mu          sync.Mutex
	tx          Tx
	last        Counter // handed out
	complete    Counter // of the last batch that has ended
	set         Sum
	open        *frame
	closed      []*frame // in order, waiting to be sealed
	pending     []*frame // all that are not durable yet, in order
	tailSegment *segment // where the next frame starts
	tailBlock   device.BlockCount
	ready       []*segment // opened ahead
	wantReady   int
	reserveGone bool // and it cannot be had
	wantReserve bool // a batch that gives space back, or a move, found no room
	noSpace     bool // no further segment for ordinary batches
	spareBufs   [][]byte
	spareSpans  [][]span
	bytes       uint64 // of records appended since start
	epochs      epochLedger

	// The leader's.
	leader        sync.Mutex
	queue         device.Queue
	backlog       []device.Request // that the queue had no room for
	slot          int              // of the newest superblock
	sbSeq         uint64
	slotRefs      [superblockSlots][]extent // what only this slot's superblock still refers to
	freed         []freedExtents            // waiting for their epoch
	hold          hold                      // freed blocks wait for a copy of the device
	starvingSince time.Duration
	starving      bool       // a segment is wanted that freed would have room for
	plain         []*segment // without a durable summary, in chain order
	emptied       []emptied  // by compaction, still listed
	reaped        [64]device.Completion
	scratch       sealScratch
	random        generator
	space         *space
	spareDMA      map[device.BlockCount][][]byte
	inflight      []*frame
	through       throughState
	pressure      pressure
	sealedSegment *segment
	sealedSeq     uint64
	sealedTag     epoch.Tag
	sealedLast    Counter
	sealedPoint   point
	durablePoint  point // the newest frame of the durable prefix
	commit        commitState
	roll          rollState
	moved         bool

	blobs blobTable

	subscribers struct {
		sync.Mutex
		next  int
		calls map[int]func()
	}
	stats      stats
	compaction compaction
}

// point is a frame as the counter service knows it.
type point struct {
	seq            uint64
	last, complete Counter
	bytes          uint64 // of records appended up to its end
	tag            epoch.Tag
}

// Reached reports whether everything up to c has reached level l (DESIGN.md 4.1, 4.3). After a failure nothing that is not
// durable counts as reached, at any level (4.5).
func (v *Volume) Reached(c Counter, l Level) bool {
	switch l {
	case LevelFresh:
		return uint64(c) <= v.fresh.Load() && v.lease.holds()
	case LevelEverySec:
		if v.failure.Load() == nil {
			return true
		}
	}
	return uint64(c) <= v.durable.Load()
}

// Watermarks returns the last counters that were applied, are durable, and are committed to the trusted counter. The latter
// two never stop inside a batch.
func (v *Volume) Watermarks() (applied, durable, fresh Counter) {
	fresh = Counter(v.fresh.Load())
	durable = Counter(v.durable.Load())
	return Counter(v.applied.Load()), durable, fresh
}

// Want says that somebody waits for c to reach l: the next Step acts on it.
func (v *Volume) Want(c Counter, l Level) {
	switch l {
	case LevelFresh:
		raise(&v.wantNew, uint64(c))
	case LevelDurable:
		raise(&v.wantDur, uint64(c))
	}
}

func raise(a *atomic.Uint64, x uint64) {
	for old := a.Load(); old < x; old = a.Load() {
		if a.CompareAndSwap(old, x) {
			return
		}
	}
}

// Err returns nil, or the sticky reason why nothing is written any more: ErrFailed, ErrFenced or ErrClosed, wrapped.
func (v *Volume) Err() error {
	if p := v.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops all writing for good (DESIGN.md 4.5): a failed flush is never retried and called durable.
func (v *Volume) fail(kind, cause error) {
	err := fmt.Errorf("%w: %w", kind, cause)
	if v.failure.CompareAndSwap(nil, &err) {
		v.moved = true
		v.log.Error().Err(err).Uint64("durable", v.durable.Load()).Uint64("fresh", v.fresh.Load()).
			Msg("writing has stopped: what is not durable answers errors from now on; restart to recover")
	}
}

// Subscribe registers f to be called, by whoever leads, when watermarks moved or the volume failed. f must not block; it should
// do nothing while its owner is awake anyway.
func (v *Volume) Subscribe(f func()) (cancel func()) {
	s := &v.subscribers
	s.Lock()
	defer s.Unlock()
	if s.calls == nil {
		s.calls = map[int]func(){}
	}
	id := s.next
	s.next++
	s.calls[id] = f
	return func() {
		s.Lock()
		defer s.Unlock()
		delete(s.calls, id)
	}
}

func (v *Volume) notify() {
	s := &v.subscribers
	s.Lock()
	defer s.Unlock()
	for _, f := range s.calls {
		f()
	}
}

// Wait waits until c has reached l, and leads the committer if nobody does. It returns the context's error, or Err.
func (v *Volume) Wait(ctx context.Context, c Counter, l Level) error {
	if l == LevelEverySec {
		return v.Err()
	}
	v.Want(c, l)
	moved := make(chan struct{}, 1)
	cancel := v.Subscribe(func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	defer cancel()
	for {
		v.Step()
		if v.Reached(c, l) {
			return nil
		}
		if err := v.Err(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waiting for %v: outcome unknown: %w", l, err)
		}
		if v.leader.TryLock() {
			v.sleepLeading(waitSlice)
			v.leader.Unlock()
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
		case <-time.After(waitSlice):
		}
	}
}

// WaitMove waits until the committer has got on with something, or a little: for library users whose batch was answered ErrBusy. It
// leads if nobody does, and returns the context's error, or Err.
func (v *Volume) WaitMove(ctx context.Context) error {
	moved := make(chan struct{}, 1)
	cancel := v.Subscribe(func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	defer cancel()
	if v.Step() {
		return nil
	}
	if v.leader.TryLock() {
		v.sleepLeading(waitSlice)
		outstanding := v.queue.Outstanding() > 0
		v.leader.Unlock()
		if outstanding {
			return v.errOr(ctx)
		}
	}
	select {
	case <-moved:
	case <-ctx.Done():
	case <-time.After(waitSlice):
	}
	return v.errOr(ctx)
}

func (v *Volume) errOr(ctx context.Context) error {
	if err := v.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for room: %w", err)
	}
	return nil
}

// Recovered returns where the state ends that this start found: the last counter of its last complete batch. It is valid from
// Settle on.
func (v *Volume) Recovered() Counter { return v.recovered }

// waitSlice bounds each sleep of a library caller, so that it notices its context and the other's progress.
const waitSlice = 2 * time.Millisecond

// sleepLeading waits for a completion of the device; only the leader may.
func (v *Volume) sleepLeading(d time.Duration) {
	if v.queue.Outstanding() == 0 {
		if v.commit.state.Load() == commitWaiting || !v.commit.retryAt.IsZero() {
			time.Sleep(min(d, 100*time.Microsecond))
		}
		return
	}
	n, err := v.queue.Wait(v.reaped[:], d)
	if err != nil {
		v.fail(ErrFailed, err)
		return
	}
	v.takeCompletions(v.reaped[:n])
}

// Close makes everything durable and committed and stops. It closes neither the device nor the counter service.
func (v *Volume) Close(ctx context.Context) error {
	err := v.Err()
	if err == nil {
		v.mu.Lock()
		last := v.last
		v.mu.Unlock()
		err = v.Wait(ctx, last, LevelFresh)
	}
	closed := fmt.Errorf("%w", ErrClosed)
	v.failure.CompareAndSwap(nil, &closed)
	v.compaction.close() // a step that is under way ends; there is no next one
	v.leader.Lock()
	defer v.leader.Unlock()
	if err == nil {
		err = v.service.Sync(ctx)
	}
	if cerr := v.closeBlobs(); err == nil {
		err = cerr
	}
	if cerr := v.queue.Close(); err == nil {
		err = cerr
	}
	v.wake.close()
	v.notify()
	return err
}
