package filedev

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/device"
)

// closeTimeout bounds how long Close waits for the kernel.
const closeTimeout = 30 * time.Second

// Device is an open, locked file or block device.
type Device struct {
	opts        Options
	path        string
	fd          int
	exclusiveFd int // block devices; 0: none
	direct      bool
	fixed       bool        // a block device: no growth
	info        device.Info // but for Blocks
	queues      atomic.Int32
	stuck       atomic.Bool // a queue closed with requests in flight: their buffers must stay mapped forever
	growth      growth
	regions     regions
}

var _ device.Device = (*Device)(nil)

// Info implements device.Device.
func (d *Device) Info() device.Info {
	info := d.info
	info.TransferBlocks = TransferBlocks
	info.Blocks = d.growth.size()
	return info
}

func (d *Device) warn(format string, args ...any) {
	if d.opts.Warn != nil {
		d.opts.Warn(fmt.Sprintf(format, args...))
	}
}

// Alloc implements device.Device. The memory is mapped, so the garbage collector neither moves nor frees it. Each call maps
// anew: callers keep their buffers.
func (d *Device) Alloc(n device.BlockCount) ([]byte, error) {
	if n == 0 || n > 1<<30 {
		return nil, fmt.Errorf("buffer of %d blocks", n)
	}
	if n >= regionBlocks {
		return d.allocRegion(n)
	}
	buf, err := unix.Mmap(-1, 0, n.Bytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map a buffer of %d blocks: %w", n, err)
	}
	return buf, nil
}

// Free implements device.Device. After a queue could not be closed it leaks the buffer on purpose: the kernel may still
// write into it.
func (d *Device) Free(buf []byte) {
	if d.stuck.Load() {
		return
	}
	if len(buf) >= regionBlocks.Bytes() {
		d.freeRegion(buf)
		return
	}
	if err := unix.Munmap(buf); err != nil {
		panic("internal error: Free of a buffer that is not of Alloc")
	}
}

// Close implements device.Device. It gives up the lock.
func (d *Device) Close() error {
	if n := d.queues.Load(); n > 0 {
		return fmt.Errorf("close %s: %d queues are open", d.info.Name, n)
	}
	if !d.growth.end(closeTimeout) {
		return fmt.Errorf("close %s: laying out space takes longer than %v", d.info.Name, closeTimeout)
	}
	var err error
	if d.exclusiveFd > 0 {
		err = unix.Close(d.exclusiveFd)
	}
	if err = errors.Join(err, unix.Close(d.fd)); err != nil {
		return fmt.Errorf("close %s: %w", d.info.Name, err)
	}
	return nil
}
