package nvme

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/ioengine/device"
)

// Options say how to open a device. Zero values take the defaults.
type Options struct {
	Namespace    uint32        // 0: the only one; an error if there are several
	Queues       int           // queue pairs to ask for, default 16; what the controller grants may be fewer
	Depth        int           // commands at once in the pair that is shared when the controller grants too few, default 512
	Timeout      time.Duration // of an I/O command, until it is aborted; default 30 s
	AdminTimeout time.Duration // of an admin command; default 10 s
	ReadyTimeout time.Duration // above what the controller claims to need; default and most: 30 s
	Clock        Clock         // default: the machine's
	Log          func(msg string)
}

func (o *Options) defaults() {
	if o.Queues == 0 {
		o.Queues = 16
	}
	if o.Depth == 0 {
		o.Depth = 512
	}
	o.Depth = min(max(o.Depth, 1), depthMax)
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.AdminTimeout == 0 {
		o.AdminTimeout = 10 * time.Second
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = readyTimeoutMax
	}
	if o.Clock == nil {
		o.Clock = machineClock{time.Now()}
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
}

// Device is one namespace of a controller that is ours alone.
type Device struct {
	opts     Options
	bar      Bar
	dma      DMA
	identity Identity
	geometry Geometry
	granted  int
	memory   *buffers

	// life is raised when the controller is reset or given up. A queue compares it with its own before it does anything.
	life          atomic.Uint32
	writesStopped atomic.Bool
	stuck         atomic.Bool // the controller did not stop: what it knows of stays allocated for ever

	mu     sync.Mutex // below it: everything that is not the data path
	ctrl   *controller
	dead   error
	resets int
	pairs  []*hardware // by queue identifier - 1; nil: free
	queues int         // open ones
	closed bool
}

var _ device.Device = (*Device)(nil)

// Open resets the controller behind bar, makes it ready, and takes one namespace. It writes no block. The device has both
// seams for itself until Close.
func Open(bar Bar, dma DMA, o Options) (*Device, error) {
	o.defaults()
	d := &Device{opts: o, bar: bar, dma: dma, memory: newBuffers(dma)}
	var err error
	if d.ctrl, err = newController(bar, dma, &d.opts); err != nil {
		return nil, fmt.Errorf("nvme: %w", err)
	}
	if err := d.begin(); err != nil {
		if stopped := d.stopLocked(); stopped == nil {
			d.ctrl.freeMemory()
		}
		return nil, fmt.Errorf("nvme: %w", err)
	}
	d.pairs = make([]*hardware, d.granted)
	return d, nil
}

// begin brings the controller up and learns what it is.
func (d *Device) begin() error {
	if err := d.ctrl.disable(); err != nil {
		return err
	}
	id, geometry, granted, err := d.bringUp()
	if err != nil {
		return err
	}
	d.identity, d.geometry, d.granted = id, geometry, granted
	return nil
}

// bringUp makes a disabled controller ready and asks what it is.
func (d *Device) bringUp() (id Identity, g Geometry, granted int, err error) {
	if err = d.ctrl.start(); err != nil {
		return
	}
	if id, err = d.ctrl.identity(); err != nil {
		return
	}
	if g, err = d.ctrl.geometry(id, d.opts.Namespace); err != nil {
		return
	}
	granted, err = d.ctrl.grant(d.opts.Queues)
	return
}

// Info implements device.Device. A namespace has a fixed size, and with VFIO nobody else in this machine can write it.
func (d *Device) Info() device.Info {
	return device.Info{
		Name:           fmt.Sprintf("nvme %q, namespace %d", d.identity.Model, d.geometry.Namespace),
		Blocks:         d.geometry.Blocks,
		BlocksMax:      d.geometry.Blocks,
		TransferBlocks: d.identity.TransferBlocks,
		Exclusive:      true,
	}
}

// Identity returns what the controller says of itself.
func (d *Device) Identity() Identity { return d.identity }

// Geometry returns the shape of the namespace.
func (d *Device) Geometry() Geometry { return d.geometry }

// Pairs returns how many queue pairs the controller granted.
func (d *Device) Pairs() int { return d.granted }

// MemoryKind says what memory is shared with the controller.
func (d *Device) MemoryKind() string { return d.dma.Kind() }

// Alloc implements device.Device.
func (d *Device) Alloc(n device.BlockCount) ([]byte, error) { return d.memory.alloc(n) }

// Free implements device.Device. While the controller may still write to it (it did not stop when it was told to), a buffer
// stays allocated for ever (row 18).
func (d *Device) Free(buf []byte) {
	if d.stuck.Load() {
		return
	}
	d.memory.release(buf)
}

// Reserve implements device.Device.
func (d *Device) Reserve(n device.BlockCount) (bool, error) {
	if n > d.geometry.Blocks {
		return false, fmt.Errorf("nvme: reserve %d blocks of %d: %w", n, d.geometry.Blocks, device.ErrFull)
	}
	return true, nil
}

var errStuck = errors.New("the controller did not stop: the memory that it knows of stays allocated")

// Busy reports whether queues are open.
func (d *Device) Busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queues > 0
}

// Close implements device.Device: the controller is told to write its cache and stops.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	if d.queues > 0 {
		return fmt.Errorf("nvme: close: %d queues are open", d.queues)
	}
	d.closed = true
	var err error
	if d.dead == nil {
		if err = d.ctrl.shutdown(); err != nil {
			err = errors.Join(err, d.stopLocked())
		}
		d.dead = errClosed
	}
	if d.stuck.Load() {
		return fmt.Errorf("nvme: close: %w", errors.Join(errStuck, err))
	}
	for _, h := range d.pairs {
		if h != nil {
			h.freeMemory(d.dma)
		}
	}
	d.ctrl.freeMemory()
	d.memory.freeAll()
	if err != nil {
		return fmt.Errorf("nvme: close: %w", err)
	}
	return nil
}
