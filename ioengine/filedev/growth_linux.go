package filedev

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/device"
)

// Space is laid out ahead of use: allocated, written with zeros, and synced. A write into blocks that are only allocated
// would have the file system mark them as written, and a durable one would wait for its journal: that takes twice the time
// (16 KiB on ext4: 162 µs against 77 µs, medians of one run).

// growBlocksDefault is the growth step unless Options say otherwise: 64 MiB.
const growBlocksDefault device.BlockCount = 16384

// zeroChunk is what one write of zeros covers, in bytes.
const zeroChunk = 1 << 20

// zeroPause is how long laying out rests after each write of zeros, in multiples of the time that the write took. So it
// takes at most a quarter of the device from the commits that run meanwhile; unless somebody waits for the space.
const zeroPause = 3

// zeroPauseMax bounds one rest.
const zeroPauseMax = 100 * time.Millisecond

// holeStepsMax bounds the holes that Open fills with zeros, in growth steps. A crash in
// the middle of laying out leaves at most one step of them; a file copied with holes may have more, whose first writes are
// slower.
const holeStepsMax = 4

// growth is the size of a file, and the goroutine that raises it.
type growth struct {
	stop    chan struct{} // closed by end
	running sync.WaitGroup

	mu     sync.Mutex
	blocks device.BlockCount // laid out: what can be read and written
	target device.BlockCount // what the goroutine works towards; 0: it does not run
	wanted device.BlockCount // the most that a call of Reserve was told to wait for
	err    error             // why it gave up; returned once by Reserve
	ended  bool
}

// size returns how many blocks are usable.
func (g *growth) size() device.BlockCount {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blocks
}

// Reserve implements device.Device. One goroutine lays out the space, in whole steps of Options.GrowBlocks, and one step more
// than was asked for, so that a writer who asks just before it needs the space seldom waits. After ErrFull the file is as
// usable as before, and a later call tries again.
func (d *Device) Reserve(n device.BlockCount) (bool, error) {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if n <= g.blocks {
		if n+d.step() > g.blocks && g.err == nil && !g.ended {
			d.growTo(d.roundUp(n + d.step()))
		}
		return true, nil
	}
	if n > d.info.BlocksMax {
		return false, fmt.Errorf("reserve %d blocks of %s, which is limited to %d: %w", n, d.info.Name, d.info.BlocksMax, device.ErrFull)
	}
	if err := g.err; err != nil {
		g.err = nil
		return false, fmt.Errorf("reserve %d blocks of %s: %w", n, d.info.Name, err)
	}
	if g.ended {
		return false, fmt.Errorf("reserve in %s: device is closed", d.info.Name)
	}
	g.wanted = max(g.wanted, n)
	d.growTo(d.roundUp(n))
	return false, nil
}

// growTo starts the goroutine, or gives it more to do.
func (d *Device) growTo(target device.BlockCount) {
	g := &d.growth
	started := g.target > 0
	g.target = max(g.target, target)
	if !started && g.target > g.blocks {
		g.running.Go(d.grow)
	} else if !started {
		g.target = 0 // at the limit
	}
}

func (d *Device) step() device.BlockCount {
	if d.opts.GrowBlocks > 0 {
		return d.opts.GrowBlocks
	}
	return growBlocksDefault
}

// roundUp rounds a size up to whole growth steps, within the limit.
func (d *Device) roundUp(n device.BlockCount) device.BlockCount {
	step := d.step()
	return min((n+step-1)/step*step, d.info.BlocksMax)
}

// grow lays out steps until the target, which may move, is reached.
func (d *Device) grow() {
	g := &d.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.blocks < g.target && g.err == nil && !g.ended {
		from := g.blocks
		to := min(from+d.step(), g.target)
		g.mu.Unlock()
		err := d.layOut(from, to)
		g.mu.Lock()
		if err == nil {
			g.blocks = to
		} else if !errors.Is(err, errStopped) {
			g.err = err
			// Gives back what part of the step there was room for. That it fails too adds nothing to the error.
			_ = unix.Ftruncate(d.fd, int64(from.Bytes()))
		}
	}
	g.target = 0
}

// awaited reports whether somebody was told to wait for space that is not there yet.
func (g *growth) awaited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wanted > g.blocks
}

// end stops the goroutine, and says whether it did in time.
func (g *growth) end(timeout time.Duration) bool {
	g.mu.Lock()
	if !g.ended {
		g.ended = true
		close(g.stop)
	}
	g.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		g.running.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
		return true
	case <-time.After(timeout):
		return false
	}
}

var errStopped = errors.New("stopped")

// layOut makes blocks from up to to, of which nobody uses any yet, and makes them durable with the size of the file.
func (d *Device) layOut(from, to device.BlockCount) error {
	allocated, err := d.allocate(int64(from.Bytes()), int64(to.Bytes()))
	if err != nil {
		return err
	}
	if d.opts.Bulk && allocated {
		return nil // the next flush makes the size durable
	}
	if err := d.zero(int64(from.Bytes()), int64(to.Bytes())); err != nil {
		return err
	}
	if err := unix.Fdatasync(d.fd); err != nil {
		return fmt.Errorf("sync the space laid out: %w", err)
	}
	return nil
}

// allocate reserves space for the bytes from from to to, and raises the size of the file to to. done is false where the file system
// cannot, and writing zeros has to.
func (d *Device) allocate(from, to int64) (done bool, err error) {
	_, err = retry(func() (int, error) { return 0, unix.Fallocate(d.fd, 0, from, to-from) })
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, nil
	case isFull(err):
		return false, fmt.Errorf("allocate %d bytes: %w: %w", to-from, device.ErrFull, err)
	}
	return false, fmt.Errorf("allocate %d bytes: %w", to-from, err)
}

// zero writes zeros from from to to, with rests for the device.
func (d *Device) zero(from, to int64) error {
	zeros, err := unix.Mmap(-1, 0, zeroChunk, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("map zeros: %w", err)
	}
	defer func() { _ = unix.Munmap(zeros) }()
	for at := from; at < to; {
		start := time.Now()
		n, err := retry(func() (int, error) { return unix.Pwrite(d.fd, zeros[:min(zeroChunk, to-at)], at) })
		switch {
		case isFull(err):
			return fmt.Errorf("write zeros at %d: %w: %w", at, device.ErrFull, err)
		case err != nil:
			return fmt.Errorf("write zeros at %d: %w", at, err)
		case n <= 0 || n%device.BlockSize != 0:
			return fmt.Errorf("write zeros at %d: %w", at, io.ErrShortWrite)
		}
		at += int64(n)
		pause := min(zeroPause*time.Since(start), zeroPauseMax)
		if d.queues.Load() == 0 || d.growth.awaited() {
			pause = 0 // nobody to disturb, or who is disturbed waits for this
		}
		select {
		case <-d.growth.stop:
			return errStopped
		case <-time.After(pause):
		}
	}
	return nil
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// fillHoles lays out what a crash or a sparse copy left as holes inside the file. It runs in Open, when nobody else can write:
// it changes no content.
func (d *Device) fillHoles() error {
	end := int64(d.growth.blocks.Bytes())
	budget := int64((holeStepsMax * d.step()).Bytes())
	filled := false
	for at := int64(0); at < end; {
		hole, err := unix.Seek(d.fd, at, unix.SEEK_HOLE)
		if err != nil || hole >= end {
			break // a file system without SEEK_HOLE: at worst some writes are slower
		}
		data, err := unix.Seek(d.fd, hole, unix.SEEK_DATA)
		if err != nil || data > end {
			data = end // ENXIO: none after the hole
		}
		hole, data = hole/device.BlockSize*device.BlockSize, data/device.BlockSize*device.BlockSize
		if _, err := d.allocate(hole, data); err != nil {
			return err
		}
		to := min(data, hole+budget)
		if err := d.zero(hole, to); err != nil {
			return err
		}
		filled = filled || to > hole
		if budget -= to - hole; to < data {
			d.warn("%q has holes (was it copied?): writes there are slower until they are filled", d.path)
			break
		}
		at = data
	}
	if !filled {
		return nil
	}
	if err := unix.Fdatasync(d.fd); err != nil {
		return fmt.Errorf("sync the holes filled: %w", err)
	}
	return nil
}
