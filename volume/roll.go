package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// rollState opens the next segments ahead of need, off the commit path, in the order of DESIGN.md 6.1: room is laid out; a
// manifest that lists them is durable; a frame that names that manifest is durable; the counter is durable; the superblock is
// durable; only then may frames enter them. One roll at a time; each step is a request to the device that Step picks up.
type rollState struct {
	step     rollStep
	segments []*segment
	manifest extent
	tag      [32]byte
	buf      []byte // of the request in flight
	namedIn  uint64 // number of the frame that names the manifest
	retryAt  time.Duration
}

type rollStep int

const (
	rollIdle      rollStep = iota
	rollReserving          // the device lays out the room
	rollManifest           // the manifest is being written
	rollNaming             // it waits for a frame to name it
	rollNamed              // that frame is on its way
	rollNameDurable
	rollSuperblock // the superblock is being written
	rollDone
)

// freedExtents are free once the frame numbered seq is committed, and the counter knows it durably (DESIGN.md 6.2).
type freedExtents struct {
	seq     uint64
	extents []extent
}

const (
	rollRetry = time.Second
	rollPoll  = 2 * time.Millisecond
)

// reserveSegments is how many opening segments a running volume always leaves room for, so that it can be started again.
const reserveSegments = 2

// nameIn tells the frame that is about to be sealed which manifest it names.
func (r *rollState) nameIn(f *frame) [32]byte {
	if r.step != rollNaming {
		return [32]byte{}
	}
	r.step = rollNamed
	return r.tag
}

func (r *rollState) wantsFrame() bool { return r.step == rollNaming }

func (r *rollState) frameDurable(f *frame) {
	if r.step == rollNamed && f.manifest == r.tag {
		r.step, r.namedIn = rollNameDurable, f.seq
	}
}

func (r *rollState) done(token int) {
	switch {
	case r.step == rollManifest && token == tokenManifest:
		r.step = rollNaming
	case r.step == rollSuperblock && token == tokenSuperblock:
		r.step = rollDone
	}
}

func (r *rollState) deadline() (time.Duration, bool) {
	switch {
	case r.step == rollReserving:
		return r.retryAt, true
	case r.step == rollIdle && r.retryAt != 0:
		return r.retryAt, true
	}
	return 0, false
}

// rollStep takes the roll as far as it goes without waiting.
func (v *Volume) rollStep() {
	if v.failure.Load() != nil {
		return
	}
	r := &v.roll
	if r.step == rollIdle {
		v.releaseFreed()
		v.startRoll()
	}
	if r.step == rollReserving {
		v.reserveRoll()
	}
	if r.step == rollNaming { // the manifest is durable: name it now rather than at the next change
		v.submitStep()
	}
	if mutant.On(mutant.UseSegmentEarly) && r.step == rollNamed {
		v.publishRoll()
		return
	}
	if r.step == rollNameDurable {
		v.writeRollSuperblock()
	}
	if r.step == rollDone {
		v.finishRoll()
	}
}

// readyAhead is how many segments are kept open ahead: two where they are a small part of the volume, so that a writer that
// fills one faster than the next is laid out has another.
func (v *Volume) readyAhead() int {
	if v.blocks/v.segmentBlocks >= 64 {
		return 2
	}
	return 1
}

// startRoll picks the places, if segments are wanted and there is room beyond the reserve.
func (v *Volume) startRoll() {
	r := &v.roll
	v.mu.Lock()
	missing := max(v.wantReady, v.readyAhead()) - len(v.ready)
	v.mu.Unlock()
	now := v.clock.Monotonic()
	if missing <= 0 || now < r.retryAt {
		return
	}
	for missing > 0 && !v.holdsRoll(missing) {
		missing-- // what there is room for, rather than nothing
	}
	if missing == 0 {
		v.rollFull(now)
		return
	}
	// In the order in which holdsRoll tried it, so that what fitted there fits here.
	n := manifestBlocks(len(*v.segments.Load()) + missing)
	r.manifest = extent{v.space.mustAlloc(n), n}
	for range missing {
		lba := v.space.mustAlloc(v.segmentBlocks)
		var life [32]byte
		v.random.read(life[:])
		s, err := v.newSegment(lba, v.gen, life)
		if err != nil {
			v.fail(ErrFailed, err)
			return
		}
		r.segments = append(r.segments, s)
	}
	r.step, r.retryAt = rollReserving, now
}

// holdsRoll reports whether n more segments and their manifest fit beside the reserve.
func (v *Volume) holdsRoll(n int) bool {
	have := len(*v.segments.Load())
	sizes := []device.BlockCount{manifestBlocks(have + n)}
	for range n + reserveSegments {
		sizes = append(sizes, v.segmentBlocks)
	}
	for range reserveSegments {
		sizes = append(sizes, manifestBlocks(have+n+2*reserveSegments))
	}
	return sizes[0] <= mfBlocksMax && v.space.holds(sizes...)
}

// rollFull says that there is no next segment, until the next try.
func (v *Volume) rollFull(now time.Duration) {
	v.roll.retryAt = now + rollRetry
	v.mu.Lock()
	first := !v.noSpace
	v.noSpace, v.wantReady = true, 1
	v.mu.Unlock()
	if first {
		v.moved = true // whoever waits for room learns that there is none
		v.log.Warn().Uint64("free_blocks", uint64(v.space.blocks())).Msg("the volume is full: no room for another segment")
	}
}

// reserveRoll waits for the device to lay out the room, then writes the manifest.
func (v *Volume) reserveRoll() {
	r := &v.roll
	top := r.manifest.end()
	for _, s := range r.segments {
		top = max(top, s.lba+device.LBA(v.segmentBlocks))
	}
	now := v.clock.Monotonic()
	done, err := v.dev.Reserve(device.BlockCount(top))
	if err != nil {
		v.log.Warn().Err(err).Msg("no room below the volume")
		for _, s := range r.segments {
			v.space.release(extent{s.lba, v.segmentBlocks})
		}
		v.space.release(r.manifest)
		*r = rollState{}
		v.rollFull(now)
		return
	}
	if !done {
		r.retryAt = now + rollPoll
		return
	}
	r.retryAt = 0
	list := append([]*segment(nil), *v.segments.Load()...)
	buf, tag, err := v.encodeManifest(v.manifestOf(v.gen, append(list, r.segments...)), r.manifest.n)
	if err != nil {
		v.fail(ErrFailed, err)
		return
	}
	r.buf, r.tag, r.step = buf, tag, rollManifest
	v.submitMeta(r.manifest.lba, buf, tokenManifest)
}

func (v *Volume) encodeManifest(m *manifest, n device.BlockCount) ([]byte, [32]byte, error) {
	buf, err := v.allocDMA(n)
	if err != nil {
		return nil, [32]byte{}, err
	}
	var salt [32]byte
	v.random.read(salt[:])
	tag, err := m.encode(v.keys, v.id, salt, buf)
	return buf, tag, err
}

func (v *Volume) encodeSuperblock(s *superblock) ([]byte, error) {
	buf, err := v.allocDMA(1)
	if err != nil {
		return nil, err
	}
	var salt [32]byte
	v.random.read(salt[:])
	return buf, s.encode(v.keys, salt, buf)
}

func (v *Volume) submitMeta(lba device.LBA, buf []byte, token uint64) {
	v.stats.bytesWritten += uint64(len(buf))
	v.submit(device.Request{Op: device.OpWrite, Through: true, LBA: lba, Buf: buf, Token: token})
}

// syncTimeout bounds a flush of the counter's own store.
const syncTimeout = 10 * time.Second

func (v *Volume) syncCounter() error {
	if mutant.On(mutant.CounterNotSynced) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncTimeout)
	defer cancel()
	point := v.settled()
	if err := v.service.Sync(ctx); err != nil {
		return fmt.Errorf("flush of the trusted counter: %w", err)
	}
	v.commit.synced = point
	return nil
}

func (v *Volume) writeRollSuperblock() {
	r := &v.roll
	v.freeDMA(r.buf)
	r.buf = nil
	if err := v.syncCounter(); err != nil {
		v.fail(ErrFailed, err)
		return
	}
	s := v.superblockFor(1-v.slot, r.manifest, r.tag)
	buf, err := v.encodeSuperblock(&s)
	if err != nil {
		v.fail(ErrFailed, err)
		return
	}
	r.buf, r.step = buf, rollSuperblock
	v.submitMeta(device.LBA(s.slot), buf, tokenSuperblock)
}

func (v *Volume) superblockFor(slot int, m extent, tag [32]byte) superblock {
	return superblock{
		volume: v.id, seq: v.sbSeq + 1, gen: v.gen, slot: slot, segmentBlocks: v.segmentBlocks, blocks: v.blocks,
		manifestLBA: m.lba, manifestBlocks: m.n, manifestTag: tag,
	}
}

// finishRoll makes the new segments usable: the superblock that lists them is durable.
func (v *Volume) finishRoll() {
	r := &v.roll
	v.freeDMA(r.buf)
	v.slot = 1 - v.slot
	v.sbSeq++
	// What only the overwritten slot referred to is free once the frame that named the new manifest is committed.
	if refs := v.slotRefs[v.slot]; len(refs) > 0 {
		v.freed = append(v.freed, freedExtents{r.namedIn, refs})
	}
	v.slotRefs[v.slot] = []extent{r.manifest}
	v.publishRoll()
}

func (v *Volume) publishRoll() {
	r := &v.roll
	v.addSegments(r.segments...)
	v.mu.Lock()
	v.ready = append(v.ready, r.segments...)
	v.wantReady, v.noSpace = 1, false
	v.mu.Unlock()
	*r = rollState{}
	v.moved = true // whoever waits for a segment may go on
}

// releaseFreed gives back what committed epochs freed.
func (v *Volume) releaseFreed() {
	n := 0
	for _, f := range v.freed {
		if f.seq > v.commit.synced.seq && !mutant.On(mutant.FreeEarly) {
			break
		}
		for _, x := range f.extents {
			v.space.release(x)
		}
		n++
	}
	v.freed = append(v.freed[:0], v.freed[n:]...)
}

var errNoOpening = errors.New("no room for an opening segment")
