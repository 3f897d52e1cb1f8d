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

// bestFit is the front of the smallest run that holds n blocks, the lowest of equal ones.
func (b bitmap) bestFit(n device.BlockCount) (best device.LBA, ok bool) {
	least := device.BlockCount(len(b)) + 1
	run := device.BlockCount(0)
	for i := 0; i <= len(b); i++ {
		if i < len(b) && b[i] {
			run++
			continue
		}
		if run >= n && run < least {
			best, least, ok = device.LBA(i)-device.LBA(run), run, true
		}
		run = 0
	}
	return best, ok
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
			want, wantOK := twin.bestFit(n)
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
