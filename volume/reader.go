package volume

import (
	"context"
	"fmt"
	"time"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// Fetch names a record to read back, as the index expects it.
type Fetch struct {
	At      Place
	Size    int // of the payload, bytes
	Counter Counter
	Store   Store
	Kind    Kind
}

// Fetched is one result of a Reader. Payload is private memory and the receiver's to keep.
type Fetched struct {
	Token   uint64
	Payload []byte
	Err     error // ErrCorrupt, or the device's, wrapped with the place
}

// Reader reads records back, several at a time. One goroutine uses it. A record whose frame is not durable yet is answered
// from memory; the others are read from the device into shared memory and opened from there into private memory, once
// (DESIGN.md 5.3).
type Reader struct {
	v     *Volume
	queue device.Queue
	x     scratch
	slots []readSlot
	free  []int
	spare map[device.BlockCount][][]byte
	ready []Fetched
	done  []device.Completion
	split bool // some record took more than one request
}

type readSlot struct {
	fetch Fetch
	seg   *segment // held until the slot is free
	token uint64
	buf   []byte
	first device.LBA // of buf
	sent  int        // bytes of it that were asked for
	parts int        // requests for it that the device has not completed
	err   error      // of one of them
}

// NewReader makes a reader for up to depth records at once.
func (v *Volume) NewReader(depth int) (*Reader, error) {
	q, err := v.dev.NewQueue(depth)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	r := &Reader{
		v: v, queue: q, slots: make([]readSlot, depth), done: make([]device.Completion, depth),
		spare: map[device.BlockCount][][]byte{},
	}
	for i := range depth {
		r.free = append(r.free, i)
	}
	return r, nil
}

// Close frees the reader.
func (r *Reader) Close() error {
	err := r.queue.Close()
	for _, list := range r.spare {
		for _, b := range list {
			r.v.dev.Free(b)
		}
	}
	return err
}

// Fd returns a descriptor that is readable when Poll has something from the device, or -1. What was answered from memory is
// there at once.
func (r *Reader) Fd() int { return r.queue.Fd() }

// Outstanding returns how many accepted fetches Poll has not returned yet.
func (r *Reader) Outstanding() int { return len(r.slots) - len(r.free) + len(r.ready) }

// Submit starts one fetch. ErrBusy: Poll first.
func (r *Reader) Submit(f Fetch, token uint64) error {
	length := recEnvelope + f.Size
	if p, ok := r.v.pendingRecord(f.At, length); ok {
		payload, err := checkRecord(f, p)
		r.ready = append(r.ready, Fetched{token, payload, err})
		return nil
	}
	return r.submitDevice(f, token)
}

// submitDevice starts the fetch of a record that is in no frame in memory.
func (r *Reader) submitDevice(f Fetch, token uint64) error {
	length := recEnvelope + f.Size
	if len(r.free) == 0 {
		return ErrBusy
	}
	seg, err := r.v.holdSegment(f.At)
	switch {
	case err != nil:
		return err
	case f.At.offset()+recPrefix+length > r.v.segmentBlocks.Bytes():
		seg.readers.Add(-1)
		return fmt.Errorf("read at %#x: no such place: %w", f.At, ErrCorrupt)
	}
	first := seg.lba + device.LBA(f.At.offset()/device.BlockSize)
	n := blocksOf(f.At.offset()%device.BlockSize + recPrefix + length)
	buf, err := r.alloc(n)
	if err != nil {
		seg.readers.Add(-1)
		return err
	}
	i := r.free[len(r.free)-1]
	r.slots[i] = readSlot{fetch: f, seg: seg, token: token, buf: buf, first: first}
	err = r.ask(i)
	if r.slots[i].parts == 0 {
		r.release(buf)
		seg.readers.Add(-1)
		r.slots[i] = readSlot{}
		if err == nil {
			err = ErrBusy
		}
		return err
	}
	r.slots[i].err = err
	r.free = r.free[:len(r.free)-1]
	return nil
}

// ask asks for as much of a slot's blocks as the queue takes now: a device takes only so many in one request (pieces.go).
func (r *Reader) ask(i int) error {
	s := &r.slots[i]
	most := r.v.transfer.Bytes()
	r.split = r.split || len(s.buf) > most
	for s.sent < len(s.buf) && s.err == nil {
		part := s.buf[s.sent:min(s.sent+most, len(s.buf))]
		n, err := r.queue.Submit([]device.Request{{Op: device.OpRead, LBA: s.first + device.LBA(s.sent/device.BlockSize), Buf: part, Token: uint64(i)}})
		if err != nil || n == 0 {
			return err
		}
		s.sent += len(part)
		s.parts++
	}
	return nil
}

// askRest asks for what the queue had no room for.
func (r *Reader) askRest() {
	for i := range r.slots {
		if s := &r.slots[i]; s.buf != nil && s.sent < len(s.buf) && s.err == nil {
			if s.err = r.ask(i); s.err != nil && s.parts == 0 {
				r.finish(i, nil, s.err)
			}
		}
	}
}

func (r *Reader) alloc(n device.BlockCount) ([]byte, error) {
	class := dmaClass(n)
	if list := r.spare[class]; len(list) > 0 {
		r.spare[class] = list[:len(list)-1]
		b := list[len(list)-1][:n.Bytes():class.Bytes()]
		clear(b) // a read that never happens must not serve the last one's data: the tag would still hold
		return b, nil
	}
	b, err := r.v.dev.Alloc(class)
	if err != nil {
		return nil, err
	}
	return b[:n.Bytes():class.Bytes()], nil
}

func (r *Reader) release(b []byte) {
	b = b[:cap(b)]
	if class := blocksOf(len(b)); len(r.spare[class]) < 8 && class <= 64 {
		r.spare[class] = append(r.spare[class], b)
		return
	}
	r.v.dev.Free(b)
}

// Poll moves results into out, without waiting, and returns how many.
func (r *Reader) Poll(out []Fetched) int {
	r.take(r.queue.Poll(r.done))
	return r.move(out)
}

func (r *Reader) move(out []Fetched) int {
	n := copy(out, r.ready)
	r.ready = append(r.ready[:0], r.ready[n:]...)
	return n
}

// take opens what the device completed.
func (r *Reader) take(n int, err error) {
	if err != nil {
		for i := range r.slots { // the queue is broken: everything outstanding fails
			if s := &r.slots[i]; s.buf != nil {
				r.finish(i, nil, err)
			}
		}
		return
	}
	for _, c := range r.done[:n] {
		i := int(c.Token)
		if i >= len(r.slots) || r.slots[i].buf == nil {
			continue
		}
		s := &r.slots[i]
		if s.parts--; c.Err != nil && s.err == nil {
			s.err = fmt.Errorf("read at block %d: %w", r.v.lbaOf(s.fetch.At), c.Err)
		}
		switch {
		case s.parts > 0 || s.err == nil && s.sent < len(s.buf):
			continue
		case s.err != nil:
			r.finish(i, nil, s.err)
			continue
		}
		r.v.stats.bytesRead.Add(uint64(len(s.buf)))
		payload, err := r.v.openFrom(&r.x, s.seg, s.fetch, s.buf[s.fetch.At.offset()%device.BlockSize:])
		r.finish(i, payload, err)
	}
	if n > 0 && r.split {
		r.askRest()
	}
}

func (r *Reader) finish(i int, payload []byte, err error) {
	s := &r.slots[i]
	r.ready = append(r.ready, Fetched{s.token, payload, err})
	r.release(s.buf)
	s.seg.readers.Add(-1)
	*s = readSlot{}
	r.free = append(r.free, i)
}

func (v *Volume) lbaOf(p Place) device.LBA {
	if seg := v.segmentAt(p); seg != nil {
		return seg.lba + device.LBA(p.offset()/device.BlockSize)
	}
	return 0
}

// holdSegment returns the segment of a place and keeps its blocks from being reused until readers is counted down again.
// ErrMoved: compaction has emptied it since the index was asked.
func (v *Volume) holdSegment(at Place) (*segment, error) {
	if seg := v.segmentAt(at); seg != nil {
		seg.readers.Add(1)
		if v.segmentAt(at) == seg { // else it went in between, and who frees it may have looked at readers before
			return seg, nil
		}
		seg.readers.Add(-1)
	}
	if l := v.segments.Load(); at.ordinal() >= 1 && int(at.ordinal()) < int(l.base)+len(l.list) {
		return nil, fmt.Errorf("read at %#x: %w", at, ErrMoved)
	}
	return nil, fmt.Errorf("read at %#x: no such place: %w", at, ErrCorrupt)
}

// openFrom opens a record of a segment from shared memory, which begins with it, and checks that it is the one that the index
// expects.
func (v *Volume) openFrom(x *scratch, seg *segment, f Fetch, shared []byte) ([]byte, error) {
	block := seg.lba + device.LBA(f.At.offset()/device.BlockSize)
	length := recEnvelope + f.Size
	var prefix [recPrefix]byte
	copy(prefix[:], shared)
	copy(x.tag[:], prefix[:])
	if got := int(le.Uint32(prefix[tagSize:])); got != length {
		return nil, fmt.Errorf("record at block %d: %d bytes long, not %d: %w", block, got, length, ErrCorrupt)
	}
	plain := make([]byte, length)
	if err := seg.keys.openRecord(x, plain, f.At.offset(), shared[recPrefix:recPrefix+length]); err != nil {
		if mutant.On(mutant.ReleaseUnverified) {
			copy(plain, shared[recPrefix:])
			return plain[recEnvelope:], nil
		}
		return nil, fmt.Errorf("record at block %d: its tag is wrong: %w", block, ErrCorrupt)
	}
	payload, err := checkRecord(f, plain)
	if err != nil {
		err = fmt.Errorf("record at block %d: %w", block, err)
	}
	return payload, err
}

func checkRecord(f Fetch, plain []byte) ([]byte, error) {
	r, err := parseRecord(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	if r.store != f.Store || r.kind != f.Kind || r.counter != f.Counter && !mutant.On(mutant.SkipCounterCheck) {
		return nil, fmt.Errorf("another record than the index expects (store %d kind %d counter %d): %w", r.store, r.kind, r.counter, ErrCorrupt)
	}
	return r.payload, nil
}

// Read is one fetch that waits, for library users.
func (v *Volume) Read(ctx context.Context, f Fetch) ([]byte, error) {
	r, err := v.NewReader(1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if err := r.Submit(f, 0); err != nil {
		return nil, err
	}
	var out [1]Fetched
	for r.move(out[:]) == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.take(r.queue.Wait(r.done, 10*time.Millisecond))
	}
	return out[0].Payload, out[0].Err
}
