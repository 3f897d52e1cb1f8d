package volume

import (
	"fmt"

	"cvmstore/ioengine/device"
)

// Tx is the one batch that is open at a time. It is applied whole or not at all, whatever its size (DESIGN.md 4.8). Between
// Begin and End it holds the append lock; nothing in between does I/O.
type Tx struct {
	v        *Volume
	before   Counter // the last counter before this batch
	appended int     // records
	bytes    int     // of records appended, overhead included
	budget   int     // what Begin admitted
	big      bool    // spans frames: begin, part and end records
	sum      Sum     // what the batch adds to the multiset hash
}

// pendingBytesMax bounds what waits in memory to be sealed; beyond it Begin answers ErrBusy.
const pendingBytesMax = 64 << 20

// MaxRecord returns the largest payload of one record, in bytes.
func (v *Volume) MaxRecord() int { return v.recordBlocksMax().Bytes() - frRecords - recOverhead }

func (v *Volume) recordBlocksMax() device.BlockCount {
	return max(1, min(v.segmentBlocks/4, v.segmentBlocks-3))
}

// Begin opens a batch. bytes bounds the sum of payload sizes, records the number of records; up to that much, appending
// cannot fail. ErrBusy: call again after a Step that returned true. ErrFull, ErrTooLarge, ErrFailed, ErrFenced.
func (v *Volume) Begin(bytes, records int, class Class) (*Tx, error) {
	return v.BeginRoom(bytes, records, class, 0)
}

// BeginRoom is Begin for a batch that may have to be extended by about so many bytes: it begins where the segment has room for them,
// at most a quarter of a segment.
func (v *Volume) BeginRoom(bytes, records int, class Class, room int) (*Tx, error) {
	v.mu.Lock()
	need := bytes + (records+2)*recOverhead + 16 // two more for the marks of a large batch
	big, err := v.admitLocked(need, class, min(room, v.segmentRoom(2)/4))
	if err != nil {
		v.mu.Unlock()
		return nil, err
	}
	t := &v.tx
	*t = Tx{v: v, before: v.last, budget: need, big: big}
	if big {
		clear(t.append(storeVolume, kindBegin, v.last, 8))
	}
	return t, nil
}

// admitLocked makes room for a batch of need bytes: in the open frame, in a new one behind it, at the front of the next
// segment, or (big) over several. A batch that does not fill a segment finds room bytes more behind it.
func (v *Volume) admitLocked(need int, class Class, room int) (big bool, err error) {
	if err := v.Err(); err != nil {
		return false, err
	}
	if !v.epochAdmitsLocked() || v.pendingBytesLocked() > pendingBytesMax {
		return false, ErrBusy
	}
	if f := v.open; f != nil {
		if len(f.buf)+need <= min(v.opts.FrameBytes, v.roomLocked(f.seg, f.block, class)-room) {
			v.growLocked(f, need)
			return false, nil
		}
		v.endOpenLocked()
	}
	if frRecords+need <= v.roomLocked(v.tailSegment, v.tailBlock, class)-room {
		v.newFrameLocked(need)
		return false, nil
	}
	if frRecords+need <= v.segmentRoom(2) {
		if len(v.ready) == 0 {
			return false, v.wantSegmentsLocked(1, class)
		}
		if v.roomLocked(v.ready[0], 0, class) < frRecords+need {
			return false, v.refuseLocked(1, class)
		}
		v.nextSegmentLocked()
		v.newFrameLocked(need)
		return false, nil
	}
	// Over several segments. Each holds at least usable bytes: less two free places, a record that did not fit at the end,
	// and what headers and padding of its frames take.
	usable := v.segmentRoom(2 + v.recordBlocksMax() + 2*(1+v.segmentBlocks/blocksOf(v.opts.FrameBytes)))
	if usable <= 0 {
		return false, fmt.Errorf("batch of %d bytes: %w", need, ErrTooLarge)
	}
	if k := need/usable + 1; len(v.ready) < k {
		return false, v.wantSegmentsLocked(k, class)
	}
	v.newFrameAnywhereLocked(recOverhead + 8)
	return true, nil
}

// roomLocked returns the bytes that a frame at a block of seg may have. Two places stay free for the frames that name the next
// manifests (DESIGN.md 6.1). While no next segment is in sight for ordinary batches, those leave an eighth to batches that give
// space back, and leave the segment that was opened from compaction's reserve alone; there the others leave compaction a quarter.
func (v *Volume) roomLocked(seg *segment, block device.BlockCount, class Class) int {
	free := v.segmentBlocks - block
	if len(v.ready) > 0 && !seg.reserve {
		return free.Bytes()
	}
	keep := device.BlockCount(2)
	if v.noSpace {
		switch {
		case class == ClassNormal && seg.reserve:
			return 0
		case class == ClassNormal:
			keep += max(v.segmentBlocks/8, 1)
		case class == ClassReclaim && seg.reserve:
			keep += v.segmentBlocks / 4
		}
	}
	if free <= keep {
		return 0
	}
	return (free - keep).Bytes()
}

func (v *Volume) segmentRoom(keep device.BlockCount) int {
	if v.segmentBlocks <= keep {
		return 0
	}
	return (v.segmentBlocks - keep).Bytes()
}

// wantSegmentsLocked asks for n segments to be opened ahead and says what to answer until they are.
func (v *Volume) wantSegmentsLocked(n int, class Class) error {
	if v.noSpace { // a batch that needs less may still find room
		return v.refuseLocked(n, class)
	}
	v.wantReady = max(v.wantReady, n)
	return ErrBusy
}

// refuseLocked answers a batch for which there is no segment: it waits while compaction may still find room, or may have the
// reserve.
func (v *Volume) refuseLocked(n int, class Class) error {
	if class != ClassNormal && len(v.ready) == 0 && !v.reserveGone {
		v.wantReserve = true
		return ErrBusy
	}
	if v.compaction.hopeful.Load() && class != ClassMove && n <= 1+v.deadSegments() {
		return ErrBusy
	}
	return v.fullError()
}

func (v *Volume) nextSegmentLocked() {
	v.tailSegment, v.tailBlock = v.ready[0], 0
	v.ready = append(v.ready[:0], v.ready[1:]...)
}

// newFrameAnywhereLocked opens a frame for a record of n bytes of a large batch, for which admitLocked found segments.
func (v *Volume) newFrameAnywhereLocked(n int) *frame {
	if frRecords+n > v.roomLocked(v.tailSegment, v.tailBlock, ClassReclaim) {
		if len(v.ready) == 0 {
			panic("internal error: a large batch ran out of segments")
		}
		v.nextSegmentLocked()
	}
	return v.newFrameLocked(max(n, min(v.opts.FrameBytes, v.roomLocked(v.tailSegment, v.tailBlock, ClassReclaim)-frRecords)))
}

func (v *Volume) growLocked(f *frame, need int) {
	if len(f.buf)+need > cap(f.buf) {
		f.buf = append(make([]byte, 0, max(2*cap(f.buf), len(f.buf)+need)), f.buf...)
	}
}

func (v *Volume) pendingBytesLocked() (n int) {
	for _, f := range v.closed {
		n += len(f.buf)
	}
	return n
}

// Lists reports whether the durable manifest lists a segment from that of one place, which is included, to that of another, which
// is not. The zero Place is before all.
func (v *Volume) Lists(from, to Place) bool {
	l := v.segments.Load()
	for i := max(from.ordinal(), l.base); i < to.ordinal(); i++ {
		if l.at(i) != nil {
			return true
		}
	}
	return false
}

// Next hands out the next counter.
func (t *Tx) Next() Counter {
	t.v.last++
	return t.v.last
}

// Append adds a record and returns its payload, which the caller fills before End, and its place.
func (t *Tx) Append(s Store, k Kind, c Counter, size int) (payload []byte, at Place) {
	if s == storeVolume || size > t.v.MaxRecord() {
		panic(fmt.Sprintf("internal error: record of store %d, %d bytes", s, size))
	}
	payload = t.append(s, k, c, size)
	f := t.v.open
	return payload, f.end() - Place(recOverhead+size)
}

func (t *Tx) append(s Store, k Kind, c Counter, size int) []byte {
	v := t.v
	n := recOverhead + size
	t.bytes += n
	if t.bytes > t.budget {
		panic(fmt.Sprintf("internal error: a batch outgrew what it announced: %d of %d bytes", t.bytes, t.budget))
	}
	f := v.open
	if t.big && (len(f.buf) >= v.opts.FrameBytes || len(f.buf)+n > min(cap(f.buf), v.roomLocked(f.seg, f.block, ClassReclaim))) {
		v.closeFrameLocked()
		f = v.newFrameAnywhereLocked(n)
	}
	from := len(f.buf)
	f.buf = f.buf[:from+n]
	f.spans = append(f.spans, span{uint32(from), uint32(n)})
	var flags byte
	if t.big {
		flags = recPart
	}
	putEnvelope(f.buf[from+recPrefix:], s, k, flags, c)
	if s != storeVolume {
		f.seg.live.Add(int64(n))
	}
	t.appended++
	return f.buf[from+recOverhead:]
}

// Newest returns the counter that Next handed out last.
func (t *Tx) Newest() Counter { return t.v.last }

// Add puts an item into the multiset hash when the batch ends.
func (t *Tx) Add(x Sum) { t.sum.Add(x) }

// Remove takes an item, or a sum of items, out of it.
func (t *Tx) Remove(x Sum) { t.sum.Sub(x) }

// Dead says that nothing needs the record with a payload of size bytes at a place any more. It may be called outside of a batch,
// too (Volume.Dead).
func (t *Tx) Dead(at Place, size int) { t.v.Dead(at, size) }

// DeadMany is Dead for records of one segment, which any place in it names: bytes is the sum of their payloads.
func (t *Tx) DeadMany(segment Place, records, bytes int64) {
	if seg := t.v.segmentAt(segment); seg != nil {
		seg.live.Add(-(records*recOverhead + bytes))
	}
}

// Dead says that nothing needs a record any more. Each record is counted as live from its Append on, and reported dead once:
// this is how compaction finds the segments that are worth it.
func (v *Volume) Dead(at Place, size int) {
	if seg := v.segmentAt(at); seg != nil {
		seg.live.Add(-int64(recOverhead + size))
	}
}

// End closes the batch and returns its last counter, or 0 if nothing was appended: then it never was.
func (t *Tx) End() Counter {
	v := t.v
	last := v.last
	switch {
	case t.appended == 0:
		v.last, last = t.before, 0
	case t.big:
		parts := uint64(t.appended - 1) // the begin mark is none
		le.PutUint64(t.append(storeVolume, kindEnd, v.last, 8), parts)
	}
	if t.appended > 0 {
		v.set.Add(t.sum)
		v.complete = v.last
		v.bytes += uint64(t.bytes)
		v.epochs.began(v.last, v.clock.Monotonic)
		v.applied.Store(uint64(v.last))
	}
	t.v = nil
	v.mu.Unlock()
	return last
}
