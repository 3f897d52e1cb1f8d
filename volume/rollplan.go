package volume

import (
	"errors"
	"time"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// What goes into a roll, and what must stay free (DESIGN.md 6.1, and "full" in docs/ARCHITECTURE.md):
//
//   - room for two opening segments and two manifests, which only a start may take;
//   - beyond that one segment, which only compaction and batches that give space back may fill, so that a full volume can be
//     emptied.
//
// An ordinary segment leaves two free places for the frames that name the next manifests.

const (
	// reserveSegments is how many opening segments a running volume always leaves room for, so that it can be started again.
	reserveSegments = 2
	// rollSummariesMax bounds how many summaries one roll writes: the leader seals them in one go.
	rollSummariesMax = 4
	// summarySpare is how many places the last segment keeps that no roll for the sake of summaries alone may use.
	summarySpare = 3
	// starvingMax bounds how long a batch waits for what was freed to be committed before it is told that the volume is full.
	starvingMax = 2 * time.Second
	// dropsWait is how long emptied segments wait for a roll that opens one.
	dropsWait = 100 * time.Millisecond
)

var errNoOpening = errors.New("no room for an opening segment")

// freedExtents are free once the frame numbered seq is committed, and the counter knows it durably (DESIGN.md 6.2), and nobody
// reads the segments any more.
type freedExtents struct {
	seq      uint64
	extents  []extent
	segments []*segment
}

// emptied is a segment of which nothing is needed any more.
type emptied struct {
	seg   *segment
	bytes uint64 // appended up to the last record that was moved out of it: they are durable before a manifest leaves it out
	since time.Duration
}

// readyAhead is how many segments are kept open ahead: two where they are a small part of the volume, so that a writer that
// fills one faster than the next is laid out has another.
func (v *Volume) readyAhead() int {
	if v.blocks/v.segmentBlocks >= 64 {
		return 2
	}
	return 1
}

// keptSegments lists the segments that the roll's manifest still lists.
func (v *Volume) keptSegments() []*segment {
	list := v.segments.Load().all()
	kept := list[:0]
	for _, s := range list {
		if !v.roll.dropped[s] {
			kept = append(kept, s)
		}
	}
	return kept
}

// startRoll begins a roll if segments are wanted and there is room beyond the reserve, or if summaries or emptied segments wait.
func (v *Volume) startRoll() {
	r := &v.roll
	v.mu.Lock()
	missing := max(v.wantReady, v.readyAhead()) - len(v.ready)
	urgent, reclaim := len(v.ready) == 0, v.wantReserve
	waiting := urgent || v.wantReady > len(v.ready) // a batch may need more segments than are ready
	spare := v.segmentBlocks - v.tailBlock          // places for naming frames, if nothing is ready
	v.mu.Unlock()
	now := v.clock.Monotonic()
	if now < r.retryAt && !reclaim {
		return
	}
	due, soon := v.summariesDue()
	drops := v.dropsDue(now, urgent)
	switch {
	case missing <= 0 && len(due) == 0 && len(drops) == 0:
		return
	case soon && !waiting && len(drops) == 0:
		return // a summary is due in a moment (in PARALLEL, with the commit after the next): one roll for both
	}
	reserve, wanted := false, missing > 0
	for missing > 0 && !v.holdsRoll(missing, 1) {
		missing-- // what there is room for, rather than nothing
	}
	if missing <= 0 && wanted {
		v.rollFull()
	}
	if missing <= 0 && urgent && reclaim {
		missing, reserve = v.takeReserve()
	}
	missing = max(missing, 0)
	if missing == 0 && urgent && spare <= summarySpare {
		due = nil
	}
	if missing == 0 && (len(due)+len(drops) == 0 || urgent && spare <= 1 || !v.holdsRoll(0, 0)) {
		r.retryAt = now + rollRetry
		return
	}
	// In the order in which holdsRoll tried it, so that what fitted there fits here.
	n := manifestBlocks(len(v.segments.Load().all()) + missing)
	r.manifest = extent{v.space.mustAlloc(n), n}
	for range missing {
		if !v.planSegment(reserve) {
			return
		}
	}
	v.planSummaries(due, missing)
	if missing == 0 && len(r.summaries)+len(drops) == 0 {
		v.abandonRoll()
		r.retryAt = now + rollRetry
		return
	}
	if len(drops) > 0 {
		r.dropped = map[*segment]bool{}
		for _, s := range drops {
			r.dropped[s] = true
		}
	}
	r.step, r.retryAt = rollReserving, now
}

// takeReserve reports whether the segment can be opened that is kept for compaction and for batches that give space back.
func (v *Volume) takeReserve() (segments int, ok bool) {
	if v.holdsRoll(1, 0) {
		return 1, true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wantReserve, v.reserveGone = false, true
	return 0, false
}

func (v *Volume) planSegment(reserve bool) bool {
	var life [32]byte
	v.random.read(life[:])
	s, err := v.newSegment(v.space.mustAlloc(v.segmentBlocks), v.gen, life)
	if err != nil {
		v.fail(ErrFailed, err)
		return false
	}
	s.reserve = reserve
	v.roll.segments = append(v.roll.segments, s)
	return true
}

// summariesDue returns the segments whose summaries can be written: closed, all of their frames and batches committed, so that the
// committed tag is never inside (DESIGN.md 6.3, 6.4), and in chain order, so that recovery follows frames only from the first one
// without. soon: the next one waits for its commit only.
func (v *Volume) summariesDue() (due []*segment, soon bool) {
	for _, s := range v.plain {
		if !s.closed || len(due) == rollSummariesMax {
			break
		}
		p := v.settled()
		if s.gen == v.gen && (s.lastSeq > p.seq || s.last > p.complete) && !mutant.On(mutant.SummaryUncommitted) {
			return due, len(due) == 0
		}
		if s.gen == v.gen && s.lastSeq > v.commit.synced.seq {
			if err := v.syncCounter(); err != nil {
				v.fail(ErrFailed, err)
				return nil, false
			}
		}
		due = append(due, s)
	}
	return due, false
}

// planSummaries takes places for those that fit beside the reserve. The next ones wait.
func (v *Volume) planSummaries(due []*segment, opened int) {
	for _, s := range due {
		n := max(1, blocksOf(len(s.listing.buf)))
		if n > summaryBlocksMax || !v.space.holds(append([]device.BlockCount{n}, v.reserveSizes(opened, 1)...)...) {
			return
		}
		v.roll.summaries = append(v.roll.summaries, &rollSummary{seg: s, ref: summaryRef{lba: v.space.mustAlloc(n), blocks: n}})
	}
}

// dropsDue returns the emptied segments that the next manifest may leave out. They ride along with a roll that opens segments,
// unless space is wanted or they have waited for long.
func (v *Volume) dropsDue(now time.Duration, urgent bool) (drops []*segment) {
	wait := !urgent
	for _, e := range v.emptied {
		if e.bytes > v.durablePoint.bytes || !v.passed(e.seg) {
			continue
		}
		drops = append(drops, e.seg)
		wait = wait && now-e.since < dropsWait
	}
	v.mu.Lock()
	wait = wait && len(v.ready) >= v.readyAhead()
	v.mu.Unlock()
	if wait {
		return nil
	}
	return drops
}

// passed reports whether the committed tag, as a power cut may bring it back, lies behind a segment: else the next manifest must
// keep it (DESIGN.md 6.3). If only a flush of the counter is missing, it is made.
func (v *Volume) passed(s *segment) bool {
	if s.gen != v.gen {
		return true
	}
	if s.lastSeq >= v.commit.synced.seq && s.lastSeq < v.settled().seq {
		if err := v.syncCounter(); err != nil {
			v.fail(ErrFailed, err)
			return false
		}
	}
	return s.lastSeq < v.commit.synced.seq
}

// reserveSizes is what must stay free after a roll: opening segments and manifests, and compaction's segments.
func (v *Volume) reserveSizes(opened, output int) (sizes []device.BlockCount) {
	for range reserveSegments + output {
		sizes = append(sizes, v.segmentBlocks)
	}
	have := len(v.segments.Load().all()) + opened
	for range reserveSegments {
		sizes = append(sizes, manifestBlocks(have+2*reserveSegments+output))
	}
	return sizes
}

// holdsRoll reports whether n more segments and their manifest fit beside the reserve.
func (v *Volume) holdsRoll(n, output int) bool {
	sizes := []device.BlockCount{manifestBlocks(len(v.segments.Load().all()) + n)}
	for range n {
		sizes = append(sizes, v.segmentBlocks)
	}
	return sizes[0] <= mfBlocksMax && v.space.holds(append(sizes, v.reserveSizes(n, output)...)...)
}

// rollFull takes note that there is no next segment for ordinary batches. What waits for a commit to be free is worth one now
// (DESIGN.md: before a batch is refused, an epoch is forced).
func (v *Volume) rollFull() {
	if now := v.clock.Monotonic(); len(v.freed) > 0 && (!v.starving || now-v.starvingSince < starvingMax) {
		if !v.starving {
			v.starving, v.starvingSince = true, now
		}
		return
	}
	v.mu.Lock()
	first := !v.noSpace
	v.noSpace, v.wantReady = true, 1
	v.mu.Unlock()
	if first {
		v.moved = true // whoever waits for room learns that there is none
		v.log.Warn().Uint64("free_blocks", uint64(v.space.blocks())).Msg("no room for another segment: waiting for compaction, or full")
	}
}

// releaseFreed gives back what committed epochs freed and nobody reads any more.
func (v *Volume) releaseFreed() {
	if len(v.freed) == 0 {
		v.starving = false
		return
	}
	if v.heldLocked() {
		return
	}
	if f := &v.freed[0]; v.starving && f.seq > v.commit.synced.seq && f.seq <= v.settled().seq {
		if err := v.syncCounter(); err != nil {
			v.fail(ErrFailed, err)
			return
		}
	}
	n := 0
	for _, f := range v.freed {
		if f.seq > v.commit.synced.seq && !mutant.On(mutant.FreeEarly) || f.read() {
			break
		}
		for _, x := range f.extents {
			if x.n > 0 {
				v.space.release(x)
			}
		}
		n++
	}
	if n == 0 {
		return
	}
	v.freed = append(v.freed[:0], v.freed[n:]...)
	v.roll.retryAt, v.starving = 0, false
	v.mu.Lock()
	full := v.noSpace
	v.reserveGone = false
	v.mu.Unlock()
	if full && v.holdsRoll(1, 1) {
		v.mu.Lock()
		v.roomAgainLocked()
		v.mu.Unlock()
		v.moved = true
	}
}

// roomAgainLocked takes note that ordinary batches find a segment again, beyond the reserve.
func (v *Volume) roomAgainLocked() {
	v.noSpace = false
	v.tailSegment.reserve = false
	for _, s := range v.ready {
		s.reserve = false
	}
}

// read reports whether a fetch from one of the segments is under way.
func (f *freedExtents) read() bool {
	for _, s := range f.segments {
		if s.readers.Load() > 0 {
			return true
		}
	}
	return false
}
