// Package memdev is a device.Device in memory, for tests and for the simulator. It models a disk with a volatile write cache
// that can lose power, fail, lie, and be tampered with.
//
// In comes what any device gets; out go completions, either all at each Poll (the default) or, with Options.Manual, in an
// order and with delays that a seed decides. Used from one goroutine a manual device is a function of its seed and its
// calls: it starts no goroutine, reads no clock and never sleeps. It knows nothing of what is stored in its blocks.
//
// All exported methods may be called from any goroutine, and on a device whose queues are in use.
package memdev

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"cvmstore/ioengine/device"
)

// transferBlocksDefault is the largest single transfer unless Options say otherwise: 4 MiB, as filedev has.
const transferBlocksDefault = 1024

// ErrGone is returned, wrapped, by queues that a power cut, a kill or a Close ended.
var ErrGone = errors.New("device is gone")

// Options describe a Device.
type Options struct {
	Blocks         device.BlockCount // size at the start; all blocks are zero
	BlocksMax      device.BlockCount // what Reserve may reach; 0: Blocks
	TransferBlocks device.BlockCount // largest read or write; 0: 1024
	Seed           uint64            // of everything random
	// Manual lets the seed decide at each Poll which requests complete, and in which order. It also checks the caller: a
	// write buffer changed in flight, or a buffer freed in flight, panics; read buffers are poisoned at Submit and all
	// buffers at Free; trimmed blocks read as anything; Reserve takes several calls.
	Manual  bool
	History bool                // keep every version of every block that was ever submitted
	Garbage bool                // a power cut may also leave sectors that were never written
	Fault   func(Request) Fault // see SetFault
}

// Device is a disk in memory. It outlives what it models: after PowerCut, Kill or Close the same Device is used again.
type Device struct {
	mu       sync.Mutex
	opts     Options
	rng      *rand.Rand
	blocks   []block
	dirty    []device.LBA // blocks that may have cached versions, each once, in the order in which they became dirty
	seq      uint64       // of the newest write that landed
	life     int          // raised by whatever ends all queues
	closed   bool
	queues   []*Queue // open ones of this life
	room     device.BlockCount
	growing  int // calls of Reserve that still answer "not yet"
	fault    func(Request) Fault
	counters Counters
}

var _ device.Device = (*Device)(nil)

// New makes a device. It panics if Options make no sense.
func New(o Options) *Device {
	if o.BlocksMax == 0 {
		o.BlocksMax = o.Blocks
	}
	if o.TransferBlocks == 0 {
		o.TransferBlocks = transferBlocksDefault
	}
	if o.BlocksMax < o.Blocks {
		panic(fmt.Sprintf("internal error: memdev of %d blocks, at most %d", o.Blocks, o.BlocksMax))
	}
	return &Device{
		opts:   o,
		rng:    rand.New(rand.NewPCG(o.Seed, 0x6d656d646576)),
		blocks: make([]block, o.Blocks),
		room:   o.BlocksMax,
		fault:  o.Fault,
	}
}

// Info implements device.Device.
func (d *Device) Info() device.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	return device.Info{
		Name:           "memory",
		Blocks:         device.BlockCount(len(d.blocks)),
		BlocksMax:      d.opts.BlocksMax,
		TransferBlocks: d.opts.TransferBlocks,
		Exclusive:      true,
	}
}

// Alloc implements device.Device.
func (d *Device) Alloc(n device.BlockCount) ([]byte, error) {
	if n == 0 {
		return nil, errors.New("memdev: buffer of no blocks")
	}
	return alignedBuffer(n.Bytes()), nil
}

// Free implements device.Device. A manual device overwrites the buffer, so that whoever still uses it notices.
func (d *Device) Free(buf []byte) {
	if !d.opts.Manual {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		for i := range q.pending {
			if overlap(buf, q.pending[i].req.Buf) {
				panic("internal error: buffer freed while the device owns it")
			}
		}
	}
	fill(buf, poisonFreed)
}

// Reserve implements device.Device. Blocks that it adds are zero and durable. A manual device answers "not yet" up to three
// times for each growth; SetRoom makes the disk full.
func (d *Device) Reserve(n device.BlockCount) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	have := device.BlockCount(len(d.blocks))
	switch {
	case d.closed:
		return false, fmt.Errorf("memdev: reserve: %w", ErrGone)
	case n <= have:
		return true, nil
	case n > d.opts.BlocksMax || n > d.room:
		return false, fmt.Errorf("memdev: reserve %d blocks of %d: %w", n, min(d.opts.BlocksMax, d.room), device.ErrFull)
	}
	if d.opts.Manual {
		if d.growing == 0 {
			d.growing = 1 + d.rng.IntN(4)
		}
		if d.growing--; d.growing > 0 {
			return false, nil
		}
	}
	d.blocks = append(d.blocks, make([]block, n-have)...)
	return true, nil
}

// SetRoom bounds what Reserve can reach from now on, below BlocksMax: a disk that somebody else filled.
func (d *Device) SetRoom(n device.BlockCount) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = n
}

// Close implements device.Device. It is an error while queues are open. What is stored stays, see Reopen.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.queues); n > 0 {
		return fmt.Errorf("memdev: close: %d queues are open", n)
	}
	d.closed = true
	return nil
}

// Reopen makes a closed device usable again, as opening a file again would. It panics if the device is open.
func (d *Device) Reopen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		panic("internal error: memdev reopened while it is open")
	}
	d.closed = false
}

// endLifeLocked ends all queues: what comes next opens the device again.
func (d *Device) endLifeLocked() {
	for _, q := range d.queues {
		q.pending = nil
	}
	d.queues = nil
	d.life++
	d.closed = false
	d.growing = 0
}
