package volume

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// recovered is the state that recovery accepted: the end of the one chain that contains the committed tag, by the manifest
// that this path names (DESIGN.md 6.4.2).
type recovered struct {
	sb       *superblock // nil: at birth there is none
	manifest *manifest
	segments []*segment // those with accepted frames, in chain order
	last     frameHeader
	lastLBA  device.LBA
	floor    Counter // what the counter service has seen: the opening frame is above it
	tag      epoch.Tag
	frames   int
	records  int
}

// refusal says why one superblock's state was not accepted, and how far its chain reached.
type refusal struct {
	err  error
	last Counter
}

// recoverState reads the disk and accepts the state that belongs to the counter's, or refuses.
func (v *Volume) recoverState(t epoch.State) (*recovered, error) {
	candidates, reasons, err := v.readSuperblocks()
	if err != nil {
		return nil, err
	}
	var newest Counter
	for i, sb := range candidates {
		if i > 0 && mutant.On(mutant.NewestSlotOnly) {
			break
		}
		r, refused := v.tryCandidate(sb, t)
		if refused == nil {
			return r, nil
		}
		if errors.Is(refused.err, errUnread) {
			return nil, refused.err
		}
		newest = max(newest, refused.last)
		reasons = append(reasons, refused.err)
	}
	return nil, fmt.Errorf("%w: the trusted counter is at %d (committed by generation %d), and no state on the volume ends there: "+
		"the newest one found ends at %d. The volume is older than its counter, is not the counter's, or was damaged. Put the right "+
		"volume back, or restore from an export. Details: %w", ErrRollback, t.Value, t.Gen, newest, errors.Join(reasons...))
}

// errUnread marks that the device did not read, or memory ran out. That says nothing about the state: neither is it a rollback,
// nor may another superblock be tried, whose older manifest could miss the last durable frames.
var errUnread = errors.New("recovery could not read the volume; nothing was changed, start again when the device reads")

// examineRead is readInto for recovery.
func (v *Volume) examineRead(buf []byte, lba device.LBA) error {
	if err := v.readInto(buf, lba); err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	return nil
}

func (v *Volume) readSuperblocks() (list []*superblock, reasons []error, err error) {
	buf, err := v.allocDMA(superblockSlots)
	if err != nil {
		return nil, nil, err
	}
	defer v.freeDMA(buf)
	if err := v.examineRead(buf, 0); err != nil {
		return nil, nil, err
	}
	for slot := range superblockSlots {
		private := append([]byte(nil), buf[slot*device.BlockSize:][:sbSize]...)
		sb, err := decodeSuperblock(v.keys, private, slot)
		switch {
		case err != nil:
			reasons = append(reasons, err)
		case sb.manifestLBA == 0:
			reasons = append(reasons, fmt.Errorf("superblock slot %d: only a claim, no state", slot))
		default:
			list = append(list, sb)
		}
	}
	slices.SortFunc(list, func(a, b *superblock) int { return int(int64(b.seq) - int64(a.seq)) })
	return list, reasons, nil
}

// tryCandidate follows the chain by one superblock's manifest and replays what it accepts.
func (v *Volume) tryCandidate(sb *superblock, t epoch.State) (*recovered, *refusal) {
	v.blobs.reset()
	for _, s := range v.opts.Stores {
		s.Reset()
	}
	refuse := func(last Counter, err error) (*recovered, *refusal) {
		return nil, &refusal{fmt.Errorf("superblock slot %d (sequence %d, generation %d): %w", sb.slot, sb.seq, sb.gen, err), last}
	}
	info := v.dev.Info()
	if sb.blocks > info.BlocksMax || sb.manifestBlocks > mfBlocksMax || sb.manifestBlocks == 0 ||
		sb.manifestLBA < superblockSlots || uint64(sb.manifestLBA)+uint64(sb.manifestBlocks) > uint64(info.Blocks) {
		return refuse(0, fmt.Errorf("it describes %d blocks and a manifest at %d, the device has %d: %w", sb.blocks, sb.manifestLBA, info.Blocks, ErrCorrupt))
	}
	buf, err := v.allocDMA(sb.manifestBlocks)
	if err != nil {
		return refuse(0, fmt.Errorf("%w: %w", errUnread, err))
	}
	err = v.examineRead(buf, sb.manifestLBA)
	var m *manifest
	if err == nil {
		m, err = decodeManifest(v.keys, sb, buf)
	}
	v.freeDMA(buf)
	if err != nil {
		return refuse(0, err)
	}
	v.id, v.segmentBlocks = sb.volume, sb.segmentBlocks
	v.deriveVolumeKeys()
	w := &walker{v: v, r: &recovered{sb: sb, manifest: m}, t: t, sbTag: sb.manifestTag}
	began := v.clock.Monotonic()
	phase := func(d *time.Duration) {
		now := v.clock.Monotonic()
		*d, began = now-began, now
	}
	if err := w.walk(); err != nil {
		return refuse(w.r.last.last, err)
	}
	phase(&v.recovery.Chain)
	switch {
	case !w.found && !mutant.On(mutant.AcceptOlderTag):
		return refuse(w.r.last.last, errors.New("the chain does not contain the committed tag"))
	case !w.named && !mutant.On(mutant.AcceptOlderManifest):
		return refuse(w.r.last.last, errors.New("its manifest is not named by the accepted chain"))
	}
	if err := v.readSummaries(w.r.segments); err != nil {
		return refuse(w.r.last.last, err)
	}
	phase(&v.recovery.Summaries)
	if err := v.settle(w.r); err != nil {
		return refuse(w.r.last.last, err)
	}
	phase(&v.recovery.Settle)
	return w.r, nil
}

// settle lets the stores add up what they hold, and compares the sum with the one in the last accepted frame (6.4.4).
func (v *Volume) settle(r *recovered) error {
	v.recovered = r.last.complete
	d := &Delta{segments: r.segments}
	for _, s := range v.opts.Stores {
		if err := s.Settle(v, d); err != nil {
			return err
		}
	}
	if d.sum != r.last.set && !mutant.On(mutant.DropMultiset) {
		return fmt.Errorf("the multiset hash of all live items does not agree: %w", ErrCorrupt)
	}
	return nil
}

// walker follows one chain and replays its records.
type walker struct {
	v     *Volume
	r     *recovered
	t     epoch.State
	sbTag [32]byte
	found bool // the committed tag was met
	named bool // an accepted frame names the manifest

	inherit bool // no record was met yet, and the segment before has a summary
	anyPrev bool // the segment at hand is the first that is followed: its predecessor may be gone
	batch   *openBatch
}

// openBatch collects the parts of a batch that spans frames; it is applied when its end comes, or never (DESIGN.md 4.8).
type openBatch struct {
	inherited bool // it began in a segment with a summary, so it has ended: that is when summaries are written
	records   []openedRecord
	seg       []*segment
}

// holds reports whether the batch has as many parts as its end says.
func (b *openBatch) holds(parts uint64) bool {
	n := uint64(len(b.records))
	return parts == n || b.inherited && parts > n
}

// walk follows the chain from the first segment without a summary.
func (w *walker) walk() error {
	v := w.v
	if err := w.summarised(); err != nil {
		return err
	}
	win, err := v.newWindow()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	defer win.close()
	w.anyPrev, w.inherit = true, len(w.r.segments) > 0
	for i, ms := range w.r.manifest.segments[len(w.r.segments):] {
		seg, err := v.newSegment(ms.lba, ms.gen, ms.life)
		if err != nil {
			return err
		}
		limit := v.segmentBlocks
		if ms.end > 0 {
			limit = ms.end
		}
		if uint64(ms.lba)+uint64(limit) > uint64(v.dev.Info().Blocks) {
			return fmt.Errorf("segment %d at block %d: not on the device: %w", i, ms.lba, ErrCorrupt)
		}
		win.start(ms.lba, limit)
		stop, err := w.walkSegment(seg, win, ms)
		if err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		if stop {
			return nil
		}
		w.anyPrev = false
	}
	return nil
}

// summarised takes the segments whose frames need not be read: those before the first one without a summary. Their manifest
// vouches for them; it was written when all their frames were committed, so the committed tag is the last of them or comes later.
func (w *walker) summarised() error {
	for i, ms := range w.r.manifest.segments {
		if ms.summary.lba == 0 {
			break
		}
		if uint64(ms.lba)+uint64(ms.end) > uint64(w.v.dev.Info().Blocks) ||
			uint64(ms.summary.lba)+uint64(ms.summary.blocks) > uint64(w.v.dev.Info().Blocks) {
			return fmt.Errorf("segment %d at block %d or its summary: not on the device: %w", i, ms.lba, ErrCorrupt)
		}
		seg, err := w.v.newSegment(ms.lba, ms.gen, ms.life)
		if err != nil {
			return err
		}
		seg.end, seg.taken, seg.lastTag, seg.last, seg.closed = ms.end, ms.end, ms.lastTag, ms.last, true
		seg.summary, seg.listing = ms.summary, nil
		seg.hasSummary.Store(true)
		w.addSegment(seg)
		w.r.tag = ms.lastTag
		if ms.lastTag == w.t.Tag {
			if ms.last != w.t.Value {
				return fmt.Errorf("segment %d: it ends with the committed tag, but counter %d: %w", i, ms.last, ErrCorrupt)
			}
			w.found = true
		} else {
			w.found = false
		}
	}
	return nil
}

func (w *walker) addSegment(seg *segment) {
	w.r.segments = append(w.r.segments, seg)
	seg.ordinal = uint32(len(w.r.segments))
	seg.closed = true // of an earlier generation: no frame will follow here
}

// walkSegment takes the frames of one segment. An open segment ends where no valid chained frame stands; a closed one must end
// where the manifest says.
func (w *walker) walkSegment(seg *segment, win *window, ms manifestSegment) (stop bool, err error) {
	closed := ms.end > 0
	var block device.BlockCount
	for block < win.limit {
		shared, err := win.frame(seg, block)
		if err != nil {
			return false, err
		}
		prev := w.r.tag
		if w.anyPrev && block == 0 {
			prev = firstPredecessor(seg, shared)
		}
		f, err := openFrameAt(seg, block, shared, prev)
		if err != nil {
			if closed {
				return false, err
			}
			break
		}
		if !w.accepts(&f.header) {
			return true, nil
		}
		if block == 0 {
			w.addSegment(seg)
		}
		if err := w.accept(seg, block, f); err != nil {
			return false, err
		}
		block += f.header.blocks
		seg.end, seg.taken, seg.lastTag, seg.last = block, block, f.tag, f.header.last
	}
	if closed && (block != ms.end || seg.lastTag != ms.lastTag) {
		return false, fmt.Errorf("it does not end where its manifest says: %w", ErrCorrupt)
	}
	return false, nil
}

// firstPredecessor gives what the front frame of the first segment that is followed names as its predecessor. That may be gone with
// a segment that compaction has emptied. The manifest, which is authenticated, vouches for the segment's life, and a place is
// sealed once, so whatever the frame names is right.
func firstPredecessor(seg *segment, shared []byte) (prev epoch.Tag) {
	var x sealScratch
	copy(x.tag[:], shared)
	if seg.keys.openHeader(&x.scratch, x.header[:], 0, shared[tagSize:frChain]) == nil {
		copy(prev[:], x.header[80:])
	}
	return prev
}

// accepts is the rule of 6.4.2: everything up to the committed tag; after it only frames of the generation that committed it.
func (w *walker) accepts(h *frameHeader) bool {
	return !w.found || w.t.Gen != 0 && (h.gen == w.t.Gen || mutant.On(mutant.AcceptAnyGeneration)) ||
		mutant.On(mutant.AcceptAfterRollback) && h.gen == w.r.last.gen
}

func (w *walker) accept(seg *segment, block device.BlockCount, f *openedFrame) error {
	h := &f.header
	switch {
	case w.r.frames > 0 && (h.first != w.r.last.last+1 && !h.opening || h.last < w.r.last.last || h.gen < w.r.last.gen):
		return fmt.Errorf("frame at block %d: counters %d to %d after %d: %w", seg.lba+device.LBA(block), h.first, h.last, w.r.last.last, ErrCorrupt)
	case f.tag == w.t.Tag && h.last != w.t.Value:
		return fmt.Errorf("frame at block %d: the committed tag, but counter %d: %w", seg.lba+device.LBA(block), h.last, ErrCorrupt)
	}
	if h.opening {
		w.batch = nil
	}
	for _, rec := range f.records {
		if err := w.record(seg, rec); err != nil {
			return err
		}
	}
	w.r.last, w.r.tag, w.r.lastLBA = *h, f.tag, seg.lba+device.LBA(block)
	w.r.frames++
	w.r.records += len(f.records)
	if f.tag == w.t.Tag {
		w.found = true
	}
	if h.manifest == w.sbTag {
		w.named = true
	}
	return nil
}

func (w *walker) record(seg *segment, rec openedRecord) error {
	bad := func(what string) error {
		return fmt.Errorf("record at block %d: %s: %w", seg.lba+device.LBA(rec.offset/device.BlockSize), what, ErrCorrupt)
	}
	if w.inherit {
		w.inherit = false
		if rec.flags&recPart != 0 && (rec.store != storeVolume || rec.kind != kindBegin) {
			w.batch = &openBatch{inherited: true}
		}
	}
	if rec.store == storeVolume {
		switch rec.kind {
		case kindBegin:
			if w.batch != nil {
				return bad("a batch begins inside another")
			}
			w.batch = &openBatch{}
			return nil
		case kindEnd:
			if w.batch == nil || len(rec.payload) != 8 || !w.batch.holds(le.Uint64(rec.payload)) {
				return bad("a batch ends that is not complete")
			}
			b := w.batch
			w.batch = nil
			if mutant.On(mutant.PartialBatch) {
				return nil
			}
			for i, r := range b.records {
				if err := w.replay(b.seg[i], r); err != nil {
					return err
				}
			}
			return nil
		}
		return bad("unknown kind")
	}
	if part := rec.flags&recPart != 0; part != (w.batch != nil) {
		return bad("outside of its batch")
	} else if part && !mutant.On(mutant.PartialBatch) {
		w.batch.records = append(w.batch.records, rec)
		w.batch.seg = append(w.batch.seg, seg)
		return nil
	}
	return w.replay(seg, rec)
}

func (w *walker) replay(seg *segment, rec openedRecord) error {
	s := w.v.opts.Stores[rec.store]
	if s == nil {
		return fmt.Errorf("record of store %d, which this program does not know: %w", rec.store, ErrCorrupt)
	}
	meta := s.Meta(rec.kind, rec.payload) // no more than a summary has: values are never needed here
	err := s.Replay(w.v, Record{
		Store: rec.store, Kind: rec.kind, Counter: rec.counter, Place: placeOf(seg.ordinal, rec.offset),
		Size: len(rec.payload), Payload: rec.payload[:min(meta, len(rec.payload))],
	})
	if err != nil {
		return fmt.Errorf("record at block %d: %w", seg.lba+device.LBA(rec.offset/device.BlockSize), err)
	}
	seg.listing.add(rec.store, rec.kind, rec.counter, rec.offset, len(rec.payload), rec.payload[:min(meta, len(rec.payload))])
	return nil
}
