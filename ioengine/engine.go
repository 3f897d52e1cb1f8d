package ioengine

import (
	"errors"
	"fmt"
	"time"

	"cvmstore/ioengine/device"
)

// Errors that callers tell apart; all are wrapped with what and where.
var (
	// ErrCorrupt: a chunk is not the one that was sealed. Nothing of it was released.
	ErrCorrupt = errors.New("corrupt")
	// ErrDevice: the device failed a request, broke its queue or does not answer. What was being written may or may not be
	// there.
	ErrDevice = errors.New("the device failed")
	// ErrClosed: the pipeline or its engine was closed.
	ErrClosed = errors.New("closed")
	// ErrExtents: a Writer was given more than its extents hold.
	ErrExtents = errors.New("the extents are full")
)

// stepMax bounds the completions that one Step takes, so that opening chunks does not hold up an event loop: 8 chunks take
// some 0.1 ms.
const stepMax = 8

// Options describe an Engine.
type Options struct {
	Depth   int                  // requests at the device at most, of all pipelines together; 0: 32
	Ahead   int                  // chunks that are sealed, or have their buffer, and wait for their turn at the device; 0: half of Depth
	Timeout time.Duration        // the engine fails when requests are outstanding and none completes for so long; 0: 60 s
	Spin    time.Duration        // Wait polls for so long before it sleeps
	Clock   func() time.Duration // monotonic time; nil: the machine's

	NoOverlap bool // for the ablation WithoutOverlap
}

// Engine drives the pipelines of one device queue. One goroutine at a time uses it and its Writers and Readers.
type Engine struct {
	pool     *Pool
	queue    device.Queue
	transfer device.BlockCount // the largest request
	opts     Options

	ops      []op
	free     []int            // of ops
	backlog  []device.Request // accepted by us, not yet by the queue: what the device gets first when something completes
	flight   int              // requests that the device has
	limit    int              // of flight; at most Options.Depth
	done     [stepMax]device.Completion
	x        scratch
	progress time.Duration // when something last completed, or was submitted to an idle device
	err      error         // for good
	closed   bool
	batch    batch

	held    int // buffers; guarded by pool.mu
	fair    fair
	stats   Stats
	started time.Time
}

// op is a chunk that the device has: one buffer, one request or, where an extent ends inside the chunk, several.
type op struct {
	generation uint32 // raised with each use; the upper half of the token
	parts      int    // requests not completed; 0: not in use
	err        error  // the first
	buf        []byte
	length     int // bytes of the buffer that travel: whole blocks
	first      device.LBA
	w          *Writer
	r          *Reader
	slot       uint64 // of r
}

// New makes an engine on a queue of its own.
func New(dev device.Device, pool *Pool, o Options) (*Engine, error) {
	if o.Depth == 0 {
		o.Depth = 32
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Ahead == 0 {
		o.Ahead = o.Depth / 2
	}
	if o.NoOverlap {
		o.Ahead = 0
	}
	if o.Depth < 1 || o.Depth > 1024 || o.Ahead < 0 || o.Ahead > 1024 {
		return nil, fmt.Errorf("engine of depth %d and %d ahead", o.Depth, o.Ahead)
	}
	e := &Engine{pool: pool, transfer: max(1, dev.Info().TransferBlocks), opts: o, limit: o.Depth, ops: make([]op, o.Depth+o.Ahead), started: time.Now()}
	if e.opts.Clock == nil {
		e.opts.Clock = func() time.Duration { return time.Since(e.started) }
	}
	for i := len(e.ops) - 1; i >= 0; i-- {
		e.free = append(e.free, i)
	}
	if err := pool.join(e); err != nil {
		return nil, err
	}
	var err error
	if e.queue, err = dev.NewQueue(o.Depth); err != nil {
		pool.leave(e, 0)
		return nil, fmt.Errorf("engine: %w", err)
	}
	return e, nil
}

// Fd returns a descriptor that is readable when Step has something to do, or -1 if Step must be called now and then.
func (e *Engine) Fd() int { return e.queue.Fd() }

// Outstanding returns how many chunks are at the device or wait for their turn there.
func (e *Engine) Outstanding() int { return len(e.ops) - len(e.free) }

// Err returns why the engine failed, nil while it works. A failed engine accepts nothing; Step still takes back buffers.
func (e *Engine) Err() error { return e.err }

// Limit bounds the requests at the device from now on, to between 1 and Options.Depth. Every small write of another queue waits
// behind what is at the device: with 4 chunks of 256 KiB there a commit took 0.5 ms in the median here, with 32 almost 4 ms, and
// the transfer was hardly faster. So who commits beside transfers keeps few in flight while it does.
func (e *Engine) Limit(requests int) {
	e.limit = min(max(1, requests), e.opts.Depth)
}

// Step takes what the device completed, without waiting: chunks that were read are opened, buffers come home, and requests
// that found the queue full go out. It reports whether something moved; then those that were refused should try again. It
// handles a bounded number of chunks; if there is more, Fd stays readable. The error is Err's.
func (e *Engine) Step() (moved bool, err error) {
	if e.closed {
		return false, ErrClosed
	}
	n, err := e.queue.Poll(e.done[:])
	return e.take(n, err)
}

// Wait is Step, but waits up to timeout for something to move if chunks are in flight.
func (e *Engine) Wait(timeout time.Duration) (moved bool, err error) {
	moved, err = e.Step()
	if moved || err != nil || e.Outstanding() == 0 {
		return moved, err
	}
	for until := e.opts.Clock() + min(e.opts.Spin, timeout); e.opts.Clock() < until; {
		if moved, err = e.Step(); moved || err != nil {
			return moved, err
		}
	}
	n, err := e.queue.Wait(e.done[:], timeout)
	return e.take(n, err)
}

// take handles n completions, or the queue's end.
func (e *Engine) take(n int, err error) (bool, error) {
	if err != nil {
		e.fail(fmt.Errorf("%w: %w", ErrDevice, err))
		return false, e.err
	}
	now := e.opts.Clock()
	// What waits goes out before the completed chunks are opened: a device that reports many at once must not idle meanwhile.
	e.flight -= n
	e.send()
	done := e.done[:n]
	if e.opts.NoOverlap {
		done = e.gather(done)
	}
	for _, c := range done {
		e.complete(c)
	}
	switch {
	case n > 0:
		e.progress = now
		e.fair.round++
	case e.Outstanding() > 0 && now-e.progress > e.opts.Timeout:
		e.fail(fmt.Errorf("%w: %d chunks are in flight and nothing completed for %v", ErrDevice, e.Outstanding(), e.opts.Timeout))
	}
	return n > 0, e.err
}

// fail ends the engine. What is in flight stays in quarantine until the device completes it; what the device never got comes
// back at once.
func (e *Engine) fail(err error) {
	if e.err != nil {
		return
	}
	e.err = err
	waiting := e.backlog
	e.backlog = nil
	for _, r := range waiting {
		e.complete(device.Completion{Token: r.Token, Err: err})
	}
}

// complete takes one completion.
func (e *Engine) complete(c device.Completion) {
	i := uint32(c.Token)
	if int(i) >= len(e.ops) || e.ops[i].parts == 0 || e.ops[i].generation != uint32(c.Token>>32) {
		e.fail(fmt.Errorf("%w: completion of an unknown request (%#x)", ErrDevice, c.Token))
		return
	}
	o := &e.ops[i]
	if c.Err != nil && o.err == nil {
		o.err = c.Err
	}
	if o.parts--; o.parts > 0 {
		return
	}
	if o.w != nil {
		o.w.complete(o)
	} else {
		o.r.complete(o)
	}
	e.pool.put(e, o.buf)
	*o = op{generation: o.generation}
	e.free = append(e.free, int(i))
}

// submit sends op i: its buffer, cut to so many blocks, for those from number from of x.
func (e *Engine) submit(i int, what device.Op, x *extents, from, blocks device.BlockCount) {
	o := &e.ops[i]
	o.generation++
	o.length = blocks.Bytes()
	if e.Outstanding() == 1 {
		e.progress = e.opts.Clock()
	}
	for at, left := 0, blocks; left > 0; {
		lba, run := x.at(from, left)
		if o.parts == 0 {
			o.first = lba
		}
		run = min(run, e.transfer)
		e.backlog = append(e.backlog, device.Request{
			Op: what, LBA: lba, Buf: o.buf[at : at+run.Bytes()], Token: uint64(o.generation)<<32 | uint64(i),
		})
		o.parts++
		at, from, left = at+run.Bytes(), from+run, left-run
	}
	if !e.hold() {
		e.send()
	}
}

// send hands the backlog to the queue, as far as the depth goes.
func (e *Engine) send() {
	most := min(len(e.backlog), e.limit-e.flight)
	if most <= 0 {
		return
	}
	e.batch.out = e.opts.NoOverlap
	n, err := e.queue.Submit(e.backlog[:most])
	e.flight += n
	left := copy(e.backlog, e.backlog[n:])
	clear(e.backlog[left:])
	e.backlog = e.backlog[:left]
	if err != nil {
		e.fail(fmt.Errorf("%w: %w", ErrDevice, err))
	}
}

// Close waits for what is in flight, with the device's deadline, and frees the queue. All pipelines fail from then on.
func (e *Engine) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.fail(fmt.Errorf("engine: %w", ErrClosed))
	err := e.queue.Close()
	lost := 0
	for i := range e.ops {
		if o := &e.ops[i]; o.buf != nil {
			if err != nil {
				lost++
				continue
			}
			e.pool.put(e, o.buf)
			o.buf = nil
		}
	}
	e.pool.leave(e, lost)
	if err != nil {
		return fmt.Errorf("close engine: %w", err)
	}
	return nil
}
