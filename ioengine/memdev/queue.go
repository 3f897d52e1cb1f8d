package memdev

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"cvmstore/ioengine/device"
)

// Queue is a queue of a Device. Requests take effect when they complete, which is when Poll or Wait returns them.
type Queue struct {
	d       *Device
	life    int
	closed  bool
	depth   int
	pending []pending // in the order of submission, at most depth
}

// pending is an accepted request that has not completed.
type pending struct {
	req      device.Request
	contents [][]byte // of a write, as they were at Submit
	seq      uint64   // Device.seq at Submit: what a flush covers
	fault    Fault
}

// NewQueue implements device.Device. Manual queues complete as the seed decides.
func (d *Device) NewQueue(depth int) (device.Queue, error) {
	if depth < 1 {
		return nil, fmt.Errorf("memdev: queue of depth %d", depth)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("memdev: new queue: %w", ErrGone)
	}
	q := &Queue{d: d, life: d.life, depth: depth}
	d.queues = append(d.queues, q)
	return q, nil
}

func (q *Queue) aliveLocked() error {
	if q.closed || q.life != q.d.life {
		return fmt.Errorf("memdev: queue: %w", ErrGone)
	}
	return nil
}

// Submit implements device.Queue.
func (q *Queue) Submit(reqs []device.Request) (int, error) {
	d := q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.aliveLocked(); err != nil {
		return 0, err
	}
	n := min(len(reqs), q.depth-len(q.pending))
	for _, r := range reqs[:n] {
		q.pending = append(q.pending, d.acceptLocked(r))
	}
	return n, nil
}

// acceptLocked takes a request over from the caller, whose buffer now belongs to the device.
func (d *Device) acceptLocked(r device.Request) pending {
	p := pending{req: r, seq: d.seq}
	if err := d.checkLocked(r); err != nil {
		p.fault = Fault{Err: err, Land: LandNone}
		return p
	}
	count := device.BlocksFor(len(r.Buf))
	if r.Op == device.OpTrim {
		count = r.Count
	}
	p.fault = d.faultLocked(Request{Op: r.Op, Through: r.Through && r.Op == device.OpWrite, LBA: r.LBA, Count: count})
	switch {
	case r.Op == device.OpWrite:
		p.contents = copyBlocks(r.Buf)
		if d.opts.History {
			for i, c := range p.contents {
				b := &d.blocks[int(r.LBA)+i]
				b.history = append(b.history, c)
			}
		}
	case r.Op == device.OpRead && d.opts.Manual && p.fault.Land != LandNone:
		fill(r.Buf, poisonRead)
	}
	return p
}

// checkLocked returns why a request cannot be served.
func (d *Device) checkLocked(r device.Request) error {
	return checkRequest(r, d.opts.TransferBlocks, uint64(len(d.blocks)))
}

// checkRequest returns why a device of so many blocks cannot serve r.
func checkRequest(r device.Request, transfer device.BlockCount, have uint64) error {
	count := r.Count
	switch r.Op {
	case device.OpFlush:
		return nil
	case device.OpTrim:
	case device.OpRead, device.OpWrite:
		if len(r.Buf) == 0 || len(r.Buf)%device.BlockSize != 0 || address(r.Buf)%device.BlockSize != 0 {
			return fmt.Errorf("memdev: buffer of %d bytes is not whole, aligned blocks", len(r.Buf))
		}
		if count = device.BlocksFor(len(r.Buf)); count > transfer {
			return fmt.Errorf("memdev: transfer of %d blocks, at most %d: %w", count, transfer, device.ErrBounds)
		}
	default:
		return fmt.Errorf("memdev: unknown operation %d", r.Op)
	}
	if uint64(r.LBA) > have || uint64(count) > have-uint64(r.LBA) {
		return fmt.Errorf("memdev: blocks %d+%d of %d: %w", r.LBA, count, have, device.ErrBounds)
	}
	return nil
}

// Poll implements device.Queue.
func (q *Queue) Poll(out []device.Completion) (int, error) { return q.reap(out, false) }

// Wait implements device.Queue. It always completes something, and never sleeps, unless all that is outstanding hangs: then
// a manual device returns at once, and another one after the timeout.
func (q *Queue) Wait(out []device.Completion, timeout time.Duration) (int, error) {
	n, err := q.reap(out, true)
	if n == 0 && err == nil && !q.d.opts.Manual && q.Outstanding() > 0 {
		time.Sleep(timeout)
	}
	return n, err
}

func (q *Queue) reap(out []device.Completion, must bool) (int, error) {
	d := q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.aliveLocked(); err != nil {
		return 0, err
	}
	ready := q.readyLocked()
	if len(ready) == 0 && must {
		ready = q.soonestLocked()
	}
	ready = ready[:min(len(ready), len(out))]
	for n, i := range ready {
		p := &q.pending[i]
		d.completeLocked(p)
		out[n] = device.Completion{Token: p.req.Token, Err: p.fault.Err}
		if p.fault.Err == nil {
			d.countBytesLocked(p)
		}
	}
	slices.Sort(ready)
	for _, i := range slices.Backward(ready) {
		q.pending = slices.Delete(q.pending, i, i+1)
	}
	return len(ready), nil
}

func (d *Device) countBytesLocked(p *pending) {
	switch p.req.Op {
	case device.OpRead:
		d.counters.BytesRead += uint64(len(p.req.Buf))
	case device.OpWrite:
		d.counters.BytesWritten += uint64(len(p.req.Buf))
	}
}

// readyLocked picks the pending requests that complete now, as indexes in the order of their completion.
func (q *Queue) readyLocked() []int {
	var ready []int
	for i := range q.pending {
		f := &q.pending[i].fault
		switch {
		case f.Hang:
		case f.Delay > 0:
			f.Delay--
		case !q.d.opts.Manual || q.d.rng.IntN(2) == 0:
			ready = append(ready, i)
		}
	}
	if q.d.opts.Manual {
		q.d.rng.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	}
	return ready
}

// soonestLocked picks one of the pending requests with the shortest delay, if any does not hang.
func (q *Queue) soonestLocked() []int {
	var soonest []int
	for i := range q.pending {
		f := q.pending[i].fault
		if f.Hang {
			continue
		}
		if len(soonest) > 0 && f.Delay < q.pending[soonest[0]].fault.Delay {
			soonest = soonest[:0]
		}
		if len(soonest) == 0 || f.Delay == q.pending[soonest[0]].fault.Delay {
			soonest = append(soonest, i)
		}
	}
	if len(soonest) == 0 {
		return nil
	}
	pick := 0
	if q.d.opts.Manual {
		pick = q.d.rng.IntN(len(soonest))
	}
	return soonest[pick : pick+1]
}

// completeLocked lets a request take effect as far as its fault says.
func (d *Device) completeLocked(p *pending) {
	land := p.fault.Land
	if land == LandNone {
		return
	}
	switch p.req.Op {
	case device.OpRead:
		for i := range len(p.req.Buf) / device.BlockSize {
			to := p.req.Buf[i*device.BlockSize : (i+1)*device.BlockSize]
			from := orZero(d.blocks[int(p.req.LBA)+i].current())
			if land == LandTorn {
				from = mix(d.rng.IntN, from, to)
			}
			copy(to, from)
		}
	case device.OpWrite:
		d.writeLocked(p, land)
	case device.OpFlush:
		d.flushLocked(p.seq)
	case device.OpTrim:
		d.trimLocked(p)
	}
}

func (d *Device) writeLocked(p *pending, land Landing) {
	d.seq++
	for i, c := range p.contents {
		at := i * device.BlockSize
		if d.opts.Manual && !bytes.Equal(c, p.req.Buf[at:at+device.BlockSize]) {
			panic(fmt.Sprintf("internal error: buffer of block %d changed while the device owned it", int(p.req.LBA)+i))
		}
		lba := p.req.LBA + device.LBA(i)
		if land == LandTorn {
			c = mix(d.rng.IntN, d.blocks[lba].current(), c)
		}
		d.landLocked(lba, c, p.req.Through && land != LandCached)
	}
}

// trimLocked leaves zeros, or with a manual device anything: the old content, zeros, or noise.
func (d *Device) trimLocked(p *pending) {
	d.seq++
	for i := range p.req.Count {
		lba := p.req.LBA + device.LBA(i)
		pick := 1
		if d.opts.Manual {
			pick = d.rng.IntN(3)
		}
		switch pick {
		case 1:
			d.landLocked(lba, nil, false)
		case 2:
			d.landLocked(lba, d.noiseLocked(), false)
		}
	}
}

// Fd implements device.Queue: there is nothing to wait on, completions are made by Poll.
func (q *Queue) Fd() int { return -1 }

// Outstanding implements device.Queue.
func (q *Queue) Outstanding() int {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	return len(q.pending)
}

// Close implements device.Queue. What is outstanding takes effect, in the order of submission.
func (q *Queue) Close() error {
	d := q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.closed || q.life != d.life {
		q.closed = true
		return nil
	}
	var err error
	for i := range q.pending {
		if q.pending[i].fault.Hang {
			err = errors.New("memdev: close queue: a request never completed")
			continue
		}
		d.completeLocked(&q.pending[i])
	}
	q.closed, q.pending = true, nil
	d.queues = slices.DeleteFunc(d.queues, func(o *Queue) bool { return o == q })
	return err
}
