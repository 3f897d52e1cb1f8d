package volume

import (
	"crypto/hmac"
	"encoding/binary"
	"fmt"
	"time"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
)

// frame is the records of one group commit: first open, filled by transactions (under Volume.mu); then closed; then sealed and
// in flight (the leader's); it is forgotten once it and all before it are durable. Until then readers find its records in
// buf, which mirrors the frame's layout on the device and never leaves private memory.
type frame struct {
	seg   *segment
	block device.BlockCount // first block, from the segment's front
	buf   []byte
	spans []span
	since time.Duration // when its first record came in, monotonic

	// Set when it closes:
	first, last, complete Counter
	total                 uint64 // bytes of records appended up to its end
	set                   Sum
	epoch                 epoch.Epoch

	// Set when it is sealed:
	seq      uint64
	tag      epoch.Tag
	dma      []byte
	manifest [32]byte // the manifest that it names, or zero
	writing  int      // pieces of it that the device has not completed
	done     bool
}

// span is where a record lies in a frame: bytes from the frame's start, prefix included.
type span struct{ offset, length uint32 }

func (f *frame) start() Place { return placeOf(f.seg.ordinal, f.block.Bytes()) }
func (f *frame) end() Place   { return f.start() + Place(len(f.buf)) }
func (f *frame) lba() device.LBA {
	return f.seg.lba + device.LBA(f.block)
}

func (f *frame) point() point              { return point{f.seq, f.last, f.complete, f.total, f.tag} }
func (f *frame) blocks() device.BlockCount { return blocksOf(len(f.buf)) }

// newFrameLocked opens a frame at the tail, with room for n bytes of records.
func (v *Volume) newFrameLocked(n int) *frame {
	f := &frame{seg: v.tailSegment, block: v.tailBlock, since: v.clock.Monotonic(), first: v.last + 1}
	need := frRecords + n
	if k := len(v.spareBufs); k > 0 && cap(v.spareBufs[k-1]) >= need {
		f.buf, v.spareBufs = v.spareBufs[k-1], v.spareBufs[:k-1]
	} else {
		f.buf = make([]byte, 0, max(need, 64<<10))
	}
	if k := len(v.spareSpans); k > 0 {
		f.spans, v.spareSpans = v.spareSpans[k-1], v.spareSpans[:k-1]
	}
	f.buf = f.buf[:frRecords]
	v.open = f
	v.pending = append(v.pending, f)
	return f
}

// closeFrameLocked ends the open frame: the next one starts behind it.
func (v *Volume) closeFrameLocked() {
	f := v.open
	f.last, f.complete, f.total, f.set, f.epoch = v.last, v.complete, v.bytes, v.set, v.epochs.number
	v.tailBlock += f.blocks()
	v.closed = append(v.closed, f)
	v.open = nil
	v.pushMoves.Store(false)
}

// endOpenLocked closes the open frame, or drops it if nothing came in: then its place is not spent.
func (v *Volume) endOpenLocked() {
	f := v.open
	if len(f.spans) > 0 {
		v.closeFrameLocked()
		return
	}
	v.open = nil
	v.pending = v.pending[:len(v.pending)-1]
	v.spareBufs = append(v.spareBufs, f.buf[:0])
}

// forgetLocked drops a durable frame and keeps its memory for the next ones.
func (v *Volume) forgetLocked(f *frame) {
	if v.pending[0] != f {
		panic("internal error: frames became durable out of order")
	}
	v.pending = append(v.pending[:0], v.pending[1:]...)
	if cap(f.buf) <= 2*v.opts.FrameBytes && len(v.spareBufs) < 4 {
		v.spareBufs = append(v.spareBufs, f.buf[:0])
	}
	if len(v.spareSpans) < 4 {
		v.spareSpans = append(v.spareSpans, f.spans[:0])
	}
	f.buf = nil
}

// pendingRecord returns a private copy of a record's plaintext, envelope included, if its frame is still in memory.
func (v *Volume) pendingRecord(at Place, length int) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pendingRecordLocked(at, length)
}

func (v *Volume) pendingRecordLocked(at Place, length int) ([]byte, bool) {
	for _, f := range v.pending {
		if at >= f.start() && at < f.end() {
			from := int(at-f.start()) + recPrefix
			if from+length > len(f.buf) {
				return nil, false
			}
			return append([]byte(nil), f.buf[from:from+length]...), true
		}
	}
	return nil, false
}

// sealFrame seals a closed frame into a DMA buffer. It is done once for each place (DESIGN.md 5.1): whether the frame then
// reaches the device or not, nothing else is ever sealed here.
func (v *Volume) sealFrame(f *frame) error {
	dma, err := v.allocDMA(f.blocks())
	if err != nil {
		return err
	}
	h := frameHeader{
		gen: v.gen, seq: v.sealedSeq + 1, first: f.first, last: f.last, complete: f.complete, epoch: f.epoch,
		time: v.Now(), records: len(f.spans), end: len(f.buf), blocks: f.blocks(),
		prev: v.sealedTag, manifest: f.manifest, set: f.set,
	}
	f.seq, f.dma = h.seq, dma
	f.tag = sealInto(&v.scratch, f, &h, dma)
	v.sealedSeq, v.sealedTag = h.seq, f.tag
	if f.seg != v.sealedSegment {
		v.sealedSegment.closed = true
		v.sealedSegment = f.seg
	}
	f.seg.end, f.seg.lastTag, f.seg.lastSeq, f.seg.last = f.block+f.blocks(), f.tag, h.seq, f.last
	v.list(f)
	return nil
}

// sealInto writes header, chain tag and records of f to the shared buffer dma, which it only writes: tags go to private memory
// first, and the chain tag is computed from those.
func sealInto(x *sealScratch, f *frame, h *frameHeader, dma []byte) epoch.Tag {
	base := f.block.Bytes()
	keys := f.seg.keys
	h.encode(&x.header)
	mac := keys.chain
	mac.Reset()
	le.PutUint64(x.item[:8], uint64(base))
	mac.Write(x.item[:8])
	mac.Write(x.header[:])
	for _, s := range f.spans {
		from, to := int(s.offset), int(s.offset+s.length)
		keys.sealRecord(&x.scratch, dma[from+recPrefix:to], base+from, f.buf[from+recPrefix:to])
		putChainItem(&x.item, int(s.length)-recPrefix, &x.tag)
		mac.Write(x.item[:])
		copy(dma[from:], x.tag[:])
		le.PutUint32(dma[from+tagSize:], s.length-recPrefix)
	}
	var tag epoch.Tag
	mac.Sum(tag[:0])
	keys.sealHeader(&x.scratch, dma[tagSize:frChain], base, x.header[:])
	copy(dma, x.tag[:])
	copy(dma[frChain:], tag[:])
	clear(dma[len(f.buf):])
	return tag
}

// sealScratch is the committer's private working memory.
type sealScratch struct {
	scratch
	header [fhSize]byte
	item   [4 + tagSize]byte
}

func putChainItem(p *[4 + tagSize]byte, length int, tag *[tagSize]byte) {
	binary.LittleEndian.PutUint32(p[:], uint32(length))
	copy(p[4:], tag[:])
}

// openedFrame is a frame read back and verified.
type openedFrame struct {
	header  frameHeader
	tag     epoch.Tag
	records []openedRecord
}

type openedRecord struct {
	record
	offset int // bytes from the segment's front
}

// openFrameAt reads the frame at a block of seg from shared memory, once, into private memory, and returns it only if its
// header, each of its records and its chain tag verify and its predecessor is prev. shared runs from that block to the
// segment's end.
func openFrameAt(seg *segment, block device.BlockCount, shared []byte, prev epoch.Tag) (*openedFrame, error) {
	var x sealScratch
	base := block.Bytes()
	copy(x.tag[:], shared)
	if err := seg.keys.openHeader(&x.scratch, x.header[:], base, shared[tagSize:frChain]); err != nil {
		return nil, fmt.Errorf("frame at block %d: header: %w", seg.lba+device.LBA(block), ErrCorrupt)
	}
	h, err := decodeFrameHeader(&x.header)
	switch {
	case err != nil:
		return nil, fmt.Errorf("frame at block %d: %w", seg.lba+device.LBA(block), err)
	case h.blocks.Bytes() > len(shared):
		return nil, fmt.Errorf("frame at block %d: longer than its segment: %w", seg.lba+device.LBA(block), ErrCorrupt)
	case h.prev != prev && !mutantIgnoreChain():
		return nil, fmt.Errorf("frame at block %d: not the successor of the frame before it: %w", seg.lba+device.LBA(block), ErrCorrupt)
	}
	f := &openedFrame{header: h}
	copy(f.tag[:], shared[frChain:frRecords])
	mac := seg.keys.chain
	mac.Reset()
	le.PutUint64(x.item[:8], uint64(base))
	mac.Write(x.item[:8])
	mac.Write(x.header[:])
	buf := make([]byte, h.end-frRecords)
	for at := frRecords; at < h.end; {
		var prefix [recPrefix]byte
		copy(prefix[:], shared[at:min(at+recPrefix, h.end)])
		length := int(le.Uint32(prefix[tagSize:]))
		if length < recEnvelope || length > h.end-at-recPrefix {
			return nil, fmt.Errorf("record at block %d offset %d: impossible length: %w", seg.lba+device.LBA(block), at, ErrCorrupt)
		}
		copy(x.tag[:], prefix[:])
		plain := buf[:length:length]
		buf = buf[length:]
		if err := seg.keys.openRecord(&x.scratch, plain, base+at, shared[at+recPrefix:at+recPrefix+length]); err != nil {
			return nil, fmt.Errorf("record at block %d offset %d: %w", seg.lba+device.LBA(block), at, ErrCorrupt)
		}
		r, err := parseRecord(plain)
		if err != nil {
			return nil, fmt.Errorf("record at block %d offset %d: %w", seg.lba+device.LBA(block), at, err)
		}
		putChainItem(&x.item, length, &x.tag)
		mac.Write(x.item[:])
		f.records = append(f.records, openedRecord{r, base + at})
		at += recPrefix + length
	}
	var tag epoch.Tag
	mac.Sum(tag[:0])
	if len(f.records) != h.records || !hmac.Equal(tag[:], f.tag[:]) {
		return nil, fmt.Errorf("frame at block %d: chain tag or number of records: %w", seg.lba+device.LBA(block), ErrCorrupt)
	}
	return f, nil
}
