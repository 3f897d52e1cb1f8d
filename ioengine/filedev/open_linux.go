package filedev

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/device"
)

// Open opens the file or block device at path and takes its lock, which ends with Close or with the process. Errors:
// ErrLocked if another process (or this one) has it open, ErrFull if there is no room for Options.Initial, fs.ErrNotExist.
func Open(path string, o Options) (device.Device, error) {
	d, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("open volume file %q: %w", path, err)
	}
	return d, nil
}

func open(path string, o Options) (_ *Device, err error) {
	d := &Device{opts: o, path: path, growth: growth{stop: make(chan struct{})}}
	var isNew bool
	if d.fd, isNew, err = openFile(path, o.Create); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(d.fd)
		}
	}()
	if err = unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, device.ErrLocked
	} else if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(d.fd, &st); err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		err = d.openRegular(st.Size, isNew)
	case unix.S_IFBLK:
		err = d.openBlockDevice()
	default:
		err = errors.New("neither a regular file nor a block device")
	}
	if err != nil {
		return nil, err
	}
	// A ring that cannot be made is better found now than at the first commit.
	r, err := newRing(1)
	if err != nil {
		return nil, err
	}
	return d, r.close()
}

// openFile opens the file, and says whether it made it.
func openFile(path string, create bool) (fd int, isNew bool, err error) {
	const flags = unix.O_RDWR | unix.O_CLOEXEC
	fd, err = retry(func() (int, error) { return unix.Open(path, flags, 0) })
	if err == unix.ENOENT && create {
		isNew = true
		fd, err = retry(func() (int, error) { return unix.Open(path, flags|unix.O_CREAT, 0o600) })
	}
	return fd, isNew, err
}

// openRegular makes a file usable: unbuffered, as long as it should be, no holes.
func (d *Device) openRegular(size int64, isNew bool) error {
	d.info.Exclusive = true
	d.setDirect()
	d.growth.blocks = device.BlockCount(size / device.BlockSize)
	if err := d.fillHoles(); err != nil {
		return err
	}
	if d.growth.blocks < d.opts.Initial {
		if err := d.layOut(d.growth.blocks, d.opts.Initial); err != nil {
			return err
		}
		d.growth.blocks = d.opts.Initial
	}
	d.info.BlocksMax = max(d.opts.BlocksMax, d.growth.blocks)
	if isNew {
		return syncDirectory(d.path)
	}
	return nil
}

// openBlockDevice takes a whole block device, whose size is what it is.
func (d *Device) openBlockDevice() error {
	// O_EXCL without O_CREAT keeps mounts and other exclusive users away; a plain open by root still works.
	fd, err := retry(func() (int, error) { return unix.Open(d.path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_EXCL, 0) })
	if errors.Is(err, unix.EBUSY) {
		return device.ErrLocked
	} else if err != nil {
		return fmt.Errorf("open exclusively: %w", err)
	}
	d.exclusiveFd = fd
	d.fixed = true
	d.setDirect()
	size, err := unix.IoctlGetInt(d.fd, unix.BLKGETSIZE64)
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("size of the block device: %w", err)
	}
	d.growth.blocks = device.BlockCount(size / device.BlockSize)
	d.info.BlocksMax = d.growth.blocks
	return nil
}

// setDirect turns O_DIRECT on, if the file system has it for our blocks.
func (d *Device) setDirect() {
	flags, err := unix.FcntlInt(uintptr(d.fd), unix.F_GETFL, 0)
	if err == nil && directWorks(d.fd) {
		_, err = unix.FcntlInt(uintptr(d.fd), unix.F_SETFL, flags|unix.O_DIRECT)
		d.direct = err == nil
	}
	how := "O_DIRECT"
	if !d.direct {
		how = "buffered"
		d.warn("no O_DIRECT for %q: reads and writes go through the page cache, which is slower", d.path)
	}
	d.info.Name = fmt.Sprintf("%q (%s)", d.path, how)
}

// directWorks asks the file system. One that does not answer is taken at its word when O_DIRECT is set.
func directWorks(fd int) bool {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return true
	}
	return st.Dio_offset_align > 0 && st.Dio_offset_align <= device.BlockSize && st.Dio_mem_align <= device.BlockSize
}

// syncDirectory makes the name of a new file durable.
func syncDirectory(path string) error {
	fd, err := retry(func() (int, error) {
		return unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return fmt.Errorf("open its directory: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Fsync(fd); err != nil {
		return fmt.Errorf("sync its directory: %w", err)
	}
	return nil
}

// retryMax bounds system calls that are interrupted. The Go runtime's signals do that, many times in a row never.
const retryMax = 1000

// retry repeats a call while it is interrupted.
func retry[T any](call func() (T, error)) (T, error) {
	for tries := 1; ; tries++ {
		v, err := call()
		if err != unix.EINTR || tries == retryMax {
			return v, err
		}
	}
}
