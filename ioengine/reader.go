package ioengine

import (
	"context"
	"encoding/binary"
	"fmt"

	"cvmstore/ioengine/device"
)

// Reader opens chunks of one blob, in any order that the caller asks for, and hands them on in that order. It belongs to the
// goroutine that uses its engine.
//
// Keep it supplied: each accepted TryRead is one chunk read ahead, into private memory that the caller gives. So a caller that
// stops taking chunks holds no DMA buffer.
type Reader struct {
	pipeline
	chunk   int
	results []result // asked for and not yet returned by Next, oldest first
	first   uint64   // the number, among all that were asked for, of results[0]
}

// result is a chunk on its way to the caller.
type result struct {
	chunk uint64
	tag   Tag
	dst   []byte
	done  bool
	err   error
}

// NewReader makes a reader of a blob with chunks of chunk bytes in the given extents, which are trusted: they come from an
// authentic record.
func (e *Engine) NewReader(key *Key, chunk int, list ...Extent) (*Reader, error) {
	if err := CheckChunk(chunk); err != nil {
		return nil, err
	}
	if chunk > e.pool.size {
		return nil, fmt.Errorf("chunks of %d bytes, buffers of %d", chunk, e.pool.size)
	}
	r := &Reader{pipeline: pipeline{e: e, key: key}, chunk: chunk}
	r.x.add(list...)
	return r, nil
}

// TryRead begins to read chunk number n, whose authentic tag is given, into dst, private memory as long as the chunk. dst is
// the engine's until Next returns it or the reader is closed; its content means nothing before. ok false without an error:
// no buffer is free, try again after a Step that moved something.
func (r *Reader) TryRead(n uint64, tag Tag, dst []byte) (ok bool, err error) {
	if err := r.state(); err != nil {
		return false, err
	}
	if len(dst) == 0 || len(dst) > r.chunk {
		panic(fmt.Sprintf("internal error: chunk of %d bytes where chunks have %d", len(dst), r.chunk))
	}
	per := uint64(device.BlocksFor(r.chunk))
	blocks := device.BlocksFor(len(dst))
	if n > uint64(r.x.total)/per || device.BlockCount(n*per)+blocks > r.x.total {
		return false, fmt.Errorf("read chunk %d: %d blocks in %d: %w", n, blocks, r.x.total, ErrExtents)
	}
	i := r.e.admit(&r.pipeline)
	if i < 0 {
		return false, nil
	}
	o := &r.e.ops[i]
	o.r, o.slot = r, r.first+uint64(len(r.results))
	poison(o.buf[:blocks.Bytes()])
	r.results = append(r.results, result{chunk: n, tag: tag, dst: dst})
	r.e.submit(i, device.OpRead, &r.x, device.BlockCount(n*per), blocks)
	return true, r.state()
}

// poison spoils what a buffer held before, which may be the very chunk that is asked for: a device that reports success and
// reads nothing is found by the tag. One word that differs is enough.
func poison(buf []byte) {
	binary.LittleEndian.PutUint64(buf, ^binary.LittleEndian.Uint64(buf))
}

// complete opens a chunk that the device has read, or says that it has.
func (r *Reader) complete(o *op) {
	defer r.e.landed(&r.pipeline)
	if r.closed {
		return
	}
	s := &r.results[o.slot-r.first]
	s.done = true
	if o.err != nil {
		s.err = fmt.Errorf("read chunk %d at block %d: %w: %w", s.chunk, o.first, ErrDevice, o.err)
		return
	}
	r.e.stats.BytesRead += uint64(o.length)
	start, alone := r.e.cryptoBegin()
	err := r.key.open(&r.e.x, s.dst, o.buf[:len(s.dst)], s.chunk, &s.tag)
	r.e.cryptoEnd(start, alone)
	if err != nil {
		s.err = fmt.Errorf("chunk %d at block %d: %w: %w", s.chunk, o.first, err, ErrCorrupt)
		return
	}
	r.e.stats.BytesOpened += uint64(len(s.dst))
}

// Pending returns how many chunks were asked for and not yet returned by Next.
func (r *Reader) Pending() int { return len(r.results) }

// Next returns the next chunk, verified, in the order in which they were asked for; it is the dst of its TryRead. nil without
// an error: it is not there yet, or none was asked for. An error is for good, and comes after the chunks before it.
func (r *Reader) Next() ([]byte, error) {
	if r.closed || r.err != nil {
		return nil, r.state()
	}
	if len(r.results) == 0 {
		return nil, r.e.err
	}
	s := r.results[0]
	switch {
	case !s.done:
		return nil, r.e.err
	case s.err != nil:
		r.failed(s.err)
		return nil, s.err
	}
	r.results[0] = result{}
	r.results = r.results[1:]
	r.first++
	return s.dst, nil
}

// Close ends the reader at any time, without waiting. All destinations are the caller's again at once; what chunks in flight
// bring is dropped.
func (r *Reader) Close() {
	r.pipeline.Close()
	r.results = nil
}

// ReadAll reads the chunks from number n on whose tags are given into dst, and waits for them. All chunks are whole but the
// last, which takes the rest of dst. It steps the engine. After an error dst must not be used, and the reader is closed.
func (r *Reader) ReadAll(ctx context.Context, n uint64, tags []Tag, dst []byte) error {
	if ChunkCount(int64(len(dst)), r.chunk) != uint64(len(tags)) {
		return fmt.Errorf("read %d bytes with %d tags of chunks of %d bytes", len(dst), len(tags), r.chunk)
	}
	for len(tags) > 0 || len(r.results) > 0 {
		moved, err := false, error(nil)
		if len(tags) > 0 {
			part := dst[:min(r.chunk, len(dst))]
			if moved, err = r.TryRead(n, tags[0], part); moved {
				n, tags, dst = n+1, tags[1:], dst[len(part):]
			}
		}
		if err == nil {
			err = r.hand(ctx, moved)
		}
		if err != nil {
			r.Close()
			return err
		}
	}
	return nil
}

// hand takes the next chunk if it is there, and waits for something to move if nothing did.
func (r *Reader) hand(ctx context.Context, moved bool) error {
	got, err := r.Next()
	if err != nil || got != nil || moved {
		return err
	}
	return r.e.pause(ctx)
}
