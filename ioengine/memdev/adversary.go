package memdev

import (
	"bytes"
	"fmt"

	"cvmstore/ioengine/device"
)

// This file is what the host can do to a disk behind its user's back. All of it panics on a block outside the device, and
// may be used at any time; requests in flight land afterwards.

// Snapshot is an image of a device. It is never changed and can be restored any number of times.
type Snapshot struct{ contents [][]byte }

// Blocks returns the size of the image.
func (s *Snapshot) Blocks() device.BlockCount { return device.BlockCount(len(s.contents)) }

// Snapshot takes an image of what reads return now. It copies no blocks.
func (d *Device) Snapshot() *Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Snapshot{contents: make([][]byte, len(d.blocks))}
	for i := range d.blocks {
		s.contents[i] = d.blocks[i].current()
	}
	return s
}

// Restore puts an image back, durably. Blocks that were added since read as zero; histories are kept.
func (d *Device) Restore(s *Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(s.contents) > len(d.blocks) {
		d.blocks = append(d.blocks, make([]block, len(s.contents)-len(d.blocks))...)
	}
	for i := range d.blocks {
		d.blocks[i].set(nil)
	}
	for i, c := range s.contents {
		d.blocks[i].set(c)
	}
	d.counters.Tampered++
}

// Fork makes another device with the content of an image and the given options, whose Blocks are raised to the image's size
// if smaller: a clone of the disk.
func Fork(s *Snapshot, o Options) *Device {
	o.Blocks = max(o.Blocks, s.Blocks())
	o.BlocksMax = max(o.BlocksMax, o.Blocks)
	d := New(o)
	for i, c := range s.contents {
		d.blocks[i].set(c)
	}
	return d
}

func (d *Device) atLocked(lba device.LBA) *block {
	if uint64(lba) >= uint64(len(d.blocks)) {
		panic(fmt.Sprintf("internal error: block %d of %d", lba, len(d.blocks)))
	}
	return &d.blocks[lba]
}

// Peek returns a copy of what a read of the block returns.
func (d *Device) Peek(lba device.LBA) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(orZero(d.atLocked(lba).current()))
}

// Poke replaces a block, durably. The content is copied and has BlockSize bytes.
func (d *Device) Poke(lba device.LBA, content []byte) {
	if len(content) != device.BlockSize {
		panic(fmt.Sprintf("internal error: poke of %d bytes", len(content)))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.atLocked(lba).set(bytes.Clone(content))
	d.counters.Tampered++
}

// FlipBit changes one bit of a block; bit counts from the lowest of its first byte.
func (d *Device) FlipBit(lba device.LBA, bit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.atLocked(lba)
	c := bytes.Clone(orZero(b.current()))
	c[bit/8] ^= 1 << (bit % 8)
	b.set(c)
	d.counters.Tampered++
}

// Swap exchanges two blocks.
func (d *Device) Swap(a, b device.LBA) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, y := d.atLocked(a), d.atLocked(b)
	cx, cy := x.current(), y.current()
	x.set(cy)
	y.set(cx)
	d.counters.Tampered += 2
}

// History returns every version of a block that was ever submitted, oldest first, also those that were lost. It is empty
// without Options.History. The caller must not change the versions.
func (d *Device) History(lba device.LBA) [][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([][]byte(nil), d.atLocked(lba).history...)
}

// Rewind replaces a block by a version of its history, durably; -1 is the zeros from before the first.
func (d *Device) Rewind(lba device.LBA, version int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.atLocked(lba)
	if version < 0 {
		b.set(nil)
	} else {
		b.set(b.history[version])
	}
	d.counters.Tampered++
}
