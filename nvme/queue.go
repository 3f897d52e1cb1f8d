package nvme

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"cvmstore/ioengine/device"
)

var errQueueClosed = errors.New("queue is closed")

// hardware is an I/O queue pair of the controller with its PRP lists. It belongs to one Queue, or is shared by several under
// a mutex, when the controller grants fewer pairs than there are queues.
type hardware struct {
	*pair
	lists  prpLists
	shared *sync.Mutex // nil: not shared
	left   int         // trackers that no queue has been promised; guarded by Device.mu
	users  int         // guarded by Device.mu
	life   uint32      // of the device, when the controller was told of this pair
	broken error

	idlePolls uint32
	nextLook  time.Duration
}

func (h *hardware) freeMemory(dma DMA) {
	h.pair.freeMemory(dma)
	dma.Free(h.lists.memory)
}

// Queue implements device.Queue.
type Queue struct {
	d           *Device
	h           *hardware
	depth       int
	share       int // trackers of the pair that are promised to this queue
	outstanding int // accepted and not returned
	closed      bool
	last        *region // where the last buffer was: most likely the next one is there too

	// Completions that were found while somebody else polled the pair, or before anything was sent. A ring of depth.
	backlog   []device.Completion
	backFirst int
	backCount int

	through *Queue // for WriteThrough: a queue of depth 1 on the same pair
}

var _ device.Queue = (*Queue)(nil)

// queueDepthMax is the largest depth that NewQueue accepts; the rings have at most depthMax.
const queueDepthMax = 4096

// NewQueue implements device.Device. While the controller has queue pairs left, each queue has one of its own; the last pair is
// shared by all further queues, under a lock. A controller with short rings makes queues that are shorter than asked.
func (d *Device) NewQueue(depth int) (device.Queue, error) {
	if depth < 1 || depth > queueDepthMax {
		return nil, fmt.Errorf("nvme: queue of depth %d, at most %d", depth, queueDepthMax)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, fmt.Errorf("nvme: new queue: %w", errClosed)
	case d.dead != nil:
		return nil, d.dead
	}
	h, err := d.hardwareLocked(depth + 1)
	if err != nil {
		return nil, fmt.Errorf("nvme: new queue: %w", err)
	}
	q := newQueue(d, h, max(1, min(depth, h.left-1)))
	q.through = newQueue(d, h, 1)
	q.share = min(h.left, q.depth+1)
	h.left -= q.share
	h.users++
	d.queues++
	return q, nil
}

func newQueue(d *Device, h *hardware, depth int) *Queue {
	return &Queue{d: d, h: h, depth: depth, backlog: make([]device.Completion, depth)}
}

// hardwareLocked returns a pair with room for some of n commands.
func (d *Device) hardwareLocked(n int) (*hardware, error) {
	last := len(d.pairs) - 1
	for i, h := range d.pairs[:last] {
		if h == nil {
			return d.makeLocked(i, n, nil)
		}
	}
	if h := d.pairs[last]; h != nil {
		if h.left == 0 {
			return nil, fmt.Errorf("the controller's %d queue pairs are taken", len(d.pairs))
		}
		return h, nil
	}
	return d.makeLocked(last, max(n, d.opts.Depth), new(sync.Mutex))
}

// makeLocked makes queue pair number i+1 and tells the controller.
func (d *Device) makeLocked(i, n int, shared *sync.Mutex) (*hardware, error) {
	n = min(n, d.ctrl.caps.entries-1, depthMax)
	p, err := newPair(d.dma, uint16(i+1), n, PurposeSubmission, PurposeCompletion)
	if err != nil {
		return nil, err
	}
	h := &hardware{pair: p, shared: shared, left: n, life: d.life.Load()}
	if h.lists, err = newLists(d.dma, n, int(d.identity.TransferBlocks)); err != nil {
		p.freeMemory(d.dma)
		return nil, err
	}
	h.sqDoor, h.cqDoor = newDoorbell(d.bar, d.ctrl.caps.stride, i+1, 0), newDoorbell(d.bar, d.ctrl.caps.stride, i+1, 1)
	if err := d.ctrl.create(p); err != nil {
		// The controller may know of one of the rings.
		d.recoverLocked(h.life, err)
		if !d.stuck.Load() {
			h.freeMemory(d.dma)
		}
		return nil, err
	}
	d.pairs[i] = h
	return h, nil
}

func (q *Queue) lock() {
	if q.h.shared != nil {
		q.h.shared.Lock()
	}
}

func (q *Queue) unlock() {
	if q.h.shared != nil {
		q.h.shared.Unlock()
	}
}

// enter is the first step of every call: it notices a reset of the controller.
func (q *Queue) enter() error {
	if q.closed {
		return errQueueClosed
	}
	if q.h.life != q.d.life.Load() {
		q.d.revive(q.h)
	}
	return q.h.broken
}

// revive tells a controller that was reset about a pair again. What was in flight completes with an error: now that the
// controller has stopped, the buffers are the caller's again (row 18).
func (d *Device) revive(h *hardware) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.life = d.life.Load()
	if d.dead != nil {
		h.broken = d.dead
		return
	}
	for i := range h.trackers {
		if t := &h.trackers[i]; t.busy {
			t.owner.keep(device.Completion{Token: t.token, Err: t.err(ErrReset)})
		}
	}
	h.reset()
	if h.broken == nil {
		if h.broken = d.ctrl.create(h.pair); h.broken != nil {
			d.recoverLocked(h.life, h.broken) // it may know of one of the rings
		}
	}
}

// keep stores a completion until its owner polls. There is room: an owner has at most depth requests outstanding.
func (q *Queue) keep(c device.Completion) {
	at := q.backFirst + q.backCount
	if at >= len(q.backlog) {
		at -= len(q.backlog)
	}
	q.backlog[at] = c
	q.backCount++
}

// kept moves kept completions to out and returns how many.
func (q *Queue) kept(out []device.Completion) int {
	n := min(q.backCount, len(out))
	for i := range n {
		out[i] = q.backlog[q.backFirst]
		if q.backFirst++; q.backFirst == len(q.backlog) {
			q.backFirst = 0
		}
	}
	q.backCount -= n
	q.outstanding -= n
	return n
}

// fail breaks the pair for good and resets the controller, so that the buffers that it knows of are safe.
func (q *Queue) fail(err error) error {
	q.h.broken = fmt.Errorf("nvme: queue %d: %w", q.h.id, err)
	q.d.recover(q.h.life, q.h.broken)
	return q.h.broken
}

// Fd implements device.Queue: the driver uses no interrupts.
func (q *Queue) Fd() int { return -1 }

// Outstanding implements device.Queue.
func (q *Queue) Outstanding() int { return q.outstanding }

// Close implements device.Queue. What is outstanding completes, or is cut off by a reset after the timeouts.
func (q *Queue) Close() error {
	if q.closed {
		return nil
	}
	var err error
	out := make([]device.Completion, 16)
	w := startWait(q.d.opts.Clock)
	limit := 3*q.d.opts.Timeout + 2*q.d.opts.AdminTimeout + 3*q.d.ctrl.readyTimeout
	for q.outstanding > 0 {
		var n int
		if n, err = q.Poll(out); err != nil {
			break // broken or given up: the controller was reset, or Free keeps the buffers
		}
		if n == 0 && w.rest() > limit {
			err = q.fail(ErrTimeout)
			break
		}
	}
	q.lock()
	q.closed, q.through.closed = true, true
	q.unlock()
	q.d.leave(q)
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// leave gives a queue's share of its pair back, and the pair with its last user. A pair that is broken the controller does not know:
// it was reset for that, or given up.
func (d *Device) leave(q *Queue) {
	d.mu.Lock()
	h, life := q.h, d.life.Load()
	h.left += q.share
	h.users--
	d.queues--
	last := h.users == 0
	var err error
	if last && d.dead == nil && h.life == life && h.broken == nil {
		err = d.ctrl.remove(h.pair)
	}
	d.mu.Unlock()
	if err != nil {
		d.recover(life, err) // afterwards the controller does not know the pair
	}
	if last {
		d.mu.Lock()
		d.pairs[h.id-1] = nil
		if !d.stuck.Load() {
			h.freeMemory(d.dma)
		}
		d.mu.Unlock()
	}
}
