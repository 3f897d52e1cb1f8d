package hostile

// Size implements nvme.Bar.
func (c *Controller) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.makes(BarShort) {
		return 0x1004
	}
	return 0x4000
}

// Read64 implements nvme.Bar.
func (c *Controller) Read64(off int) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch off {
	case 0x00:
		return c.capabilities()
	case 0x28:
		return c.asq
	case 0x30:
		return c.acq
	}
	c.problem("64-bit read at %#x", off)
	return 0
}

// capabilities is CAP: MQES, CQR, TO, DSTRD, CSS, MPSMIN, PMRS, CMBS.
func (c *Controller) capabilities() uint64 {
	entries, timeout, stride, page := uint64(c.opts.Entries-1), uint64(4), uint64(0), uint64(0)
	var offered uint64
	if c.makes(EntriesNone) {
		entries = 0
	}
	if c.makes(EntriesMany) {
		entries = 0xffff
	}
	if c.makes(StrideAbsurd) {
		stride = 15
	}
	if c.makes(TimesAbsurd) {
		timeout = 255 * (c.opts.Seed % 2)
	}
	if c.makes(PagesAbsurd) {
		page = 1 + c.rng.Uint64N(15)
	}
	if c.makes(MemoryOffered) {
		offered = 1<<56 | 1<<57
	}
	c.capReads++
	value := entries | 1<<16 | timeout<<24 | stride<<32 | 1<<37 | page<<48 | offered
	if c.capReads > 1 && c.makes(RegistersChange) {
		value ^= c.rng.Uint64()
	}
	return value
}

// Read32 implements nvme.Bar.
func (c *Controller) Read32(off int) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch off {
	case 0x08:
		return 0x00020000
	case 0x14:
		return c.cc
	case 0x1c:
		c.tick()
		value := c.csts
		if c.makes(RegistersChange) {
			value ^= c.rng.Uint32() &^ 0xf
			if value == 0xffffffff {
				value = 0xfffffff1
			}
		}
		if c.enabledRegister() && c.makes(NeverReady) {
			value &^= 1
		}
		return value
	case 0x24:
		return c.aqa
	}
	c.problem("32-bit read at %#x", off)
	return 0
}

// Write64 implements nvme.Bar.
func (c *Controller) Write64(off int, v uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.enabledRegister() {
		c.problem("write to %#x while the controller is enabled", off)
	}
	switch off {
	case 0x28:
		c.asq = v
	case 0x30:
		c.acq = v
	default:
		c.problem("64-bit write at %#x", off)
	}
}

// Write32 implements nvme.Bar. Whatever the driver has no business with is a problem: CMBMSC, PMRCTL, interrupt masks, NSSR.
func (c *Controller) Write32(off int, v uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case off == 0x14:
		c.configure(v)
	case off == 0x24:
		c.aqa = v
	case off >= 0x1000 && off < 0x1000+8*len(c.queues):
		c.doorbell((off-0x1000)/8, (off-0x1000)%8 != 0, int(v))
	default:
		c.problem("32-bit write of %#x at %#x", v, off)
	}
}

// configure is a write to CC.
func (c *Controller) configure(v uint32) {
	was := c.enabledRegister()
	c.cc = v
	switch on := v&1 != 0; {
	case on && !was:
		c.enable()
	case !on:
		if was {
			c.resets++
		}
		if c.ios > 0 && c.makes(NeverStops) {
			return
		}
		c.csts = 0
		clear(c.queues)
		c.pending, c.recent = nil, nil
	}
	if v>>14&3 == 1 && c.csts&1 != 0 {
		c.disk.flush()
		c.csts |= 2 << 2
	}
}

func (c *Controller) enable() {
	c.starts++
	if c.cc>>16&0xf != 6 || c.cc>>20&0xf != 4 || c.cc>>4&0x3ff != 0 {
		c.problem("CC = %#x", c.cc)
	}
	sq, cq := int(c.aqa&0xfff)+1, int(c.aqa>>16&0xfff)+1
	q := &queue{phase: 1, sqAddress: c.asq, cqAddress: c.acq}
	q.sq = c.ring("admin submission queue", c.asq, sq*64, "admin submission queue")
	q.cq = c.ring("admin completion queue", c.acq, cq*16, "admin completion queue")
	if q.sq == nil || q.cq == nil {
		c.csts = 2
		return
	}
	c.queues[0] = q
	c.csts = 1
}

// doorbell is a write to a doorbell.
func (c *Controller) doorbell(id int, completion bool, v int) {
	q := c.queues[id]
	if q == nil || q.sq == nil || c.csts&1 == 0 {
		// After a reset that one queue asked for, others ring once more before they notice: an event for a log, no error.
		return
	}
	if c.csts&2 != 0 {
		return
	}
	defer c.changeLater()
	if completion {
		if v >= q.cqEntries() {
			c.problem("completion doorbell of queue %d: %d of %d", id, v, q.cqEntries())
			return
		}
		c.consumed(q, v)
		q.cqHead = v
		return
	}
	if v >= q.sqEntries() {
		c.problem("submission doorbell of queue %d: %d of %d", id, v, q.sqEntries())
		return
	}
	q.sqTail = v
	if c.armed && id > 0 && c.makes(FatalStatus) {
		c.csts |= 2
		return
	}
	for q.sqHead != q.sqTail {
		var cmd [8]uint64
		copy(cmd[:], q.sq[8*q.sqHead:])
		if q.sqHead++; q.sqHead == q.sqEntries() {
			q.sqHead = 0
		}
		c.fetched(pending{q: q, cmd: cmd})
		if c.queues[id] != q { // it was deleted, or the controller disabled
			return
		}
	}
}
