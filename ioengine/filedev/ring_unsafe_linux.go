package filedev

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The part of <linux/io_uring.h> that is used here; golang.org/x/sys/unix has the numbers of the system calls only.
const (
	opNop        = 0
	opFsync      = 3
	opReadFixed  = 4
	opWriteFixed = 5
	opRead       = 22
	opWrite      = 23

	registerBuffers = 0

	fsyncData = 1 << 0 // fdatasync

	offRings = 0 // both rings, given featSingleMmap
	offSQEs  = 0x10000000

	featSingleMmap = 1 << 0
	featNoDrop     = 1 << 1
	featExtArg     = 1 << 8

	setupClamp = 1 << 4

	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3

	sqOverflow = 1 << 1 // completions wait inside the kernel
)

// featuresNeeded came with Linux 5.11.
const featuresNeeded = featSingleMmap | featNoDrop | featExtArg

type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	len      uint32
	opFlags  uint32 // rw_flags, fsync_flags
	userData uint64
	bufIndex uint16 // opReadFixed, opWriteFixed: of the registered buffer that addr lies in
	_        [3]uint16
	_        [2]uint64
}

type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

type ringOffsets struct {
	head, tail, mask, entries, flags, dropped, array, _ uint32
	_                                                   uint64
}

type cqOffsets struct {
	head, tail, mask, entries, overflow, cqes, flags, _ uint32
	_                                                   uint64
}

type ringParams struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wqFd uint32
	_                                                      [3]uint32
	sq                                                     ringOffsets
	cq                                                     cqOffsets
}

type getEventsArg struct {
	sigmask   uint64
	sigmaskSz uint32
	minWait   uint32
	ts        uint64
}

// The kernel reads and writes these: their sizes are part of its interface.
var (
	_ [64]byte  = [unsafe.Sizeof(sqe{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(cqe{})]byte{}
	_ [120]byte = [unsafe.Sizeof(ringParams{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(getEventsArg{})]byte{}
)

// ring is an io_uring: entries pushed are handed over by enter, completions are popped. One goroutine at a time.
type ring struct {
	fd      int
	rings   []byte // mapped: heads, tails, the completions
	entries []byte // mapped: the submission entries
	sqes    []sqe
	cqes    []cqe

	sqHead, sqTail, sqFlags *uint32
	cqHead, cqTail          *uint32
	cqMask                  uint32
	tail                    uint32 // of what was pushed; *sqTail follows in enter
}

// newRing makes a ring for n submissions, rounded up to a power of two, and twice as many completions.
func newRing(n uint32) (*ring, error) {
	p := ringParams{flags: setupClamp}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	switch errno {
	case 0:
	case unix.ENOSYS, unix.EPERM, unix.EACCES:
		return nil, fmt.Errorf("%w: io_uring_setup: %w", ErrUnsupported, errno)
	default:
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	r := &ring{fd: int(fd)}
	if p.features&featuresNeeded != featuresNeeded {
		return nil, r.fail(fmt.Errorf("%w: this kernel's has features %#x", ErrUnsupported, p.features))
	}
	size := max(p.sq.array+p.sqEntries*4, p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(cqe{})))
	var err error
	if r.rings, err = unix.Mmap(r.fd, offRings, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, r.fail(fmt.Errorf("map the io_uring: %w", err))
	}
	size = p.sqEntries * uint32(unsafe.Sizeof(sqe{}))
	if r.entries, err = unix.Mmap(r.fd, offSQEs, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, r.fail(fmt.Errorf("map the io_uring's entries: %w", err))
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[off])) }
	r.sqHead, r.sqTail, r.sqFlags = word(p.sq.head), word(p.sq.tail), word(p.sq.flags)
	r.cqHead, r.cqTail, r.cqMask = word(p.cq.head), word(p.cq.tail), p.cqEntries-1
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.rings[p.cq.cqes])), p.cqEntries)
	// The indirection array stays the identity: entry i of the ring is entry i of the array.
	array := unsafe.Slice(word(p.sq.array), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	return r, nil
}

func (r *ring) fail(err error) error {
	_ = r.close()
	return err
}

func (r *ring) close() error {
	// Unmapping what was mapped cannot fail, and the descriptor goes even if the kernel has something to say about it.
	for _, m := range [][]byte{r.rings, r.entries} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	r.rings, r.entries, r.sqes, r.cqes = nil, nil, nil, nil
	return unix.Close(r.fd)
}

// register pins the regions for the life of the ring; their index is their place in list.
func (r *ring) register(list []*region) error {
	iov := make([]unix.Iovec, len(list))
	for i, g := range list {
		iov[i].Base = unsafe.SliceData(g.buf)
		iov[i].SetLen(len(g.buf))
	}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerBuffers, uintptr(unsafe.Pointer(&iov[0])),
		uintptr(len(iov)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("io_uring_register: %w", errno)
	}
	return nil
}

// push adds an entry. The caller never has more pushed and unfinished than newRing was asked for.
func (r *ring) push(e sqe) {
	if r.unsent() >= uint32(len(r.sqes)) {
		panic("internal error: io_uring submission queue overrun")
	}
	r.sqes[r.tail&uint32(len(r.sqes)-1)] = e
	r.tail++
}

// unsent returns how many entries were pushed and not yet taken by the kernel.
func (r *ring) unsent() uint32 { return r.tail - atomic.LoadUint32(r.sqHead) }

// forget drops the entries that the kernel has not taken. It reads entries in enter only, so nobody sees this.
func (r *ring) forget() {
	r.tail = atomic.LoadUint32(r.sqHead)
	atomic.StoreUint32(r.sqTail, r.tail)
}

// enterTries bounds the calls for one batch that made no progress.
const enterTries = 100

// send hands all pushed entries to the kernel, without waiting for them.
func (r *ring) send() error {
	// The store of the tail publishes the entries written before it: the kernel loads it with acquire.
	atomic.StoreUint32(r.sqTail, r.tail)
	for tries := 0; r.unsent() > 0; {
		n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.unsent()), 0, 0, 0, 0)
		switch {
		case errno == 0 && n > 0:
			tries = 0
			continue
		case errno != 0 && errno != unix.EINTR && errno != unix.EAGAIN && errno != unix.EBUSY:
			return fmt.Errorf("io_uring_enter: %w", errno)
		}
		// EAGAIN: the kernel is short of memory for requests.
		if tries++; tries == enterTries {
			return fmt.Errorf("io_uring_enter took nothing in %d calls: %w", tries, errno)
		}
		time.Sleep(time.Duration(tries) * 10 * time.Microsecond)
	}
	return nil
}

// wait sleeps until a completion is there, or the timeout has passed, or a signal came.
func (r *ring) wait(timeout time.Duration) error {
	ts := unix.NsecToTimespec(max(timeout, 0).Nanoseconds())
	arg := getEventsArg{ts: uint64(uintptr(unsafe.Pointer(&ts)))}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 1, enterGetEvents|enterExtArg,
		uintptr(unsafe.Pointer(&arg)), unsafe.Sizeof(arg))
	switch errno {
	case 0, unix.ETIME, unix.EINTR, unix.EAGAIN, unix.EBUSY:
		return nil
	}
	return fmt.Errorf("io_uring_enter: %w", errno)
}

// pop takes one completion.
func (r *ring) pop() (c cqe, ok bool) {
	head := *r.cqHead // only we write it
	// The load of the tail orders before it what the kernel wrote to the entry; it stores the tail with release.
	if head == atomic.LoadUint32(r.cqTail) {
		if atomic.LoadUint32(r.sqFlags)&sqOverflow == 0 || r.wait(0) != nil || head == atomic.LoadUint32(r.cqTail) {
			return cqe{}, false
		}
	}
	c = r.cqes[head&r.cqMask]
	// The store of the head gives the entry back after it was copied.
	atomic.StoreUint32(r.cqHead, head+1)
	return c, true
}

// addressOf returns where the kernel finds buf. The caller keeps buf reachable until the completion: it is mapped memory,
// which does not move.
func addressOf(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }
