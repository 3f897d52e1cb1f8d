package hostile

import (
	"sync/atomic"
)

// recentMax bounds how many entries change after they were posted.
const recentMax = 64

// complete posts the completion of an I/O command, with what attacks make of it.
func (c *Controller) complete(q *queue, cid, status uint16) {
	if !c.armed {
		c.post(q, cid, status, 0)
		return
	}
	id, head := q.id, q.sqHead
	switch {
	case c.makes(CIDRange):
		cid = 0xffff
	case c.makes(CIDNever):
		cid ^= 1 << (8 + c.rng.IntN(8))
	case c.on[CIDStale] && len(q.done) > 0 && c.makes(CIDStale):
		cid = q.done[c.rng.IntN(len(q.done))]
	case c.makes(SQIDWrong):
		id = c.rng.IntN(len(c.queues)+1) + q.id + 1
	}
	if c.makes(SQHeadBogus) {
		head = c.rng.IntN(1 << 16)
	}
	c.postAs(q, id, head, cid, status, 0)
	if c.makes(CIDTwice) {
		c.postAs(q, id, head, cid, status, 0)
	}
	if c.makes(CompletionFlood) {
		for range q.cqEntries() - 1 { // one more would hide the honest one
			c.postAs(q, id, head, cid, status, 0)
		}
	}
	if admin := c.queues[0]; c.on[EventsUnasked] && (admin.cqTail+1)%admin.cqEntries() != admin.cqHead && c.makes(EventsUnasked) {
		c.post(c.queues[0], uint16(c.rng.IntN(1<<16)), statusOK, asynchronousResult)
	}
}

// post posts an honest completion.
func (c *Controller) post(q *queue, cid, status uint16, result uint32) {
	c.postAs(q, q.id, q.sqHead, cid, status, result)
}

// postAs writes a completion entry. The word with the phase bit goes last.
func (c *Controller) postAs(q *queue, id, head int, cid, status uint16, result uint32) {
	at := 2 * q.cqTail
	atomic.StoreUint64(&q.cq[at], uint64(result))
	atomic.StoreUint64(&q.cq[at+1], uint64(head&0xffff)|uint64(id&0xffff)<<16|uint64(cid)<<32|q.phase<<48|uint64(status)<<49)
	if q.cqTail++; q.cqTail == q.cqEntries() {
		q.cqTail, q.phase = 0, q.phase^1
	}
	if c.on[CIDStale] {
		q.done = append(q.done, cid)
	}
	if c.on[CompletionChanges] && q.id > 0 {
		c.recent = append(c.recent[max(0, len(c.recent)-recentMax):], &q.cq[at+1])
	}
}

// consumed changes the entries that the driver has just read: status, identifiers, all but the phase.
func (c *Controller) consumed(q *queue, head int) {
	if !c.armed || q.id == 0 || !c.on[CompletionChanges] {
		return
	}
	for at := q.cqHead; at != head; at = (at + 1) % q.cqEntries() {
		if c.makes(CompletionChanges) {
			w := &q.cq[2*at+1]
			atomic.StoreUint64(w, atomic.LoadUint64(w)^(c.rng.Uint64()&^(1<<48)))
		}
	}
}

// changeLater is what happens between two looks of the driver: memory that it has read, or still will, changes.
func (c *Controller) changeLater() {
	if !c.armed {
		return
	}
	for _, page := range c.dataIn {
		if c.makes(DataChanges) {
			page[c.rng.IntN(pageSize)] ^= 1 << c.rng.IntN(8)
		}
	}
	c.dataIn = c.dataIn[:0]
	if c.resets > 0 && c.on[LateDMA] {
		for _, p := range c.late {
			for _, address := range []uint64{p.cmd[3]} {
				if m, ok := c.table[address]; ok && m.purpose == "I/O buffers" {
					copy(m.bytes, c.noise())
					c.made[LateDMA]++
				}
			}
		}
		c.late = nil
	}
	if c.on[ScribbleRings] && c.rng.IntN(c.opts.Every) == 0 {
		c.scribble()
	}
}

// scribble writes noise over everything that is shared, but for what an honest answer needs to arrive at all: it is a host that
// looks for state that decides something.
func (c *Controller) scribble() {
	for _, p := range c.pieces {
		switch p.purpose {
		case "admin submission queue", "I/O submission queue", "PRP lists", "identify page":
			copy(p.memory.Bytes, c.noise())
			c.made[ScribbleRings]++
		case "I/O completion queue":
			if c.rng.IntN(8) == 0 {
				for i := range words(p.memory.Bytes) {
					atomic.StoreUint64(&words(p.memory.Bytes)[i], c.rng.Uint64())
				}
				c.made[ScribbleRings]++
			}
		}
	}
}

// rewrite is a host that edits a command and its PRP list after the doorbell, and obeys what it wrote: another block, or another
// page of the buffers.
func (c *Controller) rewrite(p *pending) {
	if !c.on[RewriteCommands] || uint8(p.cmd[0]) != 0x02 || !c.makes(RewriteCommands) {
		return
	}
	for i := range p.q.sq {
		p.q.sq[i] = c.rng.Uint64()
	}
	if c.rng.IntN(2) == 0 {
		p.cmd[5] = c.rng.Uint64N(c.opts.Blocks) * uint64(4096/c.opts.LogicalBytes)
		p.cmd[6] = uint64(4096/c.opts.LogicalBytes - 1)
		return
	}
	for _, other := range c.pieces {
		if other.purpose == "I/O buffers" {
			p.cmd[3] = other.memory.Pages[c.rng.IntN(len(other.memory.Pages))]
			return
		}
	}
}

// Harass changes posted completions and data, again and again, from another goroutine until stop is closed: the race between
// check and use. Both values of a completion are possible ones, so the driver must take either whole.
func (c *Controller) Harass(stop <-chan struct{}, data bool) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		c.mu.Lock()
		for _, w := range c.recent {
			atomic.StoreUint64(w, atomic.LoadUint64(w)^statusInternal<<49)
			c.made[CompletionChanges]++
		}
		if data {
			for _, page := range c.dataNow {
				page[c.rng.IntN(pageSize)] ^= 1
				c.made[DataChanges]++
			}
		}
		c.mu.Unlock()
	}
}
