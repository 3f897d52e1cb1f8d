package nvme

import (
	"fmt"

	"cvmstore/ioengine/device"
)

// Submit implements device.Queue. Requests come from the volume, for buffers whose contents are sealed; commands go to the ring.
// The doorbell rings once, after the last.
func (q *Queue) Submit(reqs []device.Request) (int, error) {
	q.lock()
	defer q.unlock()
	if err := q.enter(); err != nil {
		return 0, err
	}
	h := q.h
	now := q.d.opts.Clock.Now()
	tail := h.tail
	n := 0
	for n < len(reqs) && q.outstanding < q.depth && len(h.free) > 0 {
		q.accept(&reqs[n], now)
		q.outstanding++
		n++
	}
	if h.tail != tail {
		h.sqDoor.ring(h.tail)
	}
	return n, nil
}

// accept sends one request, or keeps its completion if there is nothing to send.
func (q *Queue) accept(r *device.Request, now timestamp) {
	d, h := q.d, q.h
	reg, blocks, err := q.check(r)
	if err != nil || r.Op == device.OpTrim && (blocks == 0 || !d.identity.trim) {
		q.keep(device.Completion{Token: r.Token, Err: err})
		return
	}
	i, t := h.begin()
	t.op, t.owner, t.token, t.lba, t.since = r.Op, q, r.Token, r.LBA, now
	var c command
	per := d.geometry.perBlock()
	at := uint64(r.LBA) * per
	switch r.Op {
	case device.OpFlush:
		// NVM Command Set Specification, section 3.2.1: everything that completed before is made durable. Sent also if the
		// controller says that it has no volatile cache (row 29).
		c.head(opFlush, t.cid, d.geometry.Namespace)
	case device.OpTrim:
		// Section 3.2.3: one range, in the tracker's list.
		c.head(opDSM, t.cid, d.geometry.Namespace)
		list, address := h.lists.list(i)
		list[0] = min(uint64(blocks)*per, 1<<32-per) << 32
		list[1] = at
		c[3] = address
		c.words10(0, dsmDeallocate)
	default:
		// Sections 3.2.4 and 3.2.6: starting block in CDW10 and 11, number of blocks, 0's based, in CDW12.
		op := uint8(opRead)
		c[6] = uint64(blocks)*per - 1
		if r.Op == device.OpWrite {
			op = opWrite
			if r.Through {
				c[6] |= writeFUA
			}
		} else {
			poison(r.Buf)
		}
		c.head(op, t.cid, d.geometry.Namespace)
		c[5] = at
		h.lists.describe(&c, i, reg, int(addressOf(r.Buf)-reg.start)/PageSize, int(blocks))
	}
	h.push(&c)
}

// check returns the region of a request's buffer and how many blocks it is about, or why it cannot be served.
func (q *Queue) check(r *device.Request) (*region, device.BlockCount, error) {
	d := q.d
	blocks := device.BlockCount(0)
	var reg *region
	switch r.Op {
	case device.OpFlush:
	case device.OpTrim:
		blocks = r.Count
	case device.OpRead, device.OpWrite:
		at := addressOf(r.Buf)
		if len(r.Buf) == 0 || len(r.Buf)%device.BlockSize != 0 || at%device.BlockSize != 0 {
			return nil, 0, fmt.Errorf("nvme: buffer of %d bytes is not whole, aligned blocks", len(r.Buf))
		}
		blocks = device.BlockCount(len(r.Buf) / device.BlockSize)
		if blocks > d.identity.TransferBlocks {
			return nil, 0, fmt.Errorf("nvme: transfer of %d blocks, at most %d: %w", blocks, d.identity.TransferBlocks, device.ErrBounds)
		}
		if reg = q.last; reg == nil || at < reg.start || at >= reg.end {
			if reg = d.memory.find(at); reg == nil {
				return nil, 0, fmt.Errorf("nvme: buffer is not of Alloc")
			}
			q.last = reg
		}
		if uintptr(len(r.Buf)) > reg.end-at {
			return nil, 0, fmt.Errorf("nvme: buffer is not of Alloc")
		}
	default:
		return nil, 0, fmt.Errorf("nvme: unknown operation %d", r.Op)
	}
	if r.Op != device.OpFlush {
		if have := d.geometry.Blocks; uint64(r.LBA) > uint64(have) || blocks > have-device.BlockCount(r.LBA) {
			return nil, 0, fmt.Errorf("nvme: blocks %d+%d of %d: %w", r.LBA, blocks, have, device.ErrBounds)
		}
	}
	if r.Op != device.OpRead && d.writesStopped.Load() {
		return nil, 0, fmt.Errorf("nvme: %w", ErrWritesStopped)
	}
	return reg, blocks, nil
}

// poisonLine is what a read's buffer holds before the controller answers: never a valid seal.
var poisonLine = func() (line [64]byte) {
	for i := range line {
		line[i] = 0xA5
	}
	return
}()

// poison spoils the first cache line of each block of a read's buffer, so that a controller that reports success and writes nothing
// is noticed (row 7). A line is enough. What is sealed there and contains the line fails its tag. What does not contain
// it and still verifies is, by its associated data, the very thing that was asked for, only from an earlier read.
func poison(buf []byte) {
	for at := 0; at < len(buf); at += device.BlockSize {
		*(*[64]byte)(buf[at:]) = poisonLine
	}
}

// WriteThrough writes buf at lba durably, in the calling thread, and returns when it is done. It stands beside what is
// outstanding. For a loop that has nothing else to do meanwhile.
func (q *Queue) WriteThrough(lba device.LBA, buf []byte) error {
	reqs := [1]device.Request{{Op: device.OpWrite, Through: true, LBA: lba, Buf: buf}}
	var out [1]device.Completion
	w := startWait(q.d.opts.Clock)
	// Ends with the request's completion or with the pair: a command in flight does not outlive the timeouts of watch.
	for sent := 0; ; w.rest() {
		if sent == 0 {
			n, err := q.through.Submit(reqs[:])
			if err != nil {
				return err
			}
			sent = n
		}
		n, err := q.through.Poll(out[:])
		if err != nil {
			return err
		}
		if n > 0 {
			return out[0].Err
		}
	}
}
