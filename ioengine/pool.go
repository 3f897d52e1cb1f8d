package ioengine

import (
	"errors"
	"fmt"
	"sync"

	"cvmstore/ioengine/device"
)

// guarantee is how many buffers an engine can always have, whatever the others hold. So each engine is woken by its own
// completions, and none waits for another.
const guarantee = 2

// PoolOptions describe a Pool.
type PoolOptions struct {
	Buffers int // how many; 0: 128
	Chunk   int // bytes of each: the largest chunk that can be written and read; 0: ChunkDefault
}

// Pool is a fixed number of DMA buffers of one size, made at once in one piece. When it is empty its users wait; nothing
// allocates more. Its methods may be called from any goroutine.
type Pool struct {
	dev   device.Device
	arena []byte
	size  int

	mu      sync.Mutex
	free    [][]byte
	total   int
	engines []*Engine
	lost    int // never to be used again: the device may still write there
}

// NewPool makes a pool. Make it before the engines that use it: a device prepares what is there when a queue is made.
func NewPool(dev device.Device, o PoolOptions) (*Pool, error) {
	if o.Buffers == 0 {
		o.Buffers = 128
	}
	if o.Chunk == 0 {
		o.Chunk = ChunkDefault
	}
	if err := CheckChunk(o.Chunk); err != nil {
		return nil, err
	}
	if o.Buffers < guarantee || o.Buffers > 1<<16 {
		return nil, fmt.Errorf("a pool of %d buffers", o.Buffers)
	}
	arena, err := dev.Alloc(device.BlockCount(o.Buffers) * device.BlocksFor(o.Chunk))
	if err != nil {
		return nil, fmt.Errorf("pool of %d buffers of %d bytes: %w", o.Buffers, o.Chunk, err)
	}
	p := &Pool{dev: dev, arena: arena, size: o.Chunk, total: o.Buffers}
	// The one that was given back last, and may still be in the processor's cache, is used first.
	for i := o.Buffers - 1; i >= 0; i-- {
		p.free = append(p.free, arena[i*o.Chunk:(i+1)*o.Chunk:(i+1)*o.Chunk])
	}
	return p, nil
}

// Chunk returns the size of the buffers in bytes.
func (p *Pool) Chunk() int { return p.size }

// join adds an engine, if its guarantee can be kept.
func (p *Pool) join(e *Engine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (len(p.engines)+1)*guarantee > p.total-p.lost {
		return fmt.Errorf("%d engines share a pool of %d buffers", len(p.engines)+1, p.total-p.lost)
	}
	p.engines = append(p.engines, e)
	return nil
}

// leave removes an engine; lost are the buffers that it could not get back from the device.
func (p *Pool) leave(e *Engine, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.engines {
		if o == e {
			p.engines = append(p.engines[:i], p.engines[i+1:]...)
			p.lost += lost
			return
		}
	}
}

// get takes a buffer for e, nil if there is none for it now.
func (p *Pool) get(e *Engine) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	promised := 0
	if e.held >= guarantee {
		for _, o := range p.engines {
			promised += max(0, guarantee-o.held)
		}
	}
	n := len(p.free)
	if n <= promised {
		return nil
	}
	buf := p.free[n-1]
	p.free = p.free[:n-1]
	e.held++
	return buf
}

// put takes back a buffer of e that the device is done with.
func (p *Pool) put(e *Engine, buf []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, buf)
	e.held--
}

// Free returns how many buffers nobody holds.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}

// Close frees the memory. All engines are closed before. If the device never gave back a buffer, the memory stays mapped for
// ever, and the error says so.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.arena == nil:
		return nil
	case len(p.engines) > 0:
		return fmt.Errorf("close pool: %d engines are open", len(p.engines))
	case len(p.free) < p.total:
		return errors.New("close pool: the device still holds buffers; their memory is given up")
	}
	p.dev.Free(p.arena)
	p.arena, p.free = nil, nil
	return nil
}
