package vfio

import (
	"errors"
	"slices"
)

// span is a run of device addresses: first and last, both included, as VFIO counts them.
type span struct{ first, last uint64 }

// addresses hands out device addresses (IOVA) that have nothing to do with ours.
type addresses struct {
	free []span // rising, never adjacent
}

const (
	// hugeBytes is the size of a huge page, and the alignment of everything that is mapped: an IOMMU that has large pages can
	// use them.
	hugeBytes = 2 << 20
	// addressBits bounds what is used: the least that an IOMMU with four levels or three has.
	addressBits = 39
)

// defaultSpans is what is used where the kernel does not say: without the first megabyte and the interrupt window of x86.
var defaultSpans = []span{{1 << 20, 0xfedfffff}, {0xfef00000, 1<<addressBits - 1}}

var errNoAddresses = errors.New("no device addresses are left")

// newAddresses takes what the kernel says can be mapped, without what no device should be given: the first megabyte, and what
// lies above addressBits. The kernel's list is believed: it is inside the guest. But it may be empty.
func newAddresses(allowed []span) *addresses {
	a := &addresses{}
	for _, s := range allowed {
		s.first, s.last = max(s.first, 1<<20), min(s.last, 1<<addressBits-1)
		if s.first < s.last {
			a.free = append(a.free, s)
		}
	}
	slices.SortFunc(a.free, func(x, y span) int {
		if x.first < y.first {
			return -1
		}
		return 1
	})
	return a
}

// take returns the first address of n bytes. n is a multiple of hugeBytes.
func (a *addresses) take(n uint64) (uint64, error) {
	for i, s := range a.free {
		at := (s.first + hugeBytes - 1) &^ (hugeBytes - 1)
		if at < s.first || at > s.last || s.last-at < n-1 {
			continue
		}
		end := at + n - 1
		rest := a.free[i+1:]
		a.free = slices.Clone(a.free[:i])
		if at > s.first {
			a.free = append(a.free, span{s.first, at - 1})
		}
		if end < s.last {
			a.free = append(a.free, span{end + 1, s.last})
		}
		a.free = append(a.free, rest...)
		return at, nil
	}
	return 0, errNoAddresses
}

// give takes back what take returned.
func (a *addresses) give(at, n uint64) {
	i, _ := slices.BinarySearchFunc(a.free, at, func(s span, at uint64) int {
		if s.first < at {
			return -1
		}
		return 1
	})
	a.free = slices.Insert(a.free, i, span{at, at + n - 1})
	if i+1 < len(a.free) && a.free[i].last+1 == a.free[i+1].first {
		a.free[i].last = a.free[i+1].last
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].last+1 == a.free[i].first {
		a.free[i-1].last = a.free[i].last
		a.free = slices.Delete(a.free, i, i+1)
	}
}
