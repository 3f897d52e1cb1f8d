// Package overlay is a device.Device that reads another one and keeps what is written to it in memory: a volume can be opened, which
// writes a little, without a byte of it being changed. It is for reading sealed volumes; whoever writes much
// is refused.
//
// Every request goes through a queue of the device below, so that its descriptor tells of all completions: what needs nothing from there
// reads one block, of which nothing is used.
package overlay

import (
	"fmt"
	"sync"
	"time"

	"cvmstore/ioengine/device"
)

// Device implements device.Device.
type Device struct {
	below device.Device
	base  device.BlockCount // blocks that are below; what is above reads as zeros until it is written
	max   device.BlockCount

	mu      sync.Mutex
	blocks  map[device.LBA]*[device.BlockSize]byte
	scratch []byte
}

const (
	// blocksHeld bounds what is kept in memory: 256 MiB.
	blocksHeld = 1 << 16
	// blocksMax is what any volume may say that it can grow to.
	blocksMax = 1 << 32
)

// New lays itself over a device, which it closes in the end.
func New(below device.Device) (*Device, error) {
	info := below.Info()
	if info.Blocks == 0 {
		return nil, fmt.Errorf("an empty device: %w", device.ErrBounds)
	}
	scratch, err := below.Alloc(1)
	if err != nil {
		return nil, err
	}
	return &Device{
		below: below, base: info.Blocks, max: max(info.BlocksMax, blocksMax), blocks: map[device.LBA]*[device.BlockSize]byte{}, scratch: scratch,
	}, nil
}

// Info implements device.Device.
func (d *Device) Info() device.Info {
	info := d.below.Info()
	info.Name += ", read only"
	info.Blocks, info.BlocksMax, info.Exclusive = d.max, d.max, true
	return info
}

// Alloc implements device.Device.
func (d *Device) Alloc(n device.BlockCount) ([]byte, error) { return d.below.Alloc(n) }

// Free implements device.Device.
func (d *Device) Free(buf []byte) { d.below.Free(buf) }

// Reserve implements device.Device: there is nothing to lay out.
func (d *Device) Reserve(n device.BlockCount) (bool, error) {
	if n > d.max {
		return false, fmt.Errorf("block %d of a volume that is read only: %w", n, device.ErrFull)
	}
	return true, nil
}

// Close implements device.Device.
func (d *Device) Close() error {
	d.below.Free(d.scratch)
	return d.below.Close()
}

// NewQueue implements device.Device.
func (d *Device) NewQueue(depth int) (device.Queue, error) {
	below, err := d.below.NewQueue(depth)
	if err != nil {
		return nil, err
	}
	return &queue{d: d, below: below, out: map[uint64]device.Request{}}, nil
}

// write keeps blocks in memory.
func (d *Device) write(r *device.Request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; i < len(r.Buf); i += device.BlockSize {
		lba := r.LBA + device.LBA(i/device.BlockSize)
		b := d.blocks[lba]
		if b == nil {
			if len(d.blocks) >= blocksHeld {
				return fmt.Errorf("too much was written to a volume that is read only: %w", device.ErrFull)
			}
			b = new([device.BlockSize]byte)
			d.blocks[lba] = b
		}
		copy(b[:], r.Buf[i:])
	}
	return nil
}

// patch puts what was written over what was read.
func (d *Device) patch(r *device.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; i < len(r.Buf); i += device.BlockSize {
		lba := r.LBA + device.LBA(i/device.BlockSize)
		if b := d.blocks[lba]; b != nil {
			copy(r.Buf[i:], b[:])
		} else if device.BlockCount(lba) >= d.base {
			clear(r.Buf[i : i+device.BlockSize])
		}
	}
}

// queue gives each request a token of its own, since the submitters' need not be unique.
type queue struct {
	d     *Device
	below device.Queue
	next  uint64
	out   map[uint64]device.Request
}

// Submit implements device.Queue.
func (q *queue) Submit(reqs []device.Request) (int, error) {
	for i := range reqs {
		r := reqs[i]
		if r.Op != device.OpFlush && r.Op != device.OpTrim && device.BlockCount(r.LBA)+device.BlocksFor(len(r.Buf)) > q.d.max {
			return i, fmt.Errorf("block %d: %w", r.LBA, device.ErrBounds)
		}
		below := device.Request{Op: device.OpRead, LBA: 0, Buf: q.d.scratch, Token: q.next}
		switch {
		case r.Op == device.OpWrite:
			if err := q.d.write(&r); err != nil {
				return i, err
			}
		case r.Op == device.OpRead && device.BlockCount(r.LBA) < q.d.base:
			below.LBA = r.LBA
			below.Buf = r.Buf[:min(len(r.Buf), (q.d.base-device.BlockCount(r.LBA)).Bytes())]
		}
		n, err := q.below.Submit([]device.Request{below})
		if n == 0 || err != nil {
			return i, err
		}
		q.out[q.next] = r
		q.next++
	}
	return len(reqs), nil
}

// Poll implements device.Queue.
func (q *queue) Poll(out []device.Completion) (int, error) {
	n, err := q.below.Poll(out)
	q.finish(out[:n])
	return n, err
}

// Wait implements device.Queue.
func (q *queue) Wait(out []device.Completion, timeout time.Duration) (int, error) {
	n, err := q.below.Wait(out, timeout)
	q.finish(out[:n])
	return n, err
}

func (q *queue) finish(done []device.Completion) {
	for i := range done {
		c := &done[i]
		r := q.out[c.Token]
		delete(q.out, c.Token)
		c.Token = r.Token
		switch {
		case r.Op != device.OpRead:
			c.Err = nil
		case c.Err == nil:
			q.d.patch(&r)
		}
	}
}

// Fd implements device.Queue.
func (q *queue) Fd() int { return q.below.Fd() }

// Outstanding implements device.Queue.
func (q *queue) Outstanding() int { return q.below.Outstanding() }

// Close implements device.Queue.
func (q *queue) Close() error { return q.below.Close() }
