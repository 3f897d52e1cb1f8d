package volume

import (
	"encoding/binary"
	"fmt"

	"cvmstore/ioengine/device"
)

// # Summary
//
// What recovery needs of a closed segment, so that it reads no values (DESIGN.md 6.4). A run of whole blocks of its own, written
// once in a run, when all its segment's frames are committed; the manifest holds its place, salt and tag. All of it is sealed:
// the key comes from the volume, the segment's life and a fresh random salt, and seals this one body.
//
//	records of the segment, in order, those of completed batches only; then zeros to the end of the block:
//	  1  store, above 0
//	  1  kind
//	  v  offset of the record in the segment, less that of the record before
//	  v  size of its payload
//	  s  counter, less that of the record before
//	  v  length of what follows
//	  n  the front of the payload, as long as Replayer.Meta says
//
// v is an unsigned varint, s a signed one (encoding/binary). The number of records stands in the manifest.
type summaryRef struct {
	lba     device.LBA // 0: none
	blocks  device.BlockCount
	records int
	salt    [16]byte
	tag     [tagSize]byte
}

const (
	labelSummary = "volume summary"

	summaryBlocksMax = 1 << 16 // bounds what a manifest may ask to be read
)

func (r *summaryRef) extent() extent { return extent{r.lba, r.blocks} }

// listing collects a segment's records until its summary is written.
type listing struct {
	buf     []byte
	records int
	offset  int
	counter Counter
}

func (l *listing) add(s Store, k Kind, c Counter, offset, size int, meta []byte) {
	b := append(l.buf, byte(s), byte(k))
	b = binary.AppendUvarint(b, uint64(offset-l.offset))
	b = binary.AppendUvarint(b, uint64(size))
	b = binary.AppendVarint(b, int64(c-l.counter))
	b = binary.AppendUvarint(b, uint64(len(meta)))
	l.buf = append(b, meta...)
	l.offset, l.counter = offset, c
	l.records++
}

// list notes the records of a frame that is being sealed, in its segment's listing.
func (v *Volume) list(f *frame) {
	base := f.block.Bytes()
	for _, s := range f.spans {
		p := f.buf[s.offset+recPrefix : s.offset+s.length]
		store, kind := Store(p[0]), Kind(p[1])
		if store == storeVolume {
			continue
		}
		payload := p[recEnvelope:]
		meta := len(payload)
		if r := v.opts.Stores[store]; r != nil {
			meta = min(meta, r.Meta(kind, payload))
		}
		f.seg.listing.add(store, kind, Counter(le.Uint64(p[4:])), base+int(s.offset), len(payload), payload[:meta])
	}
}

// readListing calls f for each record of a summary's opened body, until f fails.
func readListing(b []byte, records int, segmentBytes int, f func(r *record, offset, size int) error) error {
	offset, counter := 0, Counter(0)
	for range records {
		if len(b) < 2 {
			return errFormat
		}
		r := record{store: Store(b[0]), kind: Kind(b[1])}
		b = b[2:]
		step, n1 := binary.Uvarint(b)
		size, n2 := binary.Uvarint(b[max(n1, 0):])
		if n1 <= 0 || n2 <= 0 {
			return errFormat
		}
		b = b[n1+n2:]
		delta, n3 := binary.Varint(b)
		meta, n4 := binary.Uvarint(b[max(n3, 0):])
		if n3 <= 0 || n4 <= 0 {
			return errFormat
		}
		b = b[n3+n4:]
		if step > uint64(segmentBytes) || size > uint64(segmentBytes) || meta > size || meta > uint64(len(b)) {
			return errFormat
		}
		offset, counter = offset+int(step), counter+Counter(delta)
		if r.store == storeVolume || offset+recOverhead+int(size) > segmentBytes {
			return errFormat
		}
		r.counter, r.payload = counter, b[:meta:meta]
		b = b[meta:]
		if err := f(&r, offset, int(size)); err != nil {
			return err
		}
	}
	if !zero(b) {
		return errFormat
	}
	return nil
}

// encodeSummary seals a segment's listing into shared, which holds whole blocks, and fills in salt and tag.
func (v *Volume) encodeSummary(seg *segment, ref *summaryRef, shared []byte) error {
	v.random.read(ref.salt[:])
	body := make([]byte, len(shared))
	copy(body, seg.listing.buf)
	ref.records = seg.listing.records
	return sealSummary(v.keys, v.id, seg, ref, shared, body)
}

// openSummary opens a summary from shared memory, which it reads once.
func (v *Volume) openSummary(seg *segment, shared []byte) ([]byte, error) {
	body := make([]byte, len(shared))
	if err := unsealSummary(v.keys, v.id, seg, body, shared); err != nil {
		return nil, fmt.Errorf("summary at block %d of the segment at block %d: does not authenticate: %w", seg.summary.lba, seg.lba, ErrCorrupt)
	}
	return body, nil
}
