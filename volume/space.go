package volume

import (
	"slices"

	"cvmstore/ioengine/device"
)

// space hands out runs of blocks. Its state is derived from live references at recovery, so there is none on the disk to lose
// (DESIGN.md 6). It keeps the free runs sorted by place.
// The leader's only.
type space struct {
	free []extent
}

type extent struct {
	lba device.LBA
	n   device.BlockCount
}

func (e extent) end() device.LBA { return e.lba + device.LBA(e.n) }

func newSpace(blocks device.BlockCount) *space {
	return &space{free: []extent{{superblockSlots, blocks - superblockSlots}}}
}

// alloc takes n blocks out of the smallest run that holds them, the lowest of equal ones: so summaries and manifests go where no
// segment fits, and a growing file stays short.
func (s *space) alloc(n device.BlockCount) (device.LBA, bool) {
	best := -1
	for i := range s.free {
		if s.free[i].n >= n && (best < 0 || s.free[i].n < s.free[best].n) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	e := &s.free[best]
	lba := e.lba
	e.lba += device.LBA(n)
	e.n -= n
	if e.n == 0 {
		s.free = slices.Delete(s.free, best, best+1)
	}
	return lba, true
}

// mustAlloc is alloc of what holds has found room for. It never returns a place that was not free: block 0 is a superblock.
func (s *space) mustAlloc(n device.BlockCount) device.LBA {
	lba, ok := s.alloc(n)
	if !ok {
		panic("internal error: room that was there is gone")
	}
	return lba
}

// take removes a run that something live refers to. It reports false if part of it is not free: two references to one block.
func (s *space) take(x extent) bool {
	i, found := slices.BinarySearchFunc(s.free, x.lba, func(e extent, lba device.LBA) int {
		switch {
		case e.end() <= lba:
			return -1
		case e.lba > lba:
			return 1
		}
		return 0
	})
	if !found || s.free[i].end() < x.end() {
		return false
	}
	before := extent{s.free[i].lba, device.BlockCount(x.lba - s.free[i].lba)}
	after := extent{x.end(), device.BlockCount(s.free[i].end() - x.end())}
	rest := slices.DeleteFunc([]extent{before, after}, func(e extent) bool { return e.n == 0 })
	s.free = slices.Replace(s.free, i, i+1, rest...)
	return true
}

func (s *space) release(x extent) {
	i, _ := slices.BinarySearchFunc(s.free, x.lba, func(e extent, lba device.LBA) int {
		if e.lba < lba {
			return -1
		}
		return 1
	})
	s.free = slices.Insert(s.free, i, x)
	if i+1 < len(s.free) && s.free[i].end() == s.free[i+1].lba {
		s.free[i].n += s.free[i+1].n
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].end() == s.free[i].lba {
		s.free[i-1].n += s.free[i].n
		s.free = slices.Delete(s.free, i, i+1)
	}
}

// holds reports whether runs of these sizes could all be had at once.
func (s *space) holds(sizes ...device.BlockCount) bool {
	trial := space{free: slices.Clone(s.free)}
	for _, n := range sizes {
		if _, ok := trial.alloc(n); !ok {
			return false
		}
	}
	return true
}

func (s *space) blocks() (n device.BlockCount) {
	for _, e := range s.free {
		n += e.n
	}
	return n
}
