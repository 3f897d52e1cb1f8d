package volume

import (
	"fmt"

	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// BlobWriter seals a value of known size as it arrives. It belongs to the goroutine of its BlobIO.
//
// Bytes come in through Buffer and Fill, or Write; each chunk is sealed and on its way to the device as soon as it is complete.
// When Done says true, all of it is flushed (DESIGN.md 4.2), and a pointer to the blob may be appended. Who gives up before that
// calls Abandon: nothing of the blob remains.
type BlobWriter struct {
	io      *BlobIO
	blob    *Blob
	w       *ioengine.Writer
	tree    *treeWriter // nil: there is none
	buf     []byte      // the chunk being filled
	left    int64       // bytes that have not come in
	laidOut bool
	number  uint64 // for the flush; 0 while chunks are on their way
	done    bool
	err     error
}

// NewWriter begins a blob of size bytes, of at least 1. ErrBusy: try again after a Step of the volume that moved something;
// ErrFull; ErrTooLarge.
func (io *BlobIO) NewWriter(size int64) (*BlobWriter, error) {
	return io.newWriter(size, io.v.opts.Blobs.chunkLog(), false)
}

// NewFileWriter is NewWriter for a file, or a part of one: tags of chunks stand in a tree, so that neither pointer nor memory
// grow with them. chunk is a power of two from 4 KiB to LargeChunk; 0: what suits the size.
func (io *BlobIO) NewFileWriter(size int64, chunk int) (*BlobWriter, error) {
	o := &io.v.opts.Blobs
	switch {
	case chunk == 0 && size >= fileLarge:
		chunk = o.LargeChunk
	case chunk == 0:
		chunk = max(o.ChunkBytes/2, 1<<blobChunkLogMin)
	}
	return io.newWriter(size, chunkLog(min(chunk, o.LargeChunk)), true)
}

// fileLarge is from which size on a file is taken for one that is read in sequence.
const fileLarge = 16 << 20

func (io *BlobIO) newWriter(size int64, log uint8, tree bool) (*BlobWriter, error) {
	b, err := io.v.newBlob(size, log, tree)
	if err != nil {
		return nil, err
	}
	w := &BlobWriter{io: io, blob: b, left: size}
	chunks, nodes := b.split()
	key, err := io.v.blobKey(b)
	if err == nil {
		w.w, err = io.e.NewWriter(key, b.ChunkBytes(), engineExtents(chunks)...)
	}
	if err == nil {
		if w.tree, err = io.newTreeWriter(b, nodes); err != nil {
			w.w.Close()
		}
	}
	if err != nil {
		b.Release(0)
		return nil, err
	}
	return w, nil
}

// Left returns how many bytes have not come in yet.
func (w *BlobWriter) Left() int64 { return w.left }

// Buffer returns private memory for the next bytes; the caller puts some there and calls Fill. It is empty when all bytes have
// come in, when the writer has failed (see Done), and when it must wait for a Step that moves something.
func (w *BlobWriter) Buffer() []byte {
	if w.err != nil || w.left == 0 || !w.push() {
		return nil
	}
	if w.buf == nil {
		w.buf = w.io.buffer(w.blob.ChunkBytes())[:0]
	}
	return w.buf[len(w.buf):w.target()]
}

// target is how long the chunk being filled will be.
func (w *BlobWriter) target() int {
	return int(min(int64(len(w.buf))+w.left, int64(w.blob.ChunkBytes())))
}

// Fill says that n bytes of Buffer were filled.
func (w *BlobWriter) Fill(n int) {
	w.buf = w.buf[:len(w.buf)+n]
	w.left -= int64(n)
	w.push()
}

// Write takes bytes from p, as many as it can at once, and returns how many.
func (w *BlobWriter) Write(p []byte) (n int) {
	for n < len(p) && w.err == nil && w.push() {
		if t := w.target(); len(w.buf) == 0 && len(p)-n >= t && w.ready() {
			if !w.seal(p[n : n+t]) { // straight from where it is
				break
			}
			n += t
			w.left -= int64(t)
			continue
		}
		into := w.Buffer()
		if len(into) == 0 {
			break
		}
		k := copy(into, p[n:])
		w.Fill(k)
		n += k
	}
	return n
}

// push sends the chunk being filled if it is complete. It reports whether there is room for more bytes.
func (w *BlobWriter) push() bool {
	if len(w.buf) == 0 || len(w.buf) < w.target() {
		return true
	}
	if !w.ready() || !w.seal(w.buf) {
		return false
	}
	w.buf = w.buf[:0]
	if w.left == 0 {
		w.drop()
	}
	return true
}

func (w *BlobWriter) drop() {
	if w.buf != nil {
		w.io.putBuffer(w.buf)
		w.buf = nil
	}
}

func (w *BlobWriter) seal(chunk []byte) bool {
	if w.tree != nil {
		if err := w.tree.take(w.w, false); err != nil {
			w.fail(err)
			return false
		}
		if len(w.w.Tags()) >= treeTagsWait {
			return false
		}
	}
	ok, err := w.w.TryWrite(chunk)
	if err != nil {
		w.fail(err)
	}
	return ok && err == nil
}

// ready asks the device to lay out the blob's blocks, until it has.
func (w *BlobWriter) ready() bool {
	if w.laidOut {
		return true
	}
	var top device.LBA
	for _, x := range w.blob.extents {
		top = max(top, x.end())
	}
	done, err := w.io.v.dev.Reserve(device.BlockCount(top))
	if err != nil {
		w.err = fmt.Errorf("blob of %d bytes: %w: %w", w.blob.size, ErrFull, err)
		return false
	}
	w.laidOut = done
	return done
}

// fail stops the volume: a write that failed may have landed or not, and what else the device has failed at is not known
// (DESIGN.md 4.5).
func (w *BlobWriter) fail(err error) {
	w.err = w.io.v.failBlob(w.blob.blobError(err))
}

// failBlob is fail for those who are not the leader.
func (v *Volume) failBlob(err error) error {
	v.leader.Lock()
	v.fail(ErrFailed, err)
	v.leader.Unlock()
	v.notify()
	return v.Err()
}

// Done reports that the blob is whole and flushed, or why it will never be. It moves the writer on.
func (w *BlobWriter) Done() (bool, error) {
	if w.done || w.err != nil {
		return w.done, w.err
	}
	if err := w.io.v.Err(); err != nil {
		w.err = err
		return false, err
	}
	w.push()
	if err := w.w.Err(); err != nil && w.err == nil {
		w.fail(err)
	}
	if w.err != nil || w.left > 0 || len(w.buf) > 0 {
		return false, w.err
	}
	if !w.sealed() || !w.w.Idle() || w.tree != nil && !w.tree.w.Idle() {
		return false, w.err
	}
	t := &w.io.v.blobs
	if w.number == 0 {
		w.number = t.askFlush()
	}
	if !t.isFlushed(w.number) {
		return false, nil
	}
	w.close()
	w.done = true
	return true, nil
}

// sealed reports whether all is sealed, the tree's nodes too, and takes the tags for the pointer.
func (w *BlobWriter) sealed() bool {
	if w.number != 0 {
		return true
	}
	tags := w.w.Tags()
	if w.tree != nil {
		top, done, err := w.tree.finish(w.w)
		if err == nil {
			err = w.tree.w.Err()
		}
		if err != nil {
			w.fail(err)
		}
		if !done || err != nil {
			return false
		}
		tags = top
	}
	copy(w.blob.tags, tags)
	return true
}

func (w *BlobWriter) close() {
	w.w.Close()
	if w.tree != nil {
		w.tree.w.Close()
	}
}

// Blob returns the blob after Done, with the reference that the writer held: the caller's from then on, once.
func (w *BlobWriter) Blob() *Blob {
	if !w.done {
		panic("internal error: a blob was taken before it was flushed")
	}
	return w.blob
}

// Abandon gives the blob up, at any time before Done said true. Its blocks are free as soon as the device is done with them.
func (w *BlobWriter) Abandon() {
	if w.done || w.err == ErrClosed {
		panic("internal error: a finished blob was abandoned")
	}
	w.drop()
	w.close()
	c := closingBlob{w: w.w, b: w.blob}
	if w.tree != nil {
		c.tree = w.tree.w
	}
	if c.idle() {
		w.blob.Release(0)
	} else {
		w.io.closing = append(w.io.closing, c)
	}
	w.err = ErrClosed
}
