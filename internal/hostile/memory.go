package hostile

import (
	"fmt"
	"slices"

	"cvmstore/ioengine/device"
	"cvmstore/nvme"
)

const pageSize = nvme.PageSize

// piece is memory that Alloc gave out.
type piece struct {
	purpose nvme.Purpose
	memory  nvme.Memory
}

// mapped is one page as the device sees it.
type mapped struct {
	bytes   []byte
	purpose nvme.Purpose
}

// Allocation says what was allocated for what.
type Allocation struct {
	Purpose nvme.Purpose
	Bytes   int
}

// Alloc implements nvme.DMA. Device addresses have nothing to do with ours, and pages that nobody mapped lie between.
func (c *Controller) Alloc(p nvme.Purpose, n int) (nvme.Memory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pages := (n + pageSize - 1) / pageSize
	m := nvme.Memory{Pages: make([]uint64, pages)}
	if c.backing != nil && p == nvme.PurposeBuffers {
		var err error
		if m.Bytes, err = c.backing.dev.Alloc(device.BlockCount(pages)); err != nil {
			return m, err
		}
	} else {
		m.Bytes = aligned(pages * pageSize)
	}
	for i := range m.Pages {
		m.Pages[i] = c.nextPage
		c.nextPage += pageSize
	}
	c.nextPage += pageSize * uint64(1+c.rng.IntN(4))
	if c.opts.Scatter && (p == nvme.PurposeBuffers || p == nvme.PurposeLists) {
		c.rng.Shuffle(pages, func(i, j int) { m.Pages[i], m.Pages[j] = m.Pages[j], m.Pages[i] })
	}
	for i, address := range m.Pages {
		c.table[address] = mapped{m.Bytes[i*pageSize : (i+1)*pageSize], p}
	}
	c.pieces = append(c.pieces, piece{p, m})
	c.allocations = append(c.allocations, Allocation{p, n})
	return m, nil
}

// Free implements nvme.DMA. The controller may not know the memory any more.
func (c *Controller) Free(m nvme.Memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.pieces, func(p piece) bool { return p.memory.Pages[0] == m.Pages[0] })
	if i < 0 {
		c.problem("memory freed that is not allocated")
		return
	}
	for _, q := range c.queues {
		if q != nil && (q.sqAddress == m.Pages[0] || q.cqAddress == m.Pages[0]) && c.enabledRegister() {
			c.problem("the memory of queue %d was freed while the controller uses it", q.id)
		}
	}
	if c.backing != nil && c.pieces[i].purpose == nvme.PurposeBuffers {
		c.backing.dev.Free(m.Bytes)
	}
	c.pieces = slices.Delete(c.pieces, i, i+1)
	for _, address := range m.Pages {
		delete(c.table, address)
	}
}

// Kind implements nvme.DMA.
func (c *Controller) Kind() string { return "software controller" }

// Allocations returns everything that was ever allocated.
func (c *Controller) Allocations() []Allocation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.allocations)
}

// Held returns how many pieces of memory are allocated now.
func (c *Controller) Held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pieces)
}

// page translates the address of a page that must be there for one of these purposes.
func (c *Controller) page(what string, address uint64, purposes ...nvme.Purpose) []byte {
	m, ok := c.table[address]
	if !ok {
		c.problem("%s at %#x: not mapped", what, address)
		return nil
	}
	if !slices.Contains(purposes, m.purpose) {
		c.problem("%s at %#x, in the memory for %s", what, address, m.purpose)
		return nil
	}
	return m.bytes
}

// ring translates a ring of n bytes, which must be one piece.
func (c *Controller) ring(what string, address uint64, n int, purposes ...nvme.Purpose) []uint64 {
	if address%pageSize != 0 {
		c.problem("%s at %#x: not aligned", what, address)
		return nil
	}
	for _, p := range c.pieces {
		if p.memory.Pages[0] == address && slices.Contains(purposes, p.purpose) && len(p.memory.Bytes) >= n {
			return words(p.memory.Bytes[:n])
		}
	}
	c.problem("%s at %#x: not in one piece of memory for it", what, address)
	return nil
}

// problem notes a driver that breaks the rules. The list is bounded.
func (c *Controller) problem(format string, args ...any) {
	if len(c.problems) < 20 {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// Problems returns what the driver did that it must not do. Empty: nothing.
func (c *Controller) Problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.problems)
}

// Search returns for what purpose memory is shared in which a pattern stands: what a host would find that looks for it.
func (c *Controller) Search(pattern []byte) []nvme.Purpose {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []nvme.Purpose
	for _, p := range c.pieces {
		c.made[Peek] += len(p.memory.Bytes)
		if contains(p.memory.Bytes, pattern) {
			found = append(found, p.purpose)
		}
	}
	return found
}
