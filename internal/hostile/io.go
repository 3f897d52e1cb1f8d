package hostile

import (
	"slices"
	"time"
)

// fetched takes a command that was read from the ring.
func (c *Controller) fetched(p pending) {
	if p.q.id == 0 {
		status, result := c.adminCommand(&p.cmd)
		if status != statusLost {
			c.post(p.q, uint16(p.cmd[0]>>16), status, result)
		}
		return
	}
	c.ios++
	if c.backing != nil {
		c.handOn(p)
		return
	}
	if c.armed {
		if c.makes(NeverDone) {
			c.late = append(c.late, p)
			return
		}
		if c.on[LateDMA] && uint8(p.cmd[0]) == 0x02 && c.rng.IntN(c.opts.Every) == 0 {
			c.late = append(c.late, p)
			return
		}
		c.rewrite(&p)
	}
	if op := uint8(p.cmd[0]); (op == 0x01 || op == 0x02) && !c.opts.NoData {
		p.pages = c.pages(&p.cmd, (int(p.cmd[6]&0xffff)+1)*c.opts.LogicalBytes/pageSize)
	}
	p.due = c.now + c.opts.Latency
	if c.opts.Bandwidth > 0 && uint8(p.cmd[0]) != 0 {
		bytes := float64(uint32(p.cmd[6])&0xffff+1) * float64(c.opts.LogicalBytes)
		c.busy = max(c.busy, c.now) + time.Duration(bytes/c.opts.Bandwidth*1e9)
		p.due = c.busy + c.opts.Latency
	}
	if c.opts.Shuffle {
		p.due = c.now + time.Duration(c.rng.IntN(100))*time.Microsecond
	}
	if p.due > c.now {
		c.pending = append(c.pending, p)
		return
	}
	c.run(p)
}

// run carries an I/O command out and completes it.
func (c *Controller) run(p pending) {
	if !c.armed && (p.q.cqTail+1)%p.q.cqEntries() == p.q.cqHead {
		c.pending = append(c.pending, p) // an honest controller waits for room
		return
	}
	status := c.ioCommand(&p.cmd, p.pages)
	c.complete(p.q, uint16(p.cmd[0]>>16), status)
}

func (c *Controller) ioCommand(cmd *[8]uint64, pages [][]byte) uint16 {
	if uint32(cmd[0]>>32) != 1 || cmd[2] != 0 {
		c.problem("namespace %d, metadata pointer %#x", uint32(cmd[0]>>32), cmd[2])
		return statusNamespace
	}
	switch op := uint8(cmd[0]); op {
	case 0x00:
		c.flushes++
		if !c.armed || !c.makes(DropFlush) {
			c.disk.flush()
		}
		return statusOK
	case 0x01, 0x02:
		return c.transfer(op, cmd, pages)
	case 0x09:
		return c.trim(cmd)
	default:
		c.problem("I/O command %#x", op)
		return statusOpcode
	}
}

// span decodes where a command reads or writes, in blocks of 4096 bytes.
func (c *Controller) span(at, n uint64) (lba, blocks uint64, ok bool) {
	per := uint64(4096 / c.opts.LogicalBytes)
	total := c.opts.Blocks * per
	if at > total || n > total-at {
		c.problem("blocks %d+%d of %d", at, n, total)
		return 0, 0, false
	}
	if at%per != 0 || n%per != 0 {
		c.problem("blocks %d+%d: not in units of 4096 bytes", at, n)
		return 0, 0, false
	}
	return at / per, n / per, true
}

func (c *Controller) transfer(op uint8, cmd *[8]uint64, pages [][]byte) uint16 {
	lba, blocks, ok := c.span(cmd[5], cmd[6]&0xffff+1)
	if !ok {
		return statusRange
	}
	if c.opts.MDTS > 0 && blocks > 1<<c.opts.MDTS {
		c.problem("transfer of %d pages, at most 2^%d", blocks, c.opts.MDTS)
		return statusField
	}
	if c.opts.NoData {
		return statusOK
	}
	if len(pages) != int(blocks) {
		return statusField
	}
	through := op == 0x01 && cmd[6]>>30&1 != 0
	if through {
		c.flushes++
	}
	if op == 0x02 {
		return c.read(lba, pages)
	}
	return c.write(lba, pages, through)
}

// pages follows the PRP entries of a command (section 4.1.1), or notes a problem.
func (c *Controller) pages(cmd *[8]uint64, n int) [][]byte {
	addresses := make([]uint64, 1, max(n, 1))
	addresses[0] = cmd[3]
	switch {
	case n < 2:
	case n == 2:
		addresses = append(addresses, cmd[4])
	default:
		at := cmd[4]
		list := c.page("PRP list", at&^(pageSize-1), "PRP lists")
		if list == nil {
			return nil
		}
		first := int(at % pageSize / 8)
		if at%8 != 0 || first+n-1 > pageSize/8 {
			c.problem("PRP list at %#x of %d entries leaves its page", at, n-1)
			return nil
		}
		addresses = append(addresses, words(list)[first:first+n-1]...)
	}
	pages := make([][]byte, len(addresses))
	for i, a := range addresses {
		if pages[i] = c.page("data", a, "I/O buffers"); pages[i] == nil {
			return nil
		}
	}
	return pages
}

func (c *Controller) write(lba uint64, pages [][]byte, through bool) uint16 {
	if c.armed && c.makes(DropWrite) {
		return statusOK
	}
	for i, b := range pages {
		c.disk.write(lba+uint64(i), b, through)
	}
	if c.armed && c.makes(ErrorButDone) {
		return statusWriteFault
	}
	return statusOK
}

// read fills the pages, or not.
func (c *Controller) read(lba uint64, pages [][]byte) uint16 {
	if c.armed && c.makes(ReadNothing) {
		return statusOK
	}
	for i, to := range pages {
		at := lba + uint64(i)
		from := c.disk.block(at)
		if c.armed {
			from = c.lie(at, from)
		}
		if c.armed && c.makes(PartialDMA) {
			for sector := 0; sector < pageSize; sector += 512 {
				if c.rng.IntN(2) == 0 {
					copy(to[sector:sector+512], from[sector:])
				}
			}
			continue
		}
		copy(to, from)
		if c.on[DataChanges] {
			c.dataIn = append(c.dataIn, to)
			c.dataNow = append(c.dataNow[max(0, len(c.dataNow)-4):], to)
		}
	}
	return statusOK
}

// lie returns what is read instead of a block.
func (c *Controller) lie(lba uint64, from []byte) []byte {
	other := c.rng.Uint64N(c.opts.Blocks)
	switch old := c.disk.old[lba]; {
	case c.on[WrongBlock] && other != lba && c.makes(WrongBlock):
		return c.disk.block(other)
	case old != nil && c.on[OldVersion] && !slices.Equal(old, from) && c.makes(OldVersion):
		return old
	case c.makes(OtherVolume):
		return c.noise()
	case lba < 2 && c.makes(SuperblockCrafted):
		crafted := slices.Clone(from)
		for range 1 + c.rng.IntN(3) {
			crafted[c.rng.IntN(256)] ^= 1 << c.rng.IntN(8)
		}
		return crafted
	}
	return from
}

func (c *Controller) noise() []byte {
	b := make([]byte, pageSize)
	for i := range words(b) {
		words(b)[i] = c.rng.Uint64()
	}
	return b
}

func (c *Controller) trim(cmd *[8]uint64) uint16 {
	list := c.page("trim ranges", cmd[3]&^(pageSize-1), "PRP lists")
	if list == nil {
		return statusField
	}
	if uint32(cmd[5]) != 0 || cmd[5]>>32 != 1<<2 || cmd[3]%8 != 0 {
		c.problem("trim with CDW10 and 11 = %#x", cmd[5])
		return statusField
	}
	w := words(list)[cmd[3]%pageSize/8:]
	lba, blocks, ok := c.span(w[1], w[0]>>32)
	if !ok {
		return statusRange
	}
	for i := range blocks {
		c.disk.write(lba+i, zeros, false)
	}
	return statusOK
}
