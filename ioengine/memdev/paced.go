package memdev

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/dma"
)

// The modelled drive of Paced unless PacedOptions say otherwise: that of the paper.
const (
	readRateDefault   = 13.6e9 // bytes a second
	writeRateDefault  = 6.9e9
	latencyMinDefault = 15 * time.Microsecond
	latencyMaxDefault = 80 * time.Microsecond
)

// PacedOptions describe a Paced device.
type PacedOptions struct {
	Blocks, BlocksMax      device.BlockCount // as in Options
	TransferBlocks         device.BlockCount
	ReadRate, WriteRate    float64       // bytes a second; 0: 13.6e9 and 6.9e9
	LatencyMin, LatencyMax time.Duration // of a request, beside its transfer; 0 both: 15 and 80 µs
	Seed                   uint64        // of the latencies
}

// Paced is a disk in memory that takes the time that a drive with a given bandwidth and latency would take, for benchmarks
// on machines without such a drive. One thread of its own serves all its queues in turn: it moves the data, and reports each
// request when the modelled drive would. Transfers share the bandwidth one after the other; latencies overlap.
//
// While requests are in flight its thread polls, and so takes a whole core; while there are none it sleeps. Counted says how
// well it kept to its model. It loses no data and injects no faults.
type Paced struct {
	opts PacedOptions
	rng  *rand.Rand

	mu     sync.Mutex
	data   []byte // BlocksMax blocks
	blocks device.BlockCount
	queues []*pacedQueue
	closed bool
	work   *sync.Cond // something was submitted, or the device was closed
	gone   chan struct{}

	idle  bool // the thread sleeps
	count PacedCounters

	started   time.Time
	submitted atomic.Int64 // requests, ever: the thread looks here before it takes the lock
	taken     int64        // of these; the thread's
}

// PacedCounters are what a Paced device did since it was made.
type PacedCounters struct {
	BytesRead, BytesWritten uint64        // of requests that were served
	Busy                    time.Duration // the modelled transfers together
	Late                    time.Duration // by how much requests were reported late because moving their data took too long, together
}

var _ device.Device = (*Paced)(nil)

// NewPaced makes a device and starts its thread; Close ends it.
func NewPaced(o PacedOptions) (*Paced, error) {
	o.BlocksMax = max(o.BlocksMax, o.Blocks)
	if o.TransferBlocks == 0 {
		o.TransferBlocks = transferBlocksDefault
	}
	if o.ReadRate == 0 {
		o.ReadRate = readRateDefault
	}
	if o.WriteRate == 0 {
		o.WriteRate = writeRateDefault
	}
	if o.LatencyMin == 0 && o.LatencyMax == 0 {
		o.LatencyMin, o.LatencyMax = latencyMinDefault, latencyMaxDefault
	}
	if o.ReadRate < 1 || o.WriteRate < 1 || o.LatencyMin < 0 || o.LatencyMax < o.LatencyMin {
		return nil, fmt.Errorf("paced device: %.0f and %.0f bytes a second, %v to %v", o.ReadRate, o.WriteRate, o.LatencyMin, o.LatencyMax)
	}
	data, _, err := dma.Map(o.BlocksMax.Bytes())
	if err != nil {
		return nil, fmt.Errorf("paced device: %w", err)
	}
	d := &Paced{
		opts: o, rng: rand.New(rand.NewPCG(o.Seed, 0x7061636564)), data: data, blocks: o.Blocks, gone: make(chan struct{}),
		started: time.Now(),
	}
	d.work = sync.NewCond(&d.mu)
	go d.serve()
	return d, nil
}

// Info implements device.Device.
func (d *Paced) Info() device.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	return device.Info{
		Name:   fmt.Sprintf("memory paced to %.1f GB/s read, %.1f GB/s write", d.opts.ReadRate/1e9, d.opts.WriteRate/1e9),
		Blocks: d.blocks, BlocksMax: d.opts.BlocksMax, TransferBlocks: d.opts.TransferBlocks, Exclusive: true,
	}
}

// Alloc implements device.Device.
func (d *Paced) Alloc(n device.BlockCount) ([]byte, error) {
	if n == 0 || n > 1<<30 {
		return nil, fmt.Errorf("memdev: buffer of %d blocks", n)
	}
	b, _, err := dma.Map(n.Bytes())
	return b, err
}

// Free implements device.Device.
func (d *Paced) Free(buf []byte) {
	if err := dma.Unmap(buf); err != nil {
		panic("internal error: Free of a buffer that is not of Alloc")
	}
}

// Reserve implements device.Device.
func (d *Paced) Reserve(n device.BlockCount) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > d.opts.BlocksMax {
		return false, fmt.Errorf("memdev: reserve %d blocks of %d: %w", n, d.opts.BlocksMax, device.ErrFull)
	}
	d.blocks = max(d.blocks, n)
	return true, nil
}

// Counted returns the counters so far.
func (d *Paced) Counted() PacedCounters {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// Close implements device.Device: it ends the thread and frees the memory.
func (d *Paced) Close() error {
	d.mu.Lock()
	if n := len(d.queues); n > 0 {
		d.mu.Unlock()
		return fmt.Errorf("memdev: close: %d queues are open", n)
	}
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.work.Broadcast()
	d.mu.Unlock()
	<-d.gone
	return dma.Unmap(d.data)
}

// now is the device's clock.
func (d *Paced) now() time.Duration { return time.Since(d.started) }

// checkLocked returns why a request cannot be served.
func (d *Paced) checkLocked(r device.Request) error {
	return checkRequest(r, d.opts.TransferBlocks, uint64(d.blocks))
}
