// Package device declares the block device that the sealed I/O path drives, and its value types. It is a leaf: it imports
// nothing of ours. ioengine/filedev (files, io_uring), ioengine/memdev (memory, faults) and nvme (VFIO) implement it.
//
// Nobody trusts what a Device returns: data is hostile until its tag was verified, and a completion says only what the
// device claims. What a Device must keep true is its own bookkeeping: each accepted request completes exactly once, with
// the token of its submitter, and a buffer is touched only between its submission and its completion.
package device

import (
	"errors"
	"time"
)

// BlockSize is the unit of all I/O, in bytes (DESIGN.md section 3).
const BlockSize = 4096

// LBA is the number of a block, counted in BlockSize units from the start of the device.
type LBA uint64

// BlockCount is a number of blocks.
type BlockCount uint64

// Bytes returns the size of n blocks in bytes.
func (n BlockCount) Bytes() int { return int(n) * BlockSize }

// BlocksFor returns how many blocks n bytes take, rounded up.
func BlocksFor(n int) BlockCount { return BlockCount((n + BlockSize - 1) / BlockSize) }

// Op says what a Request asks for.
type Op uint8

// The operations of a device.
const (
	OpRead  Op = iota + 1 // fill Buf from LBA
	OpWrite               // write Buf at LBA; durable only after a later flush, or at completion when Through is set
	OpFlush               // make every write that completed before this request was submitted, on any queue, durable
	OpTrim                // Count blocks from LBA are no longer needed; what they read as afterwards is undefined
)

// Request is one asynchronous operation. Buf comes from Device.Alloc of the same device, holds whole blocks, and belongs to
// the device from Submit until the completion with the same Token is returned.
type Request struct {
	Op      Op
	Through bool // OpWrite: completion means durable (FUA, RWF_DSYNC, or a write and a flush)
	LBA     LBA
	Count   BlockCount // OpTrim only; reads and writes take their length from Buf
	Buf     []byte
	Token   uint64 // the submitter's own; need not be unique
}

// Completion is the device's answer to one Request. A nil Err on a read says nothing about the data.
type Completion struct {
	Token uint64
	Err   error
}

// Queue is a submission and completion queue. One goroutine at a time uses it (the caller serialises); several queues of one
// device may be used at the same time.
type Queue interface {
	// Submit hands over requests without waiting for them, in no promised order. It accepts a prefix of reqs and returns
	// its length; fewer than all means that the queue is full: reap completions and submit the rest. An error means that
	// the queue is broken for good, and that nothing of reqs[n:] was accepted.
	Submit(reqs []Request) (n int, err error)
	// Poll moves completions that are there into out without waiting, and returns how many.
	Poll(out []Completion) (n int, err error)
	// Wait is Poll, but waits for at least one completion for at most timeout. It returns 0, nil after the timeout, and
	// at once if nothing is outstanding.
	Wait(out []Completion, timeout time.Duration) (n int, err error)
	// Fd returns a descriptor that epoll reports readable while completions are there to be polled, or -1 if the queue
	// must be polled.
	Fd() int
	// Outstanding returns how many accepted requests have not been returned by Poll or Wait.
	Outstanding() int
	// Close waits for what is outstanding (with a deadline of its own) and frees the queue.
	Close() error
}

// Info describes a device. It does not change while the device is open, but for Blocks, which Reserve may raise.
type Info struct {
	Name           string     // for people and logs, escaped
	Blocks         BlockCount // blocks that can be read and written now
	BlocksMax      BlockCount // what Reserve may reach; equal to Blocks when the device has a fixed size
	TransferBlocks BlockCount // the largest single read or write
	Exclusive      bool       // nobody else can write while we hold it (flock on a regular file); false: maybe
}

// Device is a block device. Its methods may be called from any goroutine.
type Device interface {
	Info() Info
	// NewQueue makes a queue for at least depth requests at once.
	NewQueue(depth int) (Queue, error)
	// Alloc returns a zeroed DMA buffer of n blocks, aligned to BlockSize. It is memory that the device (in a confidential
	// VM: the host) may read and write at any time: nothing secret goes in, nothing is trusted that comes out.
	Alloc(n BlockCount) ([]byte, error)
	// Free gives back a buffer of Alloc that no request holds.
	Free(buf []byte)
	// Reserve asks that blocks 0 to n-1 exist and are laid out, so that later writes there change no file-system metadata.
	// It never waits: it starts the work if needed and returns false until it is done, so the caller asks again. ErrFull
	// wrapped: there is no room.
	Reserve(n BlockCount) (done bool, err error)
	// Close frees the device. All queues are closed before.
	Close() error
}

// Errors that callers tell apart; all are wrapped with what and where.
var (
	ErrFull   = errors.New("no space left below the volume")
	ErrLocked = errors.New("in use by another process")
	ErrBounds = errors.New("outside the device")
)
