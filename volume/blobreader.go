package volume

import (
	"fmt"
	"io"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine"
)

// BlobReader hands on a part of a blob in order, verified, in pieces of up to a chunk. It belongs to the goroutine of its BlobIO,
// and holds a reference to the blob until it is closed. Chunks are asked for ahead of the consumer, into private memory, so a
// consumer that stops holds no DMA buffer.
type BlobReader struct {
	io     *BlobIO
	blob   *Blob
	key    *ioengine.Key
	r      *ioengine.Reader // nil while suspended
	tree   *treeReader
	whole  *compoundReader // does the work for a compound; then what follows is not used
	chunks [][]byte        // destinations of what was asked for and has not been handed on, oldest first
	ask    int             // the next chunk to ask for
	at, to int64           // the part that is left
	cur    []byte          // verified bytes from at on
	own    []byte          // the chunk that cur is a part of
	err    error
	late   error // why nothing behind chunks can be had: their turn comes first
}

// NewReader begins to read the bytes from from up to to. The caller protects the blob by a reference during the call.
func (bio *BlobIO) NewReader(b *Blob, from, to int64) (*BlobReader, error) {
	if from < 0 || to > b.size || from > to {
		panic("internal error: a range outside its blob")
	}
	if b.compound != nil {
		b.Retain()
		return &BlobReader{io: bio, blob: b, whole: bio.newCompoundReader(b, from, to)}, nil
	}
	key, err := bio.readKey(b)
	if err != nil {
		return nil, err
	}
	if !mutant.On(mutant.FreeBlobUnderReader) {
		b.Retain()
	}
	r := &BlobReader{io: bio, blob: b, key: key, at: from, to: to, tree: bio.newTreeReader(b)}
	r.fill()
	return r, nil
}

// Left returns how many bytes have not been consumed.
func (r *BlobReader) Left() int64 {
	if r.whole != nil {
		return r.whole.to - r.whole.at
	}
	return r.to - r.at
}

// askedAll reports that the device has been asked for all that is left.
func (r *BlobReader) askedAll() bool { return r.r != nil && int64(r.ask)<<r.blob.chunkLog >= r.to }

// fill asks for chunks ahead.
func (r *BlobReader) fill() {
	if r.r == nil {
		chunks, _ := r.blob.split()
		e, err := r.io.e.NewReader(r.key, r.blob.ChunkBytes(), engineExtents(chunks)...)
		if err != nil {
			r.err = err
			return
		}
		r.r, r.ask = e, int(r.at>>r.blob.chunkLog)
	}
	for len(r.chunks) < r.ahead() && int64(r.ask)<<r.blob.chunkLog < r.to && r.err == nil && r.late == nil {
		tag, found, err := r.tree.tag(r.ask)
		if err != nil {
			r.late = r.blob.blobError(fmt.Errorf("tree above chunk %d: %w", r.ask, err))
		}
		if !found || err != nil {
			return
		}
		n := ioengine.ChunkLen(r.blob.size, r.blob.ChunkBytes(), uint64(r.ask))
		dst := r.io.buffer(n)
		ok, err := r.r.TryRead(uint64(r.ask), tag, dst)
		if err != nil {
			r.err = r.blob.blobError(err)
		}
		if !ok {
			r.io.putBuffer(dst)
			return
		}
		r.chunks = append(r.chunks, dst)
		r.ask++
	}
}

// ahead is how many chunks are asked for ahead: as many bytes, whatever the size of the chunks.
func (r *BlobReader) ahead() int {
	o := &r.io.v.opts.Blobs
	return max(aheadMin, min(o.Ahead<<o.chunkLog()>>r.blob.chunkLog, o.Depth))
}

// aheadMin keeps two chunks at the device while one is opened.
const aheadMin = 3

// Next returns verified bytes that come next, at least one. None without an error: wait for a Step that moves something. io.EOF:
// all were consumed. ErrCorrupt, or the device's error: nothing that comes after can be had, and nothing of it was released.
func (r *BlobReader) Next() ([]byte, error) {
	switch {
	case r.whole != nil:
		return r.whole.next()
	case len(r.cur) > 0:
		return r.cur, nil
	case r.at == r.to:
		return nil, io.EOF
	case r.err != nil:
		return nil, r.err
	}
	r.fill()
	if r.err == nil && len(r.chunks) == 0 {
		r.err = r.late
	}
	if r.err != nil && len(r.chunks) == 0 {
		return nil, r.err
	}
	got, err := r.r.Next()
	if err != nil {
		if mutant.On(mutant.ReleaseBlobUnverified) && len(r.chunks) > 0 {
			got, r.ask = r.chunks[0], int(r.at>>r.blob.chunkLog)+1
			r.r.Close()
			chunks, _ := r.blob.split()
			r.r, _ = r.io.e.NewReader(r.key, r.blob.ChunkBytes(), engineExtents(chunks)...)
			r.chunks = r.chunks[:1]
		} else {
			r.err = r.blob.blobError(err)
			return nil, r.err
		}
	}
	if got == nil {
		return nil, nil
	}
	r.chunks = r.chunks[1:]
	r.own = got
	skip := r.at & int64(r.blob.ChunkBytes()-1)
	r.cur = got[skip:min(int64(len(got)), skip+r.to-r.at)]
	return r.cur, nil
}

// Consume says that n bytes of what Next returned are done with.
func (r *BlobReader) Consume(n int) {
	if r.whole != nil {
		r.whole.consume(n)
		return
	}
	r.cur = r.cur[n:]
	r.at += int64(n)
	if len(r.cur) == 0 {
		r.dropOwn()
		if r.at < r.to && r.err == nil {
			r.fill()
		}
	}
}

func (r *BlobReader) dropOwn() {
	if r.own != nil {
		r.io.putBuffer(r.own)
		r.own, r.cur = nil, nil
	}
}

// Suspend gives all memory back while the consumer takes nothing; Next begins again where it stopped.
func (r *BlobReader) Suspend() {
	if r.whole != nil {
		r.whole.suspend()
		return
	}
	r.dropOwn()
	r.tree.close()
	if r.r != nil {
		r.r.Close()
		for _, b := range r.chunks {
			r.io.putBuffer(b)
		}
		r.r, r.chunks = nil, nil
	}
}

// Close ends the reader, at any time.
func (r *BlobReader) Close() {
	if r.blob == nil {
		return
	}
	if r.whole != nil {
		r.whole.close()
	}
	r.Suspend()
	if !mutant.On(mutant.FreeBlobUnderReader) {
		r.blob.Release(0)
	}
	r.blob = nil
}
