package ioengine

import (
	"context"
	"fmt"
	"io"
	"time"

	"cvmstore/ioengine/device"
)

// Writer seals a blob's chunks, in order, into extents. It belongs to the goroutine that uses its engine.
//
// When all chunks are given and Idle says true, they are written; they are durable after a flush that begins then. An error
// is for good: the blob must not be used. Close ends the writer at any time, finished or not.
type Writer struct {
	pipeline
	chunk int
	size  int64
	tags  []Tag
	taken uint64 // tags that TakeTags has handed over
	short bool   // the last chunk was given
}

// NewWriter makes a writer of chunks of chunk bytes into the given extents. It panics if key has had a writer before, since
// chunks of two writers would share nonces.
func (e *Engine) NewWriter(key *Key, chunk int, list ...Extent) (*Writer, error) {
	if err := CheckChunk(chunk); err != nil {
		return nil, err
	}
	if chunk > e.pool.size {
		return nil, fmt.Errorf("chunks of %d bytes, buffers of %d", chunk, e.pool.size)
	}
	key.spend()
	w := &Writer{pipeline: pipeline{e: e, key: key}, chunk: chunk}
	w.x.add(list...)
	return w, nil
}

// Extend adds extents behind those that the writer has.
func (w *Writer) Extend(list ...Extent) { w.x.add(list...) }

// Room returns how many more bytes the extents hold.
func (w *Writer) Room() int64 {
	return int64(w.x.total)*device.BlockSize - int64(w.count())*int64(w.chunk)
}

// TryWrite seals the next chunk and submits it. src has the writer's chunk size; a shorter one, not empty, is the last. ok
// false without an error: no buffer is free, try again after a Step that moved something. src is the caller's again in any
// case.
func (w *Writer) TryWrite(src []byte) (ok bool, err error) {
	if err := w.state(); err != nil {
		return false, err
	}
	if len(src) == 0 || len(src) > w.chunk || w.short {
		panic(fmt.Sprintf("internal error: chunk of %d bytes where chunks have %d", len(src), w.chunk))
	}
	n := w.count()
	from := device.BlockCount(n) * device.BlocksFor(w.chunk)
	blocks := device.BlocksFor(len(src))
	if from+blocks > w.x.total {
		return false, fmt.Errorf("write chunk %d: blocks %d+%d of %d: %w", n, from, blocks, w.x.total, ErrExtents)
	}
	i := w.e.admit(&w.pipeline)
	if i < 0 {
		return false, nil
	}
	o := &w.e.ops[i]
	o.w = w
	start, alone := w.e.cryptoBegin()
	w.tags = append(w.tags, w.key.seal(&w.e.x, o.buf[:len(src)], src, n))
	clear(o.buf[len(src):blocks.Bytes()]) // what the buffer held before stays here
	w.e.cryptoEnd(start, alone)
	w.e.stats.BytesSealed += uint64(len(src))
	w.size += int64(len(src))
	w.short = len(src) < w.chunk
	w.e.submit(i, device.OpWrite, &w.x, from, blocks)
	return true, w.state()
}

// complete takes back a chunk that the device has written, or says that it has.
func (w *Writer) complete(o *op) {
	if o.err != nil {
		w.failed(fmt.Errorf("write at block %d: %w: %w", o.first, ErrDevice, o.err))
	} else {
		w.e.stats.BytesWritten += uint64(o.length)
	}
	w.e.landed(&w.pipeline)
}

// Size returns how many bytes were sealed.
func (w *Writer) Size() int64 { return w.size }

// Tags returns the tags of the chunks sealed so far that were not taken. They are the writer's until it is closed.
func (w *Writer) Tags() []Tag { return w.tags }

// TakeTags forgets the first n of Tags, which the caller has copied: a long blob's would fill the memory.
func (w *Writer) TakeTags(n int) {
	w.tags = append(w.tags[:0], w.tags[n:]...)
	w.taken += uint64(n)
}

// count is how many chunks were sealed: the number, and so the nonce, of the next.
func (w *Writer) count() uint64 { return w.taken + uint64(len(w.tags)) }

// WriteAll writes data as the rest of the blob and waits until the device has it. It steps the engine.
func (w *Writer) WriteAll(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(w.chunk, len(data))
		if err := w.write(ctx, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return w.Drain(ctx)
}

// ReadFrom writes what src gives, up to its end, as the rest of the blob, in constant memory, and waits until the device has
// it. It steps the engine.
func (w *Writer) ReadFrom(ctx context.Context, src io.Reader) error {
	buf := make([]byte, w.chunk)
	for {
		n, err := io.ReadFull(src, buf)
		if n > 0 {
			if err := w.write(ctx, buf[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return w.Drain(ctx)
		default:
			return err
		}
	}
}

// write is TryWrite that waits.
func (w *Writer) write(ctx context.Context, chunk []byte) error {
	for {
		ok, err := w.TryWrite(chunk)
		if ok || err != nil {
			return err
		}
		if err := w.e.pause(ctx); err != nil {
			return err
		}
	}
}

// Drain waits until the device has completed all chunks that were given, and returns the writer's error. It steps the
// engine.
func (w *Writer) Drain(ctx context.Context) error {
	for !w.Idle() {
		if err := w.e.pause(ctx); err != nil {
			return err
		}
	}
	return w.err
}

// pauseMax bounds one sleep of those who wait here, so that they see a buffer that another engine gave back, and the end of
// their context.
const pauseMax = time.Millisecond

// pause waits for something to move.
func (e *Engine) pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	moved, err := e.Wait(pauseMax)
	if err == nil && !moved && e.Outstanding() == 0 {
		time.Sleep(pauseMax / 10) // others have all buffers
	}
	return err
}
