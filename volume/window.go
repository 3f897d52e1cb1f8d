package volume

import (
	"cvmstore/ioengine/device"
)

// window reads a segment from the front, as far as its frames go and little more, into one buffer of shared memory.
type window struct {
	v      *Volume
	buf    []byte // of a whole segment
	lba    device.LBA
	limit  device.BlockCount // blocks of the segment that may hold frames
	loaded device.BlockCount
}

// windowStep is how much is read at a time where no frame says that it is longer.
const windowStep device.BlockCount = 64

func (v *Volume) newWindow() (*window, error) {
	buf, err := v.dev.Alloc(v.segmentBlocks)
	return &window{v: v, buf: buf}, err
}

func (w *window) close() { w.v.dev.Free(w.buf) }

func (w *window) start(lba device.LBA, limit device.BlockCount) {
	w.lba, w.limit, w.loaded = lba, limit, 0
}

// frame returns the segment from a block on, with the whole frame that stands there, if one does.
func (w *window) frame(seg *segment, block device.BlockCount) ([]byte, error) {
	if err := w.load(block + 1); err != nil {
		return nil, err
	}
	// How long it is decides how much to read, no more: openFrameAt reads the header again and checks it with the rest.
	if n := frameBlocks(seg, block, w.buf[block.Bytes():w.loaded.Bytes()]); n <= w.limit-block {
		if err := w.load(block + n); err != nil {
			return nil, err
		}
	}
	return w.buf[block.Bytes():w.loaded.Bytes()], nil
}

func (w *window) load(through device.BlockCount) error {
	if through <= w.loaded {
		return nil
	}
	to := min(w.limit, (through+windowStep-1)/windowStep*windowStep)
	if err := w.v.examineRead(w.buf[w.loaded.Bytes():to.Bytes()], w.lba+device.LBA(w.loaded)); err != nil {
		return err
	}
	w.loaded = to
	return nil
}

// frameBlocks returns how many blocks the frame at a block says that it has, 0 if no frame stands there.
func frameBlocks(seg *segment, block device.BlockCount, shared []byte) device.BlockCount {
	var x sealScratch
	copy(x.tag[:], shared)
	if seg.keys.openHeader(&x.scratch, x.header[:], block.Bytes(), shared[tagSize:frChain]) != nil {
		return 0
	}
	h, err := decodeFrameHeader(&x.header)
	if err != nil {
		return 0
	}
	return h.blocks
}
