package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// counterJump is how far an opening frame's counter lies above all that an abandoned suffix can hold (DESIGN.md 6.4.5).
const counterJump = 1 << 32

// Open births or recovers a volume by DESIGN.md 6.4 and 6.5 and makes the choice of that state final. It replays every record
// of the accepted state into o.Stores. The device and the counter stay the caller's to close. Errors: ErrRollback, ErrCorrupt,
// ErrForeign, ErrFull, epoch.ErrNoRecord, epoch.ErrFenced, or the device's, wrapped.
func Open(ctx context.Context, o Options) (*Volume, error) {
	o.setDefaults()
	if suiteNumbers[o.Keys.Suite()] == 0 {
		return nil, fmt.Errorf("open volume: unknown cipher suite %q", o.Keys.Suite())
	}
	if o.Parallel && !o.Device.Info().Exclusive {
		return nil, errors.New("open volume: PARALLEL is refused where another server can reach the device: it could take over one commit behind")
	}
	v := &Volume{
		opts: o, dev: o.Device, service: o.Counter, keys: o.Keys, clock: o.Clock, log: o.Log, store: o.Keys.StoreID(),
		spareDMA: map[device.BlockCount][][]byte{}, wantReady: 1,
	}
	v.transfer = max(1, v.dev.Info().TransferBlocks)
	v.epochs.setMax(&o)
	if !o.Device.Info().Exclusive {
		o.FreshLease = min(o.FreshLease, sharedLeaseMax)
	}
	v.lease.start(o.FreshLease, v.clock)
	v.segments.Store(&segmentList{base: 1})
	v.started = v.clock.Monotonic()
	v.random.seed = o.Keys.Seed(0, [32]byte{})
	var err error
	if v.wake, err = newWakeup(); err != nil {
		return nil, fmt.Errorf("open volume: %w", err)
	}
	if v.queue, err = v.dev.NewQueue(queueDepth); err != nil {
		v.wake.close()
		return nil, fmt.Errorf("open volume: %w", err)
	}
	if err := v.open1(ctx); err != nil {
		_ = v.queue.Close()
		v.wake.close()
		return nil, fmt.Errorf("open volume: %w", err)
	}
	return v, nil
}

// queueDepth holds every request that the committer may have outstanding: frames in flight, one of a roll.
const queueDepth = 64

// open1 is Open once the queue is there. The commit point is marked.
func (v *Volume) open1(ctx context.Context) error {
	state, err := v.service.Read(ctx, v.store)
	if err != nil {
		if errors.Is(err, epoch.ErrNoRecord) {
			return fmt.Errorf("%w: a volume without a record is refused; was the counter's file lost or is it another counter?", err)
		}
		return err
	}
	// Look before fencing anybody: a disk without the current tag is refused here.
	found, err := v.examine(ctx, state.Record)
	if err != nil {
		return err
	}
	opened, err := v.service.Open(ctx, v.store)
	if err != nil {
		return fmt.Errorf("open at the trusted counter: %w", err)
	}
	answered := v.clock.Monotonic()
	v.gen = opened.Gen
	v.random = generator{seed: v.keys.Seed(uint64(opened.Gen), opened.Random)}
	// Read the disk again, unless nobody else can have written since.
	if (opened.Current != state.Current || !v.dev.Info().Exclusive) && !mutant.On(mutant.SkipSecondLook) {
		if found, err = v.recoverOrBirth(opened.Record); err != nil {
			return err
		}
	}
	if !mutant.On(mutant.NoFlushBeforeOpening) {
		if err := v.flush(); err != nil { // 6.4.3
			return err
		}
	}
	frameTime := int64(0)
	if found.sb != nil {
		frameTime = found.last.time
	}
	v.time.start(v.clock, v.service.TimeBounded(), frameTime, opened.Stamp, answered)
	if err := v.waitForPredecessor(ctx, answered); err != nil {
		return err
	}
	found.floor = max(opened.Current.Value, opened.Before.Value)
	if !mutant.On(mutant.IgnoreFloor) {
		found.floor = max(found.floor, opened.Floor)
	}
	began := v.clock.Monotonic()
	if err := v.opening(ctx, found, opened.Current); err != nil {
		return err
	}
	v.recovery.Opening = v.clock.Monotonic() - began
	v.recovery.BytesRead = v.stats.bytesRead.Load()
	v.log.Info().Uint64("generation", uint64(v.gen)).Uint64("counter", uint64(v.last)).Int("frames", found.frames).
		Int("records", found.records).Uint64("bytes_read", v.recovery.BytesRead).Dur("chain", v.recovery.Chain).
		Dur("summaries", v.recovery.Summaries).Dur("settle", v.recovery.Settle).Dur("opening", v.recovery.Opening).Dur("took", v.clock.Monotonic()-v.started).Msg("volume opened")
	return nil
}

// examine is the first look at the disk. Where another server may be writing, it counts only if the counter still says the same
// afterwards (6.4.1).
func (v *Volume) examine(ctx context.Context, r epoch.Record) (*recovered, error) {
	const tries = 3
	for try := 1; ; try++ {
		found, err := v.recoverOrBirth(r)
		if v.dev.Info().Exclusive || err == nil {
			return found, err
		}
		again, rerr := v.service.Read(ctx, v.store)
		if rerr != nil || again.Current == r.Current || try == tries {
			return nil, err
		}
		r = again.Record
	}
}

// recoverOrBirth accepts a state of the disk; while nothing was ever committed, that is the empty one (6.5). Where the current
// state was committed in PARALLEL, its frames may not have become durable: then the state before it is accepted too (4.6).
func (v *Volume) recoverOrBirth(r epoch.Record) (*recovered, error) {
	if r.Current.Value > 0 {
		found, err := v.recoverState(r.Current)
		if r.Before.Value == 0 || !errors.Is(err, ErrRollback) {
			return found, err
		}
		behind, berr := v.recoverState(r.Before)
		switch {
		case berr == nil:
			v.log.Warn().Uint64("counter", uint64(r.Before.Value)).Msg("the last commit's frames are not on the volume: going on one commit behind, as PARALLEL allows")
			return behind, nil
		case errors.Is(berr, ErrRollback):
			return nil, err
		}
		return nil, berr // the device did not read: that says nothing about the state
	}
	v.blobs.reset()
	for _, s := range v.opts.Stores {
		s.Reset()
	}
	return &recovered{}, v.checkBirthplace()
}

// birthCheckBlocks is how much of a device must be blank to count as nobody's: the places where file systems, partition
// tables and RAID keep their superblocks.
const birthCheckBlocks device.BlockCount = 256

// checkBirthplace refuses to format over another store's volume, and over data that is not ours unless told by name.
func (v *Volume) checkBirthplace() error {
	n := min(birthCheckBlocks, v.dev.Info().Blocks)
	if n == 0 {
		return nil // a file of length 0
	}
	buf, err := v.allocDMA(n)
	if err != nil {
		return err
	}
	defer v.freeDMA(buf)
	if err := v.readInto(buf, 0); err != nil {
		return err
	}
	claimed := false
	for slot := range min(superblockSlots, int(n)) {
		private := append([]byte(nil), buf[slot*device.BlockSize:][:sbSize]...)
		h, ours := parseSuperblockHeader(private)
		switch {
		case ours && h.store != v.store && !v.opts.FormatForeign:
			return fmt.Errorf("%w: it is the volume of store %x, this is store %x", ErrForeign, h.store, v.store)
		case ours && h.store == v.store:
			claimed = true
		}
	}
	if !claimed && !v.opts.FormatForeign && !zero(append([]byte(nil), buf...)) {
		return fmt.Errorf("%w: %s is not blank; format it by name (--format-foreign) if nothing on it is needed", ErrForeign, v.dev.Info().Name)
	}
	return nil
}

func (v *Volume) deriveVolumeKeys() {
	v.keys.Derive(v.multisetKey[:], labelMultiset, v.id[:])
	v.keys.Derive(v.nameKey[:], labelName, v.id[:])
}

// opening writes the manifest and the opening frame of this generation, the superblock that lists them, and commits: that makes
// the choice of the recovered state final (6.4.5). Each step is durable before the next.
func (v *Volume) opening(ctx context.Context, found *recovered, t epoch.State) error {
	slot, err := v.prepareSpace(found)
	if err != nil {
		return err
	}
	n := manifestBlocks(len(found.segments) + 1)
	mlba, ok1 := v.space.alloc(n)
	slba, ok2 := v.space.alloc(v.segmentBlocks)
	if !ok1 || !ok2 {
		return fmt.Errorf("%w: %d blocks free, %d needed: %w", errNoOpening, v.space.blocks(), n+v.segmentBlocks, ErrFull)
	}
	if err := v.reserve(device.BlockCount(max(slba+device.LBA(v.segmentBlocks), mlba+device.LBA(n)))); err != nil {
		return err
	}
	if found.sb == nil {
		if err := v.claim(); err != nil {
			return err
		}
	}
	v.segments.Store(&segmentList{base: 1, list: found.segments})
	seg, err := v.openingSegment(slba, found)
	if err != nil {
		return err
	}
	v.changeSegments(nil, seg)
	buf, tag, err := v.encodeManifest(v.manifestOf(v.gen, v.segments.Load().all()), n)
	if err != nil {
		return err
	}
	if err := v.writeThrough(mlba, buf); err != nil {
		return err
	}
	v.freeDMA(buf)
	f, err := v.writeOpeningFrame(seg, found, tag)
	if err != nil {
		return err
	}
	request := epoch.CommitRequest{Store: v.store, Gen: v.gen, Expected: t.Tag, Value: f.last, Tag: f.tag, Opening: true}
	if mutant.On(mutant.CommitBeforeSuperblock) {
		if err := v.commitOpening(ctx, request, f); err != nil {
			return err
		}
	}
	if err := v.syncCounter(); err != nil {
		return err
	}
	sb := v.superblockFor(slot, extent{mlba, n}, tag)
	if buf, err = v.encodeSuperblock(&sb); err != nil {
		return err
	}
	if err := v.writeThrough(device.LBA(slot), buf); err != nil {
		return err
	}
	v.freeDMA(buf)
	v.sbSeq, v.slot, v.slotRefs[slot] = sb.seq, slot, []extent{{mlba, n}}
	for _, s := range v.segments.Load().all() {
		if s.summary.lba == 0 {
			v.plain = append(v.plain, s)
		}
	}
	if !mutant.On(mutant.CommitBeforeSuperblock) {
		return v.commitOpening(ctx, request, f) // the commit point of this start
	}
	return nil
}

// prepareSpace derives the allocator's state from what is live, and picks the superblock slot: the one that recovery did not
// use, never by sequence number. For a new volume it makes the volume's identity.
func (v *Volume) prepareSpace(found *recovered) (slot int, err error) {
	info := v.dev.Info()
	if found.sb == nil {
		v.random.read(v.id[:])
		v.deriveVolumeKeys()
		v.segmentBlocks, v.blocks = v.opts.SegmentBlocks, info.BlocksMax
		if v.blocks < superblockSlots+reserveSegments*(v.segmentBlocks+1) {
			return 0, fmt.Errorf("a device of %d blocks is too small for segments of %d: %w", v.blocks, v.segmentBlocks, ErrFull)
		}
		v.space = newSpace(v.blocks)
		return 0, v.takeBlobs()
	}
	sb := found.sb
	v.blocks, v.sbSeq = max(sb.blocks, info.BlocksMax), sb.seq
	v.space = newSpace(v.blocks)
	refs, err := v.takeReferences(found)
	if err != nil {
		return 0, err
	}
	if err := v.takeBlobs(); err != nil {
		return 0, err
	}
	v.slotRefs[sb.slot] = refs
	slot = 1 - sb.slot
	if mutant.On(mutant.SlotInTurn) {
		slot = int(v.sbSeq+1) % superblockSlots
	}
	return slot, nil
}

// takeReferences takes what the accepted state refers to: its manifest, and of each segment with accepted frames as many blocks as
// those fill, and its summary. It returns what only that superblock refers to: its manifest, segments without an accepted frame, and
// what follows the last accepted frame of segments that it lists as open; they are free once it is overwritten.
func (v *Volume) takeReferences(found *recovered) (refs []extent, err error) {
	kept := map[device.LBA]*segment{}
	for _, s := range found.segments {
		kept[s.lba] = s
	}
	refs = []extent{{found.sb.manifestLBA, found.sb.manifestBlocks}}
	for _, s := range found.manifest.segments {
		x := extent{s.lba, v.segmentBlocks}
		seg := kept[s.lba]
		switch {
		case seg == nil:
			refs = append(refs, x)
		case s.end > 0:
			x.n = s.end
		default:
			refs = append(refs, extent{s.lba + device.LBA(seg.taken), x.n - seg.taken})
		}
		if !v.space.take(x) {
			return nil, fmt.Errorf("segment at block %d overlaps another: %w", s.lba, ErrCorrupt)
		}
		if s.summary.lba != 0 && !v.space.take(s.summary.extent()) {
			return nil, fmt.Errorf("summary at block %d overlaps something else: %w", s.summary.lba, ErrCorrupt)
		}
	}
	if !v.space.take(refs[0]) {
		return nil, fmt.Errorf("manifest at block %d overlaps a segment: %w", found.sb.manifestLBA, ErrCorrupt)
	}
	return refs, nil
}

// claim marks a device as this store's before anything else is written to it, so that a format that was interrupted is known as
// ours. A claim names no manifest: recovery never takes it.
func (v *Volume) claim() error {
	buf, err := v.encodeSuperblock(&superblock{volume: v.id, slot: 1, gen: v.gen, segmentBlocks: v.segmentBlocks, blocks: v.blocks})
	if err != nil {
		return err
	}
	defer v.freeDMA(buf)
	return v.writeThrough(1, buf)
}

func (v *Volume) openingSegment(lba device.LBA, found *recovered) (*segment, error) {
	var life [32]byte
	v.random.read(life[:])
	if mutant.On(mutant.ReuseNonce) && len(found.segments) > 0 {
		life = found.segments[0].life
		return v.newSegment(lba, found.segments[0].gen, life)
	}
	return v.newSegment(lba, v.gen, life)
}

// openingFrame is the frame numbered 0 of a generation: no records, the predecessor's place and tag, and a counter above all
// that any abandoned suffix can hold.
func (v *Volume) writeOpeningFrame(seg *segment, found *recovered, manifest [32]byte) (*frame, error) {
	v.last = max(found.last.last, found.floor) + counterJump
	if mutant.On(mutant.ReuseCounter) {
		v.last = max(found.last.last, found.floor) + 1
	}
	v.complete, v.set = v.last, found.last.set
	f := &frame{seg: seg, buf: make([]byte, frRecords), first: v.last, last: v.last, complete: v.last}
	h := frameHeader{
		opening: true, gen: v.gen, first: f.first, last: f.last, complete: f.complete, epoch: found.last.epoch + 1,
		time: v.Now(), end: frRecords, blocks: 1, prev: found.tag, manifest: manifest, set: v.set, prevLBA: found.lastLBA,
	}
	dma, err := v.allocDMA(1)
	if err != nil {
		return nil, err
	}
	defer v.freeDMA(dma)
	f.tag = sealInto(&v.scratch, f, &h, dma)
	seg.end, seg.lastTag = 1, f.tag
	v.epochs.number, v.epochs.firstNumber = h.epoch, h.epoch
	return f, v.writeThrough(seg.lba, dma)
}

// commitOpening commits the opening frame, confirms it again if the answer took longer than the lease, and sets the watermarks.
func (v *Volume) commitOpening(ctx context.Context, request epoch.CommitRequest, f *frame) error {
	for try := 0; try == 0 || !v.lease.holds(); try++ {
		if try == confirmationsMax {
			return fmt.Errorf("commit of the opening frame: the counter's answers take longer than the fresh lease of %v: choose a longer one", v.lease.length)
		}
		began, err := v.commitUntilAnswered(ctx, request)
		if err != nil {
			return fmt.Errorf("commit of the opening frame: %w", err)
		}
		v.lease.renewed(began, v.clock)
	}
	if err := v.syncCounter(); err != nil { // embedded: before serving (issue of a lagging counter)
		return err
	}
	p := f.point()
	v.durablePoint = p
	v.commit.committed, v.commit.synced = p, p
	v.commit.at = v.clock.Monotonic()
	v.sealedSegment, v.sealedSeq, v.sealedTag, v.sealedLast = f.seg, 0, f.tag, f.last
	v.tailSegment, v.tailBlock, v.epochs.start = f.seg, 1, f.last
	v.sealedPoint, v.commit.before = p, p
	v.applied.Store(uint64(f.last))
	v.durable.Store(uint64(f.last))
	v.fresh.Store(uint64(f.last))
	return nil
}

// confirmationsMax bounds how often an opening is confirmed because the answer took longer than the lease.
const confirmationsMax = 10

// commitUntilAnswered sends the same request again while its outcome is unknown, and says when the attempt that succeeded began.
func (v *Volume) commitUntilAnswered(ctx context.Context, request epoch.CommitRequest) (began time.Duration, err error) {
	backoff := commitBackoffMin
	for {
		began = v.clock.Monotonic()
		result := make(chan error, 1)
		v.service.Commit(request, func(s epoch.Stamp, err error) {
			if err == nil {
				v.time.stamped(s)
			}
			result <- err
		})
		select {
		case err = <-result:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if err == nil {
			return began, nil
		}
		if refusedForGood(err) {
			return 0, fmt.Errorf("%w: %w", ErrFenced, err)
		}
		v.log.Warn().Err(err).Msg("commit of the opening frame failed; outcome unknown, sending it again")
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		backoff = min(2*backoff, commitBackoffMax)
	}
}
