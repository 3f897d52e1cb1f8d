package memdev

import (
	"encoding/binary"
	"math/rand/v2"

	"cvmstore/ioengine/device"
)

// What a power cut does to the blocks that were written and not flushed. All are what disks do; the seed picks one a cut, so
// that the extremes, which hide in an independent choice a block, are met as well.
const (
	cutLosesAll  = iota // the cache was never written back
	cutKeepsAll         // it was written back just in time
	cutKeepsHead        // the blocks that were written first, and one torn
	cutMixes            // any version of each block, or a torn one
	cutMixesMore        // the same, twice as likely
	cuts
)

// PowerCut ends all queues, as if the power failed now. Durable blocks stay. Every block that was written and not flushed, by
// a request that completed or by one that did not, holds its durable version, a later one, or a mix of them by sectors (with
// Options.Garbage also noise). The device is open again afterwards. A nil rng is the device's own.
func (d *Device) PowerCut(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rng == nil {
		rng = d.rng
	}
	d.counters.PowerCuts++
	for _, q := range d.queues {
		for i := range q.pending {
			d.reachLocked(&q.pending[i], func() bool { return true })
		}
	}
	mode, head := rng.IntN(cuts), rng.IntN(len(d.dirty)+1)
	for i, lba := range d.dirty {
		b := &d.blocks[lba]
		if b.dirty = false; len(b.cached) == 0 {
			continue
		}
		switch {
		case mode == cutLosesAll, mode == cutKeepsHead && i > head:
			d.counters.BlocksLost++
			b.cached = nil
		case mode == cutKeepsAll, mode == cutKeepsHead && i < head:
			b.set(b.current())
		case mode == cutKeepsHead:
			d.tearLocked(b, rng)
		default:
			d.mixVersionsLocked(b, rng)
		}
	}
	d.dirty = d.dirty[:0]
	d.endLifeLocked()
}

// Kill ends all queues, as if the process were killed: the write cache survives, and outstanding writes and trims have
// reached it whole, not at all, or some of their blocks.
func (d *Device) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counters.Kills++
	for _, q := range d.queues {
		for i := range q.pending {
			switch d.rng.IntN(3) {
			case 0:
				d.reachLocked(&q.pending[i], func() bool { return true })
			case 1:
				d.reachLocked(&q.pending[i], func() bool { return d.rng.IntN(2) == 0 })
			}
		}
	}
	d.endLifeLocked()
}

// reachLocked lets the blocks of a request that did not complete reach the cache, those that pick wants.
func (d *Device) reachLocked(p *pending, pick func() bool) {
	if p.fault.Land == LandNone {
		return
	}
	d.seq++
	for i, c := range p.contents {
		if pick() {
			d.landLocked(p.req.LBA+device.LBA(i), c, false)
		}
	}
	if p.req.Op != device.OpTrim {
		return
	}
	for i := range p.req.Count {
		if pick() {
			d.landLocked(p.req.LBA+device.LBA(i), nil, false)
		}
	}
}

// mixVersionsLocked leaves any version of a block, or a torn one.
func (d *Device) mixVersionsLocked(b *block, rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
		d.counters.BlocksLost++
		b.cached = nil
	case 1:
		b.set(b.current())
	case 2:
		all := b.candidates()
		b.set(all[rng.IntN(len(all))])
	default:
		d.tearLocked(b, rng)
	}
}

// tearLocked leaves a block of which the first sectors are new, or any sectors of any version.
func (d *Device) tearLocked(b *block, rng *rand.Rand) {
	d.counters.BlocksTorn++
	all := b.candidates()
	if d.opts.Garbage {
		all = append(all, noise(rng))
	}
	if rng.IntN(2) == 0 {
		b.set(mix(rng.IntN, all...))
		return
	}
	sectors := device.BlockSize / sectorSize
	whole, at := 1+rng.IntN(sectors-1), 0
	prefix := func(int) int {
		if at++; at <= whole {
			return 1
		}
		return 0
	}
	b.set(mix(prefix, b.durable, b.current()))
}

func (d *Device) noiseLocked() []byte { return noise(d.rng) }

// noise returns a block that nobody wrote.
func noise(rng *rand.Rand) []byte {
	b := make([]byte, 0, device.BlockSize)
	for len(b) < device.BlockSize {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return b
}
