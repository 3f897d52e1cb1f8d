package vfio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"cvmstore/nvme"
)

// dma implements nvme.DMA. Memory comes in chunks of huge pages, which are mapped for the device as a whole; small pieces
// are cut out of one chunk after the other.
type dma struct {
	source  source
	backend backend
	pagemap *os.File // without an IOMMU: where physical addresses are found

	mu     sync.Mutex
	iova   *addresses
	chunks []*chunk
}

// chunk is memory that the device can reach.
type chunk struct {
	bytes []byte
	iova  uint64   // with an IOMMU
	pages []uint64 // the device's address of each page
	used  []bool   // by page
}

// smallBytes is the largest piece that is cut out of a shared chunk.
const smallBytes = hugeBytes / 2

func newDMA(b backend, s source) (*dma, error) {
	d := &dma{source: s, backend: b}
	if b.translated() {
		spans, err := b.spans()
		if err != nil {
			return nil, err
		}
		if len(spans) == 0 {
			spans = defaultSpans
		}
		d.iova = newAddresses(spans)
		return d, nil
	}
	if !s.fixed {
		return nil, errors.New("without an IOMMU the device needs memory that the kernel does not move: reserve huge pages (vm.nr_hugepages)")
	}
	var err error
	if d.pagemap, err = os.Open("/proc/self/pagemap"); err != nil {
		return nil, fmt.Errorf("physical addresses: %w", err)
	}
	return d, nil
}

// Kind implements nvme.DMA.
func (d *dma) Kind() string { return d.source.kind }

// Alloc implements nvme.DMA.
func (d *dma) Alloc(p nvme.Purpose, n int) (nvme.Memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pages := (n + nvme.PageSize - 1) / nvme.PageSize
	if n <= smallBytes {
		for _, c := range d.chunks {
			if m, ok := c.cut(pages); ok {
				return m, nil
			}
		}
	}
	c, err := d.growLocked((n + hugeBytes - 1) &^ (hugeBytes - 1))
	if err != nil {
		return nvme.Memory{}, fmt.Errorf("%s for %s: %w", d.source.kind, p, err)
	}
	m, _ := c.cut(pages)
	return m, nil
}

// cut takes the first run of free pages, and zeroes it.
func (c *chunk) cut(pages int) (nvme.Memory, bool) {
	run := 0
	for i := range c.used {
		if c.used[i] {
			run = 0
			continue
		}
		if run++; run < pages {
			continue
		}
		first := i + 1 - pages
		for k := range pages {
			c.used[first+k] = true
		}
		b := c.bytes[first*nvme.PageSize : (i+1)*nvme.PageSize : (i+1)*nvme.PageSize]
		clear(b)
		return nvme.Memory{Bytes: b, Pages: c.pages[first : i+1 : i+1]}, true
	}
	return nvme.Memory{}, false
}

func (d *dma) growLocked(n int) (*chunk, error) {
	b, err := d.source.alloc(n)
	if err != nil {
		return nil, err
	}
	c := &chunk{bytes: b, used: make([]bool, n/nvme.PageSize)}
	if d.backend.translated() {
		err = d.mapLocked(c)
	} else {
		c.pages, err = physicalPages(d.pagemap, b)
	}
	if err != nil {
		_ = unix.Munmap(b)
		return nil, err
	}
	d.chunks = append(d.chunks, c)
	return c, nil
}

// mapLocked gives a chunk a device address.
func (d *dma) mapLocked(c *chunk) error {
	at, err := d.iova.take(uint64(len(c.bytes)))
	if err != nil {
		return err
	}
	if err := d.backend.mapDMA(c.bytes, at); err != nil {
		d.iova.give(at, uint64(len(c.bytes)))
		return err
	}
	c.iova = at
	for i := range c.used {
		c.pages = append(c.pages, at+uint64(i)*nvme.PageSize)
	}
	return nil
}

// Free implements nvme.DMA. A chunk whose pages are all free is unmapped.
func (d *dma) Free(m nvme.Memory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := addressOf(m.Bytes)
	i := slices.IndexFunc(d.chunks, func(c *chunk) bool {
		return at >= addressOf(c.bytes) && at < addressOf(c.bytes)+uint64(len(c.bytes))
	})
	if i < 0 {
		panic("internal error: Free of memory that is not of Alloc")
	}
	c := d.chunks[i]
	first := int(at-addressOf(c.bytes)) / nvme.PageSize
	for k := range m.Pages {
		c.used[first+k] = false
	}
	if !slices.Contains(c.used, true) {
		d.chunks = slices.Delete(d.chunks, i, i+1)
		_ = d.dropLocked(c) // what cannot be unmapped now goes when the container is closed
	}
}

func (d *dma) dropLocked(c *chunk) error {
	if d.backend.translated() {
		if err := d.backend.unmapDMA(len(c.bytes), c.iova); err != nil {
			return err // the device may still reach it: keep it
		}
		d.iova.give(c.iova, uint64(len(c.bytes)))
	}
	return unix.Munmap(c.bytes)
}

// close unmaps everything.
func (d *dma) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	for _, c := range d.chunks {
		err = errors.Join(err, d.dropLocked(c))
	}
	d.chunks = nil
	if d.pagemap != nil {
		err = errors.Join(err, d.pagemap.Close())
	}
	return err
}

// Fields of an entry of /proc/self/pagemap.
const (
	pagemapFrame   = 1<<55 - 1
	pagemapPresent = 1 << 63
)

// physicalPages looks the frames of b up, which begins at a page.
func physicalPages(pagemap interface {
	ReadAt([]byte, int64) (int, error)
}, b []byte,
) ([]uint64, error) {
	entries := make([]byte, len(b)/nvme.PageSize*8)
	if _, err := pagemap.ReadAt(entries, int64(addressOf(b)/nvme.PageSize*8)); err != nil {
		return nil, fmt.Errorf("physical addresses: %w", err)
	}
	pages := make([]uint64, len(b)/nvme.PageSize)
	for i := range pages {
		e := binary.LittleEndian.Uint64(entries[8*i:])
		if e&pagemapPresent == 0 || e&pagemapFrame == 0 {
			return nil, errors.New("the kernel does not tell physical addresses (that takes CAP_SYS_ADMIN)")
		}
		pages[i] = e & pagemapFrame * nvme.PageSize
	}
	return pages, nil
}
