package volume

import (
	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// A frame that points to a blob is submitted only after a flush that began after the blob's last write completed (DESIGN.md
// 4.2). So the flush comes before the pointer is appended: a writer whose chunks are all there takes a number and asks for a
// flush, the committer sends one for all who asked, and the writer is done when one that began after its number has ended.
// Frames need not know of blobs, and other commits go on meanwhile.

// askFlush takes a number for a blob whose last write has completed.
func (t *blobTable) askFlush() uint64 {
	n := t.written.Add(1)
	raise(&t.wanted, n)
	return n
}

// isFlushed says whether a flush that began after the number was taken has ended.
func (t *blobTable) isFlushed(n uint64) bool {
	return n <= t.flushed.Load() || mutant.On(mutant.SkipBlobFlush)
}

// flushBlobs sends a flush if somebody asked for one, one at a time. The leader calls it in each step.
func (v *Volume) flushBlobs() {
	t := &v.blobs
	if t.flushing || t.wanted.Load() <= t.flushed.Load() || v.failure.Load() != nil {
		return
	}
	if mutant.On(mutant.SkipBlobFlush) {
		return
	}
	t.flushing = true
	v.submit(device.Request{Op: device.OpFlush, Token: tokenBlobFlush | t.written.Load()<<8})
}

// blobsFlushed takes note of a flush that began when so many numbers had been taken.
func (v *Volume) blobsFlushed(upTo uint64) {
	v.blobs.flushing = false
	v.blobs.flushed.Store(upTo)
	v.moved = true
}
