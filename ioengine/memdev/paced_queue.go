package memdev

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"cvmstore/ioengine/device"
)

// pacedCloseTimeout bounds how long Close of a queue waits for what is outstanding.
const pacedCloseTimeout = 30 * time.Second

// pacedQueue is a queue of a Paced device. Requests go to the device's thread, completions come back from it.
type pacedQueue struct {
	d        *Paced
	depth    int
	wake     chan struct{} // holds one token while completions may be there
	ready    atomic.Int32  // len(done), so that polling takes no lock
	isClosed atomic.Bool   // the same as closed

	// Guarded by d.mu.
	incoming    []pacedRequest
	done        []device.Completion
	outstanding int
	closed      bool
}

type pacedRequest struct {
	device.Request
	err error
	at  time.Duration // of submission
}

// NewQueue implements device.Device.
func (d *Paced) NewQueue(depth int) (device.Queue, error) {
	if depth < 1 {
		return nil, fmt.Errorf("memdev: queue of depth %d", depth)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("memdev: new queue: %w", ErrGone)
	}
	q := &pacedQueue{d: d, depth: depth, wake: make(chan struct{}, 1)}
	d.queues = append(d.queues, q)
	return q, nil
}

// Submit implements device.Queue.
func (q *pacedQueue) Submit(reqs []device.Request) (int, error) {
	d := q.d
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.closed {
		return 0, fmt.Errorf("memdev: queue: %w", ErrGone)
	}
	n := min(len(reqs), q.depth-q.outstanding)
	for _, r := range reqs[:n] {
		q.incoming = append(q.incoming, pacedRequest{r, d.checkLocked(r), now})
	}
	q.outstanding += n
	if n > 0 && d.idle {
		d.work.Signal()
	}
	d.submitted.Add(int64(n))
	return n, nil
}

// Poll implements device.Queue.
func (q *pacedQueue) Poll(out []device.Completion) (int, error) {
	if q.ready.Load() == 0 && !q.isClosed.Load() {
		return 0, nil
	}
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	if q.closed {
		return 0, fmt.Errorf("memdev: queue: %w", ErrGone)
	}
	n := copy(out, q.done)
	q.done = append(q.done[:0], q.done[n:]...)
	q.ready.Store(int32(len(q.done)))
	q.outstanding -= n
	return n, nil
}

// Wait implements device.Queue.
func (q *pacedQueue) Wait(out []device.Completion, timeout time.Duration) (int, error) {
	n, err := q.Poll(out)
	if n > 0 || err != nil || len(out) == 0 || q.Outstanding() == 0 {
		return n, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for { // each token is one delivery, of which one at least is still there unless an earlier Poll took it
		select {
		case <-q.wake:
			if n, err := q.Poll(out); n > 0 || err != nil {
				return n, err
			}
		case <-timer.C:
			return 0, nil
		}
	}
}

// Fd implements device.Queue: there is none, it must be polled.
func (q *pacedQueue) Fd() int { return -1 }

// Outstanding implements device.Queue.
func (q *pacedQueue) Outstanding() int {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	return q.outstanding
}

// Close implements device.Queue.
func (q *pacedQueue) Close() error {
	out := make([]device.Completion, 64)
	for deadline := time.Now().Add(pacedCloseTimeout); ; {
		if _, err := q.Wait(out, time.Until(deadline)); err != nil {
			return nil // closed before
		}
		if q.Outstanding() == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("memdev: close queue: %d requests did not finish", q.Outstanding())
		}
	}
	d := q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	q.closed = true
	q.isClosed.Store(true)
	d.queues = slices.DeleteFunc(d.queues, func(o *pacedQueue) bool { return o == q })
	return nil
}
