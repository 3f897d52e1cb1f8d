package volume

import (
	"math/rand/v2"
	"testing"

	"cvmstore/ioengine/device"
)

// bitmap is the dumb twin of space: a flag a block.
type bitmap []bool

func (b bitmap) set(x extent, free bool) {
	for i := x.lba; i < x.end(); i++ {
		if b[i] == free {
			panic("set twice")
		}
		b[i] = free
	}
}

func (b bitmap) firstFit(n device.BlockCount) (device.LBA, bool) {
	run := device.BlockCount(0)
	for i := range b {
		if run++; !b[i] {
			run = 0
		}
		if run == n {
			return device.LBA(i) + 1 - device.LBA(n), true
		}
	}
	return 0, false
}

func TestSpaceAgreesWithABitmap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		const blocks = 300
		s, twin := newSpace(blocks), make(bitmap, blocks)
		twin.set(extent{superblockSlots, blocks - superblockSlots}, true)
		var used []extent
		for range 200 {
			n := device.BlockCount(1 + rng.IntN(12))
			if rng.IntN(2) == 0 && len(used) > 0 {
				i := rng.IntN(len(used))
				s.release(used[i])
				twin.set(used[i], true)
				used[i] = used[len(used)-1]
				used = used[:len(used)-1]
				continue
			}
			want, wantOK := twin.firstFit(n)
			if got, ok := s.alloc(n); got != want || ok != wantOK {
				t.Fatalf("alloc %d: %d %v, want %d %v", n, got, ok, want, wantOK)
			}
			if wantOK {
				used = append(used, extent{want, n})
				twin.set(extent{want, n}, false)
			}
		}
		free := device.BlockCount(0)
		for _, f := range twin {
			if f {
				free++
			}
		}
		if s.blocks() != free {
			t.Fatalf("%d free blocks, want %d", s.blocks(), free)
		}
	}
}
