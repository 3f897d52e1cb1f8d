package nvme

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"cvmstore/ioengine/device"
)

// ErrProtocol is wrapped by the error of a queue whose controller broke the rules: a completion of nothing that was asked, or
// more completions than commands. An honest controller never does; there is nothing to recover, so the queue is broken for good.
var ErrProtocol = errors.New("the controller broke the protocol")

// tracker is a command in flight. The bits of its cid above the index are its generation, raised when it is taken.
type tracker struct {
	cid     uint16
	busy    bool // one-shot: the first completion clears it
	aborted bool
	op      device.Op
	owner   *Queue // nil: an admin command
	token   uint64
	lba     device.LBA
	since   time.Duration // when it was submitted
}

// pair is a submission and a completion ring with the private state that goes with them: a queue pair (section 3.3.1). One
// goroutine at a time uses it.
//
// Both rings have one entry more than there are trackers. A command is in a ring entry until the controller has fetched it,
// and what is not fetched has not completed; so no entry is overwritten that is still to be read, whatever the controller
// says of its head (row 4).
type pair struct {
	id       uint16
	sq       []command       // shared, written only
	cq       []rawCompletion // shared
	sqDoor   doorbell
	cqDoor   doorbell
	tail     uint32
	head     uint32
	phase    uint64 // of entries that are new in this turn of the ring
	trackers []tracker
	free     []uint16 // indexes of trackers that are not busy
	shift    uint     // where the generation begins in a cid

	sqMemory, cqMemory Memory
}

// newPair makes a pair for depth commands at once, in shared memory of its own.
func newPair(dma DMA, id uint16, depth int, submission, completion Purpose) (_ *pair, err error) {
	n := depth + 1
	p := &pair{id: id, trackers: make([]tracker, depth), free: make([]uint16, 0, depth), shift: uint(bits.Len(uint(depth)))}
	if p.sqMemory, err = allocRing(dma, submission, n*commandBytes); err != nil {
		return nil, err
	}
	if p.cqMemory, err = allocRing(dma, completion, n*completionBytes); err != nil {
		dma.Free(p.sqMemory)
		return nil, err
	}
	p.sq, p.cq = commandsIn(p.sqMemory, n), completionsIn(p.cqMemory, n)
	p.reset()
	return p, nil
}

// allocRing allocates memory that is one piece for the device, as PC = 1 in Create I/O Queue and the admin queue ask for.
func allocRing(dma DMA, p Purpose, n int) (Memory, error) {
	m, err := dma.Alloc(p, n)
	if err != nil {
		return Memory{}, fmt.Errorf("%s of %d bytes: %w", p, n, err)
	}
	if len(m.Bytes) < n || len(m.Pages)*PageSize < n || !m.contiguous(n) {
		dma.Free(m)
		return Memory{}, fmt.Errorf("%s of %d bytes: its pages do not follow each other (huge pages help)", p, n)
	}
	return m, nil
}

func (p *pair) freeMemory(dma DMA) {
	dma.Free(p.sqMemory)
	dma.Free(p.cqMemory)
}

// reset empties both rings. The controller must not know them at this time. Generations go on.
func (p *pair) reset() {
	clear(p.sq)
	for i := range p.cq { // an entry of before must not look new; atomic, because nobody else's stores to it are trusted to have ended
		atomic.StoreUint64(&p.cq[i].high, 0)
		atomic.StoreUint64(&p.cq[i].low, 0)
	}
	p.tail, p.head, p.phase = 0, 0, 1
	p.free = p.free[:0]
	for i := len(p.trackers) - 1; i >= 0; i-- {
		p.trackers[i].busy = false
		p.free = append(p.free, uint16(i))
	}
}

func (p *pair) inflight() int { return len(p.trackers) - len(p.free) }

// begin takes a tracker. The caller has seen that one is free, and pushes a command with its cid.
func (p *pair) begin() (uint16, *tracker) {
	i := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	t := &p.trackers[i]
	t.cid = (t.cid>>p.shift+1)<<p.shift | i
	t.busy, t.aborted = true, false
	return i, t
}

// push copies a command into the ring. It is out of our hands with the next doorbell.
func (p *pair) push(c *command) {
	p.sq[p.tail] = *c
	if p.tail++; p.tail == uint32(len(p.sq)) {
		p.tail = 0
	}
}

// take returns the next completion and its tracker, which stays taken until end. At most inflight calls return one.
func (p *pair) take() (c completion, t *tracker, err error) {
	c, ok := p.cq[p.head].read(p.phase)
	if !ok {
		return c, nil, nil
	}
	i := uint(c.cid) & (1<<p.shift - 1)
	switch {
	case c.sqid != p.id: // row 3
		return c, nil, fmt.Errorf("completion for queue %d in queue %d: %w", c.sqid, p.id, ErrProtocol)
	case i >= uint(len(p.trackers)): // row 1
		return c, nil, fmt.Errorf("completion of command %#x, which cannot be: %w", c.cid, ErrProtocol)
	}
	t = &p.trackers[i]
	if !t.busy || t.cid != c.cid { // row 2
		return c, nil, fmt.Errorf("completion of command %#x, which is not in flight: %w", c.cid, ErrProtocol)
	}
	t.busy = false
	if p.head++; p.head == uint32(len(p.cq)) {
		p.head, p.phase = 0, p.phase^1
	}
	return c, t, nil
}

// end gives back the tracker of a completion.
func (p *pair) end(c completion) { p.free = append(p.free, c.cid&(1<<p.shift-1)) }

// tooMany reports whether the controller posted something though nothing is outstanding (row 6).
func (p *pair) tooMany() error {
	if p.inflight() == 0 && p.cq[p.head].isNew(p.phase) {
		return fmt.Errorf("more completions than commands in queue %d: %w", p.id, ErrProtocol)
	}
	return nil
}
