package volume

import (
	"fmt"
	"time"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// Where blobs lie, and when their blocks are free again. The allocator (space.go) is the leader's, so whoever starts a blob takes
// the leader's lock for a moment.

const (
	blobSyncBytes    = 1 << 28 // freed bytes for which a lagging counter is flushed ahead of its next time
	blobSyncInterval = time.Second
	blobTrimsMax     = 16 // under way at once; the committer's queue has room for more
)

// newBlob makes a blob of so many bytes, with a place, a life of its own and one reference. ErrBusy: blocks that were freed come
// back once their epoch is committed; come again after the next Step. ErrFull, ErrTooLarge.
func (v *Volume) newBlob(size int64, log uint8, tree bool) (*Blob, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	b := &Blob{v: v, size: size, gen: v.gen, chunkLog: log, tree: tree, refs: 1}
	if size <= 0 || size > blobSizeMax || pointerSize(blobExtentsMax, b.tagCount()) > v.MaxRecord() {
		return nil, fmt.Errorf("blob of %d bytes: %w", size, ErrTooLarge)
	}
	v.leader.Lock()
	defer v.leader.Unlock()
	extents, ok := v.space.allocRuns(b.blocks(), v.blobReserve())
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ok {
		if len(t.freed)+len(t.trims) > 0 {
			t.starving = true
			return nil, ErrBusy
		}
		return nil, fmt.Errorf("blob of %d bytes, %d blocks free: %w", size, v.space.blocks(), ErrFull)
	}
	b.extents = extents
	b.tags = make([]ioengine.Tag, b.tagCount())
	for b.ID() == 0 || t.live[b.ID()] != nil { // drawn again once in 2^64 times
		v.random.read(b.life[:])
	}
	t.live[b.ID()] = b
	return b, nil
}

// blobReserve is what a blob must leave free: one more roll of the journal, and the reserve of rolls (roll.go).
func (v *Volume) blobReserve() []device.BlockCount {
	ahead := v.readyAhead() + reserveSegments + 1 // compaction's output
	have := len(v.segments.Load().all())
	var sizes []device.BlockCount
	for range ahead {
		sizes = append(sizes, v.segmentBlocks, manifestBlocks(have+2*ahead))
	}
	return sizes
}

// allocRuns takes n blocks in as few runs as may be, so that runs of the sizes in reserve can still be had. The lowest single run
// that fits comes first, then the longest ones.
func (s *space) allocRuns(n device.BlockCount, reserve []device.BlockCount) ([]extent, bool) {
	trial := space{free: append([]extent(nil), s.free...)}
	for _, r := range reserve {
		if !trial.dropLast(r) {
			return nil, false
		}
	}
	var list []extent
	if lba, ok := trial.alloc(n); ok {
		list = append(list, extent{lba, n})
		n = 0
	}
	for n > 0 && len(list) < blobExtentsMax {
		x, ok := trial.longest(n)
		if !ok {
			return nil, false
		}
		list = append(list, x)
		n -= x.n
	}
	if n > 0 {
		return nil, false
	}
	for _, x := range list {
		if !s.take(x) {
			panic("internal error: a run that was free is not")
		}
	}
	return list, true
}

// dropLast takes a run of n blocks from the end of the highest free run that has room, out of the way of what is allocated from
// the front.
func (s *space) dropLast(n device.BlockCount) bool {
	for i := len(s.free) - 1; i >= 0; i-- {
		if s.free[i].n >= n {
			s.free[i].n -= n
			return true
		}
	}
	return false
}

// longest takes the longest free run, or the front of it if that is enough.
func (s *space) longest(want device.BlockCount) (extent, bool) {
	best := extent{}
	for _, e := range s.free {
		if e.n > best.n {
			best = e
		}
	}
	best.n = min(best.n, want)
	return best, best.n > 0 && s.take(best)
}

// blobTrim is one extent on its way to the device, which is told that it is no longer needed.
type blobTrim struct {
	x    extent
	sent bool
	done bool
}

// releaseBlobs gives back the blocks of blobs without references once the epoch that freed them is committed, durably
// (DESIGN.md 6.2; no superblock lists them, and readers hold references). They are trimmed first, and free only then: a trim
// must not overtake the next write. The leader calls it in each step.
func (v *Volume) releaseBlobs() {
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	v.trimmed()
	for len(t.freed) > 0 && len(t.trims) < blobTrimsMax && v.failure.Load() == nil && !v.heldLocked() {
		b := t.freed[0]
		if !v.freedForGood(b.freedBy) && !mutant.On(mutant.FreeBlobEarly) {
			break
		}
		t.freed[0] = nil
		t.freed = t.freed[1:]
		for _, x := range b.extents {
			t.trims = append(t.trims, blobTrim{x: x})
		}
	}
	sent := 0
	for i := range t.trims {
		x := &t.trims[i]
		if sent++; sent > blobTrimsMax || v.failure.Load() != nil {
			break
		}
		if !x.sent {
			x.sent = true
			v.submit(device.Request{Op: device.OpTrim, LBA: x.x.lba, Count: x.x.n, Token: tokenTrim | uint64(x.x.lba)<<8})
		}
	}
}

// trimmed gives back what the device has trimmed.
func (v *Volume) trimmed() {
	t := &v.blobs
	kept := t.trims[:0]
	for _, x := range t.trims {
		if !x.done {
			kept = append(kept, x)
			continue
		}
		v.space.release(x.x)
		v.moved, t.starving = true, false // whoever waits for room may try again
		if v.roll.step == rollIdle {
			v.roll.retryAt = 0
		}
	}
	t.trims = kept
}

func (t *blobTable) trimDone(lba device.LBA) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.trims {
		if t.trims[i].x.lba == lba && t.trims[i].sent {
			t.trims[i].done = true
		}
	}
}

// freedForGood reports whether what the record with counter c freed can be used again: it is committed, and the counter knows it
// durably. A counter that lags behind its answers is flushed for it when much waits, or somebody does, or from time to time.
func (v *Volume) freedForGood(c Counter) bool {
	if c <= v.commit.synced.complete {
		return true
	}
	if c > v.settled().complete {
		return false
	}
	t := &v.blobs
	now := v.clock.Monotonic()
	if t.synced.set && now-t.synced.t < blobSyncInterval && !t.starving && t.waitingBytes() < blobSyncBytes {
		return false
	}
	t.synced = timeOrNone{now, true}
	if err := v.syncCounter(); err != nil {
		v.fail(ErrFailed, err)
		return false
	}
	return c <= v.commit.synced.complete
}

func (t *blobTable) waitingBytes() (n int64) {
	for _, b := range t.freed {
		if n += b.size; n >= blobSyncBytes {
			break
		}
	}
	return n
}
