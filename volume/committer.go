package volume

import (
	"fmt"
	"time"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// Tokens of the committer's requests: what it was in the low byte, which frame above.
const (
	tokenFrame = iota + 1
	tokenManifest
	tokenSuperblock
	tokenSummary
	tokenTrim      // which block above
	tokenBlobFlush // which blobs above
)

// flushInterval is how long an unasked-for change may wait in memory (DESIGN.md 4.1).
const flushInterval = time.Second

// Step leads one commit step, without waiting: it reaps what the device completed, commits the durable prefix to the counter
// when the epoch rule says so, seals and submits the next frame if somebody waits for it, and opens the next segment ahead.
// It reports whether a watermark moved or the volume failed. If another goroutine is leading, that one takes another round.
func (v *Volume) Step() bool {
	moved := false
	for {
		v.kick.Store(false)
		if !v.leader.TryLock() {
			v.kick.Store(true)
			if !v.leader.TryLock() {
				return moved
			}
		}
		moved = v.lead() || moved
		v.leader.Unlock()
		if !v.kick.Load() {
			break
		}
	}
	if moved {
		v.notify()
	}
	return moved
}

func (v *Volume) lead() bool {
	v.moved = false
	if v.failure.Load() != nil {
		v.reap() // buffers come home, no more
		return v.moved
	}
	v.wake.drain()
	v.reap()
	v.commitStep()
	v.submitStep()
	v.rollStep()
	v.commitStep()
	v.flushBlobs()
	v.releaseBlobs()
	return v.moved
}

func (v *Volume) reap() {
	for v.queue.Outstanding() > 0 {
		n, err := v.queue.Poll(v.reaped[:])
		if err != nil {
			v.fail(ErrFailed, err)
			return
		}
		v.takeCompletions(v.reaped[:n])
		if n < len(v.reaped) {
			return
		}
	}
}

func (v *Volume) takeCompletions(done []device.Completion) {
	for _, c := range done {
		if c.Err != nil && mutant.On(mutant.IgnoreWriteError) {
			c.Err = nil
		}
		if c.Err != nil && c.Token&0xff != tokenTrim { // a trim is advice
			v.fail(ErrFailed, c.Err)
			continue
		}
		switch c.Token & 0xff {
		case tokenFrame:
			v.frameDone(c.Token >> 8)
		case tokenManifest, tokenSuperblock, tokenSummary:
			v.roll.done(int(c.Token & 0xff))
		case tokenTrim:
			v.blobs.trimDone(device.LBA(c.Token >> 8))
		case tokenBlobFlush:
			v.blobsFlushed(c.Token >> 8)
		}
	}
	v.submitBacklog()
	v.advanceDurable()
}

func (v *Volume) frameDone(seq uint64) {
	for _, f := range v.inflight {
		if f.seq == seq {
			if f.writing--; f.writing > 0 {
				return
			}
			f.done = true
			if mutant.On(mutant.DurableNotPrefix) {
				v.durablePoint = f.point()
				v.durable.Store(max(v.durable.Load(), uint64(f.complete)))
			}
			return
		}
	}
}

// advanceDurable moves the durable watermark over the frames that are done together with all before them (DESIGN.md 4.2).
func (v *Volume) advanceDurable() {
	n := 0
	for n < len(v.inflight) && v.inflight[n].done {
		n++
	}
	if n == 0 || v.failure.Load() != nil {
		return
	}
	v.mu.Lock()
	for _, f := range v.inflight[:n] {
		v.durablePoint = f.point()
		v.roll.frameDurable(f)
		v.freeDMA(f.dma)
		v.forgetLocked(f)
	}
	v.mu.Unlock()
	v.inflight = append(v.inflight[:0], v.inflight[n:]...)
	v.durable.Store(uint64(v.durablePoint.complete))
	v.raiseFresh()
	if mutant.On(mutant.AckBeforeCommit) {
		v.fresh.Store(uint64(v.durablePoint.complete))
	}
	v.moved = true
}

// submitStep seals and submits frames: those that are closed, and the open one if somebody waits for it or it is old.
func (v *Volume) submitStep() {
	through := 0
	for len(v.inflight) < v.opts.FramesInFlight && v.failure.Load() == nil {
		f := v.nextFrame()
		if f == nil {
			return
		}
		f.manifest = v.roll.nameIn(f)
		if err := v.sealFrame(f); err != nil {
			v.fail(ErrFailed, err)
			return
		}
		v.sealedLast, v.sealedPoint = f.last, f.point()
		if len(f.spans) > 0 {
			v.pressure.frameOut(v.clock.Monotonic())
		}
		v.stats.frames++
		if w, ok := v.writesThrough(f); ok {
			v.writeThroughNow(w, f)
			if through++; through == throughFramesMax {
				return // Deadline asks for another step at once
			}
			continue
		}
		v.inflight = append(v.inflight, f)
		f.writing = v.submitWrite(f.lba(), f.dma, !mutant.On(mutant.SkipFlush), tokenFrame|f.seq<<8)
		if mutant.On(mutant.AckBeforeDurable) {
			v.durable.Store(uint64(f.complete))
			v.fresh.Store(uint64(f.complete))
		}
	}
}

// nextFrame takes the next frame to seal, or nil.
func (v *Volume) nextFrame() *frame {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.closed) == 0 {
		switch {
		case v.open != nil && len(v.open.spans) > 0 && v.openIsDueLocked():
			v.closeFrameLocked()
		case v.roll.wantsFrame():
			// A manifest waits to be named: any frame does, if need be an empty one.
			if v.open == nil {
				if v.tailBlock == v.segmentBlocks { // full, so another segment is ready: roomLocked keeps places otherwise
					v.nextSegmentLocked()
				}
				v.newFrameLocked(0)
			}
			v.closeFrameLocked()
		default:
			return nil
		}
	}
	f := v.closed[0]
	v.closed = append(v.closed[:0], v.closed[1:]...)
	return f
}

func (v *Volume) openIsDueLocked() bool {
	sealed := uint64(v.sealedLast)
	return v.pushMoves.Load() || v.wantNew.Load() > sealed || v.wantDur.Load() > sealed || v.epochs.end() > v.sealedLast || v.roll.wantsFrame() ||
		len(v.open.buf) >= v.opts.FrameBytes || v.clock.Monotonic()-v.open.since >= flushInterval
}

// Deadline says how long a sleeper may wait before the next Step even if no descriptor of Fds becomes readable.
func (v *Volume) Deadline() (time.Duration, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock.Monotonic()
	until, set := time.Duration(0), false
	at := func(t time.Duration) {
		if d := max(t-now, 0); !set || d < until {
			until, set = d, true
		}
	}
	if v.open != nil && len(v.open.spans) > 0 {
		at(v.open.since + flushInterval)
	}
	closed := len(v.closed) > 0
	if v.leader.TryLock() { // a leader that is at work sets its own
		if v.failure.Load() == nil {
			if t, ok := v.commitDeadline(); ok {
				at(t)
			}
			if t, ok := v.roll.deadline(); ok {
				at(t)
			}
			if len(v.inflight) == 0 && (closed || v.open != nil && len(v.open.spans) > 0 && v.openIsDueLocked()) {
				at(now) // nothing is on its way that would wake anybody
			}
			if v.queue.Fd() < 0 && v.queue.Outstanding() > 0 {
				at(now) // a queue that must be polled
			}
		}
		v.leader.Unlock()
		if v.kick.Load() { // somebody wanted to lead meanwhile
			at(now)
		}
	}
	return until, set
}

// Fds returns the descriptors to poll for readability before the next Step.
func (v *Volume) Fds() []int {
	var fds []int
	if fd := v.queue.Fd(); fd >= 0 {
		fds = append(fds, fd)
	}
	if fd := v.wake.fd(); fd >= 0 {
		fds = append(fds, fd)
	}
	return fds
}

// allocDMA returns a buffer of exactly n blocks; freeDMA keeps a few of each size.
func (v *Volume) allocDMA(n device.BlockCount) ([]byte, error) {
	class := dmaClass(n)
	if spare := v.spareDMA[class]; len(spare) > 0 {
		v.spareDMA[class] = spare[:len(spare)-1]
		return spare[len(spare)-1][:n.Bytes():class.Bytes()], nil
	}
	b, err := v.dev.Alloc(class)
	if err != nil {
		return nil, fmt.Errorf("DMA buffer of %d blocks: %w", class, err)
	}
	return b[:n.Bytes():class.Bytes()], nil
}

func (v *Volume) freeDMA(b []byte) {
	b = b[:cap(b)]
	class := blocksOf(len(b))
	if class.Bytes() <= 2*v.opts.FrameBytes && len(v.spareDMA[class]) < 2*v.opts.FramesInFlight {
		v.spareDMA[class] = append(v.spareDMA[class], b)
		return
	}
	v.dev.Free(b)
}

// dmaClass rounds a size up to a power of two.
func dmaClass(n device.BlockCount) device.BlockCount {
	c := device.BlockCount(1)
	for c < n {
		c *= 2
	}
	return c
}
