package volume

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// rollState replaces the manifest while the volume serves, off the commit path, in the order of DESIGN.md 6.1: room is laid out;
// summaries are durable; a manifest is durable that names them, lists the segments to be opened, and no longer lists those that
// compaction has emptied; a frame that names that manifest is durable; the counter is durable; the superblock is durable. Only
// then may frames enter the new segments, and what the old ones took be freed. One roll at a time; each step is a request to the
// device that Step picks up. What goes into a roll: rollplan.go.
type rollState struct {
	step      rollStep
	segments  []*segment        // to be opened
	summaries []*rollSummary    // to be written
	dropped   map[*segment]bool // no longer listed
	manifest  extent
	tag       [32]byte
	buf       []byte                // of the request in flight
	writing   [tokenSummary + 1]int // pieces in flight, by token
	namedIn   uint64                // number of the frame that names the manifest
	retryAt   time.Duration
}

// rollSummary is a summary on its way to the device.
type rollSummary struct {
	seg *segment
	ref summaryRef
	buf []byte
}

type rollStep int

const (
	rollIdle      rollStep = iota
	rollReserving          // the device lays out the room
	rollSummaries          // summaries are being written
	rollManifest           // the manifest is being written
	rollNaming             // it waits for a frame to name it
	rollNamed              // that frame is on its way
	rollNameDurable
	rollSuperblock // the superblock is being written
	rollDone
)

const (
	rollRetry = time.Second
	rollPoll  = 2 * time.Millisecond
)

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
	if r.writing[token]--; r.writing[token] > 0 {
		return
	}
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
	if r.step == rollSummaries && (r.writing[tokenSummary] == 0 || mutant.On(mutant.ManifestBeforeSummary)) {
		v.writeRollManifest()
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
	v.spare.Store(uint64(v.space.blocks()))
	var coming device.BlockCount
	for _, e := range v.emptied {
		coming += e.seg.taken
	}
	for _, f := range v.freed {
		for _, x := range f.extents {
			coming += x.n
		}
	}
	v.coming.Store(uint64(coming))
}

// reserveRoll waits for the device to lay out the room, then writes the summaries.
func (v *Volume) reserveRoll() {
	r := &v.roll
	top := r.manifest.end()
	for _, s := range r.segments {
		top = max(top, s.lba+device.LBA(v.segmentBlocks))
	}
	for _, s := range r.summaries {
		top = max(top, s.ref.extent().end())
	}
	now := v.clock.Monotonic()
	done, err := v.dev.Reserve(device.BlockCount(top))
	if err != nil {
		v.log.Warn().Err(err).Msg("no room below the volume")
		v.abandonRoll()
		r.retryAt = now + rollRetry
		v.rollFull()
		return
	}
	if !done {
		r.retryAt = now + rollPoll
		return
	}
	r.retryAt, r.step = 0, rollSummaries
	for _, s := range r.summaries {
		if s.buf, err = v.allocDMA(s.ref.blocks); err == nil {
			err = v.encodeSummary(s.seg, &s.ref, s.buf)
		}
		if err != nil {
			v.fail(ErrFailed, err)
			return
		}
		v.stats.summaryBytes += uint64(len(s.buf))
		v.submitMeta(s.ref.lba, s.buf, tokenSummary)
	}
}

// abandonRoll gives back what a roll took before it wrote anything.
func (v *Volume) abandonRoll() {
	r := &v.roll
	for _, s := range r.segments {
		v.space.release(extent{s.lba, v.segmentBlocks})
	}
	for _, s := range r.summaries {
		v.space.release(s.ref.extent())
	}
	v.space.release(r.manifest)
	*r = rollState{}
}

func (v *Volume) writeRollManifest() {
	r := &v.roll
	for _, s := range r.summaries {
		v.freeDMA(s.buf)
		s.buf = nil
	}
	m := v.manifestOf(v.gen, append(v.keptSegments(), r.segments...))
	for i := range m.segments {
		for _, s := range r.summaries {
			if m.segments[i].lba == s.seg.lba {
				m.segments[i].summary, m.segments[i].last = s.ref, s.seg.last
			}
		}
	}
	buf, tag, err := v.encodeManifest(m, r.manifest.n)
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
	v.roll.writing[token] += v.submitWrite(lba, buf, true, token)
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

// finishRoll takes note that the new superblock is durable.
func (v *Volume) finishRoll() {
	r := &v.roll
	v.freeDMA(r.buf)
	v.slot = 1 - v.slot
	v.sbSeq++
	// What only the overwritten slot referred to, and what the new one no longer lists, is free once the frame that named the new
	// manifest is committed: from then on recovery takes no older one (DESIGN.md 6.2).
	f := freedExtents{seq: r.namedIn, extents: v.slotRefs[v.slot]}
	for s := range r.dropped {
		f.extents = append(f.extents, extent{s.lba, s.taken}, s.summary.extent())
		f.segments = append(f.segments, s)
	}
	v.freed = append(v.freed, f)
	v.slotRefs[v.slot] = []extent{r.manifest}
	for _, s := range r.summaries {
		s.seg.summary, s.seg.listing = s.ref, nil
		s.seg.hasSummary.Store(true)
	}
	v.plain = append(v.plain[:0], v.plain[len(r.summaries):]...)
	v.emptied = slices.DeleteFunc(v.emptied, func(e emptied) bool { return r.dropped[e.seg] })
	v.publishRoll()
}

func (v *Volume) publishRoll() {
	r := &v.roll
	v.changeSegments(func(s *segment) bool { return r.dropped[s] }, r.segments...)
	v.plain = append(v.plain, r.segments...)
	v.mu.Lock()
	v.ready = append(v.ready, r.segments...)
	if len(r.segments) > 0 {
		v.wantReady, v.wantReserve = 1, false
		if v.noSpace && !r.segments[0].reserve {
			v.roomAgainLocked()
		}
	}
	v.mu.Unlock()
	*r = rollState{}
	v.moved = true // whoever waits for a segment may go on
}
