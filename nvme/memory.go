package nvme

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"cvmstore/ioengine/device"
)

// arenaBytes is the least that is asked of DMA for buffers: a huge page. Buffers are cut out of arenas.
const arenaBytes = 2 << 20

// bufferBlocksMax bounds one buffer: 1 GiB.
const bufferBlocksMax = 1 << 18

// region is an arena as the data path sees it: from an address of ours to addresses of the device.
type region struct {
	start, end uintptr
	memory     Memory
	linear     bool // the device's addresses follow each other
}

// page returns the device's address of a page.
func (r *region) page(i int) uint64 {
	if r.linear {
		return r.memory.Pages[0] + uint64(i)*PageSize
	}
	return r.memory.Pages[i]
}

// extent is a run of pages inside a region.
type extent struct{ first, n int }

// buffers hands out I/O buffers. Finding a buffer's region takes no lock: regions only come, and the slice of them is
// replaced as a whole.
type buffers struct {
	dma     DMA
	regions atomic.Pointer[[]*region] // by start

	mu   sync.Mutex
	free map[*region][]extent // by first page, never adjacent
	used map[uintptr]extent   // what Alloc returned, by address
}

func newBuffers(dma DMA) *buffers {
	b := &buffers{dma: dma, free: map[*region][]extent{}, used: map[uintptr]extent{}}
	b.regions.Store(new([]*region))
	return b
}

// find returns the region that holds address a, or nil.
func (b *buffers) find(a uintptr) *region {
	all := *b.regions.Load()
	low, high := 0, len(all)
	for low < high {
		if mid := (low + high) / 2; all[mid].end <= a {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(all) && all[low].start <= a {
		return all[low]
	}
	return nil
}

// alloc returns n zeroed pages.
func (b *buffers) alloc(n device.BlockCount) ([]byte, error) {
	if n == 0 || n > bufferBlocksMax {
		return nil, fmt.Errorf("buffer of %d blocks", n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range *b.regions.Load() {
		if buf := b.cutLocked(r, int(n)); buf != nil {
			return buf, nil
		}
	}
	r, err := b.growLocked(max(arenaBytes, (n.Bytes()+arenaBytes-1)/arenaBytes*arenaBytes))
	if err != nil {
		return nil, err
	}
	return b.cutLocked(r, int(n)), nil
}

// cutLocked takes the first free run of n pages, and zeroes it: what an earlier user left goes to nobody, and to the device no more
// than it has seen (row 23).
func (b *buffers) cutLocked(r *region, n int) []byte {
	list := b.free[r]
	i := slices.IndexFunc(list, func(e extent) bool { return e.n >= n })
	if i < 0 {
		return nil
	}
	e := extent{list[i].first, n}
	if list[i].first, list[i].n = list[i].first+n, list[i].n-n; list[i].n == 0 {
		b.free[r] = slices.Delete(list, i, i+1)
	}
	at := e.first * PageSize
	buf := r.memory.Bytes[at : at+n*PageSize : at+n*PageSize]
	clear(buf)
	b.used[addressOf(buf)] = e
	return buf
}

func (b *buffers) growLocked(n int) (*region, error) {
	m, err := b.dma.Alloc(PurposeBuffers, n)
	if err != nil {
		return nil, fmt.Errorf("%s, %d bytes: %w", PurposeBuffers, n, err)
	}
	start := addressOf(m.Bytes)
	if len(m.Bytes) < n || len(m.Pages)*PageSize < n || start%PageSize != 0 {
		panic("internal error: DMA memory is short or not aligned")
	}
	r := &region{start: start, end: start + uintptr(n), memory: m, linear: m.contiguous(n)}
	all := slices.Clone(*b.regions.Load())
	at, _ := slices.BinarySearchFunc(all, start, func(r *region, a uintptr) int {
		if r.start < a {
			return -1
		}
		return 1
	})
	all = slices.Insert(all, at, r)
	b.regions.Store(&all)
	b.free[r] = []extent{{0, n / PageSize}}
	return r, nil
}

// release takes back a buffer of alloc.
func (b *buffers) release(buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := addressOf(buf)
	e, ok := b.used[at]
	if !ok {
		panic("internal error: Free of a buffer that is not of Alloc")
	}
	delete(b.used, at)
	r := b.find(at)
	list := b.free[r]
	i, _ := slices.BinarySearchFunc(list, e.first, func(e extent, first int) int { return e.first - first })
	list = slices.Insert(list, i, e)
	if i+1 < len(list) && list[i].first+list[i].n == list[i+1].first {
		list[i].n += list[i+1].n
		list = slices.Delete(list, i+1, i+2)
	}
	if i > 0 && list[i-1].first+list[i-1].n == list[i].first {
		list[i-1].n += list[i].n
		list = slices.Delete(list, i, i+1)
	}
	b.free[r] = list
}

// freeAll gives the arenas back. Nothing may be in flight, and nobody may use a buffer any more.
func (b *buffers) freeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range *b.regions.Load() {
		b.dma.Free(r.memory)
	}
	b.regions.Store(new([]*region))
}
