package hostile

import (
	"bytes"
	"slices"
)

// disk is what the controller stores, in blocks of 4096 bytes, with a volatile cache: what a block held when it was last
// durable.
type disk struct {
	now   map[uint64][]byte // absent: zeros
	old   map[uint64][]byte // the version before, for OldVersion
	dirty map[uint64][]byte // durable content of blocks whose newest content is not
}

func newDisk() *disk {
	return &disk{now: map[uint64][]byte{}, old: map[uint64][]byte{}, dirty: map[uint64][]byte{}}
}

var zeros = make([]byte, pageSize)

func (d *disk) block(lba uint64) []byte {
	if b := d.now[lba]; b != nil {
		return b
	}
	return zeros
}

// write replaces a block. through: it is durable at once.
func (d *disk) write(lba uint64, b []byte, through bool) {
	before := d.block(lba)
	d.old[lba] = before
	d.now[lba] = slices.Clone(b)
	if through {
		delete(d.dirty, lba)
	} else if _, dirty := d.dirty[lba]; !dirty {
		d.dirty[lba] = before
	}
}

func (d *disk) flush() { clear(d.dirty) }

// PowerCut loses, of every block that is not durable, what a coin says. With TornWrite some blocks keep a part.
func (c *Controller) PowerCut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.disk
	for _, lba := range sorted(d.dirty) {
		before := d.dirty[lba]
		switch {
		case c.makes(TornWrite):
			torn := slices.Clone(d.block(lba))
			for at := 0; at < pageSize; at += 512 {
				if c.rng.IntN(2) == 0 {
					copy(torn[at:at+512], before[at:])
				}
			}
			d.now[lba] = torn
		case c.rng.IntN(2) == 0:
			d.now[lba] = before
		}
	}
	clear(d.dirty)
}

// Snapshot returns a copy of the disk's contents, to be attached to another controller by Options.Disk.
func (c *Controller) Snapshot() Disk {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := newDisk()
	for lba, b := range c.disk.now {
		s.now[lba] = slices.Clone(b)
	}
	return Disk{s}
}

// Disk is the contents of a disk.
type Disk struct{ d *disk }

func sorted(m map[uint64][]byte) []uint64 {
	all := make([]uint64, 0, len(m))
	for lba := range m {
		all = append(all, lba)
	}
	slices.Sort(all)
	return all
}

func contains(b, pattern []byte) bool { return bytes.Contains(b, pattern) }
