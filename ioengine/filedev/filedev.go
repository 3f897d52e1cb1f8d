// Package filedev is a device.Device on a regular file or a block device: O_DIRECT through io_uring, by raw system calls.
//
// In come requests for whole blocks in buffers of Alloc; each queue is one io_uring, and its descriptor can stand in the
// same epoll as the sockets of an event loop. What is written here is sealed already: this package knows no keys and no
// formats, and may look into no buffer. On systems other than Linux, Open says "unsupported".
//
// Durable: a Through write is RWF_DSYNC, a flush is fdatasync. Both end with a flush command to the disk if the kernel knows
// of a volatile cache. RWF_DSYNC won against a write with a linked fdatasync (1.3 times the time on an idle machine, one or
// four at once) and against waiting for the write before the fdatasync (1.3 times, one at once).
//
// Threads: the kernel finishes a request in the thread that submitted it. That thread is interrupted for it, unless it
// sits in a system call that cannot be interrupted (a synchronous write to a disk, say): then the completion waits for it.
// A goroutine that moved to another thread meanwhile would notice as latency, so a loop that cares locks itself to its
// thread. A thread that ends cancels what it submitted.
package filedev

import (
	"errors"

	"cvmstore/ioengine/device"
)

// TransferBlocks is the largest single read or write: 4 MiB.
const TransferBlocks device.BlockCount = 1024

// ErrUnsupported is returned, wrapped, by Open on systems without io_uring.
var ErrUnsupported = errors.New("unsupported: a volume in a file needs io_uring of Linux 5.11 or later, and permission to " +
	"use it (sysctl kernel.io_uring_disabled, a container's seccomp profile)")

// Options describe how to open a volume's file or block device. A block device takes only Warn from them.
type Options struct {
	Create    bool              // make the file if it is missing
	Initial   device.BlockCount // a shorter file is made this long, laid out, before Open returns
	BlocksMax device.BlockCount // what Reserve may reach; 0: the size at Open
	// GrowBlocks is the step in which Reserve lays out space; 0: 64 MiB. A step changes the file's size once and takes a
	// quarter of a second or so; one in a hundred of the commits meanwhile takes about a millisecond longer.
	GrowBlocks device.BlockCount
	// Bulk lays out space by allocating it alone, where the file system can: the first write of a block then costs a change of metadata,
	// but nothing is written twice. For whoever writes much and waits for no single write.
	Bulk bool
	Warn func(msg string) // told what is slower or weaker than it should be; nil: nobody
}
