package memdev

import (
	"bytes"

	"cvmstore/ioengine/device"
)

// sectorSize is what a disk writes in one piece even when the power fails, in bytes.
const sectorSize = 512

// versionsMax bounds the versions of one block in the cache. Beyond it the oldest is written back, as a disk may at any time.
const versionsMax = 8

var zeroBlock [device.BlockSize]byte

// block is one block of the disk. The content of a version is never changed, so versions are shared freely; nil is zeros.
type block struct {
	durable []byte
	cached  []version // newer than durable, oldest first; a power cut may leave any of them, or a mix
	dirty   bool      // listed in Device.dirty
	history [][]byte
}

// version is a completed write that is still in the volatile cache.
type version struct {
	content []byte
	seq     uint64
}

// current is what a read returns.
func (b *block) current() []byte {
	if n := len(b.cached); n > 0 {
		return b.cached[n-1].content
	}
	return b.durable
}

// set replaces whatever the block holds.
func (b *block) set(content []byte) { b.durable, b.cached = content, nil }

// candidates are all versions that a power cut may leave, oldest first.
func (b *block) candidates() [][]byte {
	all := [][]byte{b.durable}
	for _, v := range b.cached {
		all = append(all, v.content)
	}
	return all
}

// orZero turns the short form of a block of zeros into one.
func orZero(content []byte) []byte {
	if content == nil {
		return zeroBlock[:]
	}
	return content
}

// landLocked puts content into the block at lba: in the cache, or durably.
func (d *Device) landLocked(lba device.LBA, content []byte, durable bool) {
	b := &d.blocks[lba]
	if durable {
		b.set(content)
		return
	}
	if len(b.cached) == versionsMax {
		b.durable = b.cached[0].content
		b.cached = append(b.cached[:0:0], b.cached[1:]...)
	}
	b.cached = append(b.cached, version{content, d.seq})
	if !b.dirty {
		b.dirty = true
		d.dirty = append(d.dirty, lba)
	}
}

// flushLocked makes durable what landed up to seq, which is what a flush that began then promises.
func (d *Device) flushLocked(seq uint64) {
	left := d.dirty[:0]
	for _, lba := range d.dirty {
		b := &d.blocks[lba]
		n := 0
		for n < len(b.cached) && b.cached[n].seq <= seq {
			n++
		}
		if n > 0 {
			b.durable = b.cached[n-1].content
			b.cached = append(b.cached[:0:0], b.cached[n:]...)
		}
		if b.dirty = len(b.cached) > 0; b.dirty {
			left = append(left, lba)
		}
	}
	d.dirty = left
}

// mix makes a block whose sectors each come from one of the versions.
func mix(pick func(int) int, versions ...[]byte) []byte {
	mixed := make([]byte, device.BlockSize)
	for at := 0; at < device.BlockSize; at += sectorSize {
		copy(mixed[at:at+sectorSize], orZero(versions[pick(len(versions))])[at:])
	}
	return mixed
}

// copyBlocks copies a write's buffer into versions of its own, one a block.
func copyBlocks(buf []byte) [][]byte {
	contents := make([][]byte, len(buf)/device.BlockSize)
	for i := range contents {
		contents[i] = bytes.Clone(buf[i*device.BlockSize : (i+1)*device.BlockSize])
	}
	return contents
}
