package memdev

import (
	"runtime"
	"slices"
	"time"

	"cvmstore/ioengine/device"
)

// pieceBytes is how much the thread moves before it looks for completions that are due: some 5 µs.
const pieceBytes = 64 << 10

// flight is a request whose data has been moved, waiting for its time.
type flight struct {
	q   *pacedQueue
	due time.Duration
	c   device.Completion
}

// pacer is the state of the thread.
type pacer struct {
	d       *Paced
	turn    int           // the queue that is asked next
	free    time.Duration // when the modelled drive has done all transfers so far
	flights []flight      // by due, the latest first
}

// serve is the device's thread.
func (d *Paced) serve() {
	runtime.LockOSThread()
	defer close(d.gone)
	p := &pacer{d: d}
	for p.turnOnce() {
	}
}

// turnOnce serves at most one request and delivers what is due. It sleeps while there is nothing to do, and returns false when
// the device was closed.
func (p *pacer) turnOnce() bool {
	if p.d.submitted.Load() == p.d.taken && len(p.flights) > 0 {
		p.deliver()
		return true
	}
	q, r, ok := p.next()
	if !ok {
		return false
	}
	if q != nil {
		p.run(q, r)
	}
	p.deliver()
	return true
}

// next takes the next request, of the queues in turn as a controller does. A nil queue: there is none, but some are in flight.
func (p *pacer) next() (*pacedQueue, pacedRequest, bool) {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for range d.queues {
			p.turn = (p.turn + 1) % len(d.queues)
			if q := d.queues[p.turn]; len(q.incoming) > 0 {
				r := q.incoming[0]
				q.incoming = append(q.incoming[:0], q.incoming[1:]...)
				d.taken++
				return q, r, true
			}
		}
		if len(p.flights) > 0 {
			return nil, pacedRequest{}, true
		}
		if d.closed {
			return nil, pacedRequest{}, false
		}
		d.idle = true
		d.work.Wait()
		d.idle = false
	}
}

// run moves a request's data, and computes when the modelled drive reports it: its transfer begins when the one before it
// ends, and not before it was submitted.
func (p *pacer) run(q *pacedQueue, r pacedRequest) {
	d := p.d
	due := r.at
	if r.err == nil {
		rate, n := d.opts.ReadRate, len(r.Buf)
		switch r.Op {
		case device.OpWrite:
			rate = d.opts.WriteRate
		case device.OpFlush, device.OpTrim:
			n = 0
		}
		transfer := time.Duration(float64(n) / rate * 1e9)
		p.free = max(p.free, r.at) + transfer
		latency := d.opts.LatencyMin
		if spread := d.opts.LatencyMax - latency; spread > 0 {
			latency += time.Duration(d.rng.Int64N(int64(spread)))
		}
		due = p.free + latency
		p.move(r.Request)
		p.count(r.Op, n, transfer, d.now()-due)
	}
	at, _ := slices.BinarySearchFunc(p.flights, due, func(f flight, due time.Duration) int { return int(due - f.due) })
	p.flights = slices.Insert(p.flights, at, flight{q, due, device.Completion{Token: r.Token, Err: r.err}})
}

func (p *pacer) count(op device.Op, n int, busy, late time.Duration) {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count.Busy += busy
	d.count.Late += max(0, late)
	if op == device.OpRead {
		d.count.BytesRead += uint64(n)
	} else {
		d.count.BytesWritten += uint64(n)
	}
}

// move is the transfer: the data of a write is what the buffer holds now, while the device owns it.
func (p *pacer) move(r device.Request) {
	if r.Op != device.OpRead && r.Op != device.OpWrite {
		return
	}
	disk := p.d.data[int(r.LBA)*device.BlockSize:][:len(r.Buf)]
	for at := 0; at < len(r.Buf); at += pieceBytes {
		end := min(at+pieceBytes, len(r.Buf))
		if r.Op == device.OpRead {
			moveIn(&r.Buf[at], &disk[at], end-at)
		} else {
			moveOut(&disk[at], &r.Buf[at], end-at)
		}
		p.deliver()
	}
}

// deliver reports the requests whose time has come.
func (p *pacer) deliver() {
	n := len(p.flights)
	if n == 0 {
		return
	}
	now := p.d.now()
	for ; n > 0 && p.flights[n-1].due <= now; n-- {
		f := p.flights[n-1]
		p.d.mu.Lock()
		f.q.done = append(f.q.done, f.c)
		f.q.ready.Store(int32(len(f.q.done)))
		p.d.mu.Unlock()
		select {
		case f.q.wake <- struct{}{}:
		default: // it is awake
		}
	}
	p.flights = p.flights[:n]
}
