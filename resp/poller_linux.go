package resp

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller is an epoll instance and the eventfd that wakes its loop.
type poller struct {
	ep     int
	wake   int
	events []event
	coarse bool // the kernel has no epoll_pwait2
}

type event unix.EpollEvent

const (
	pollIn        = unix.EPOLLIN
	pollOut       = unix.EPOLLOUT
	pollEnded     = unix.EPOLLRDHUP
	pollExclusive = unix.EPOLLEXCLUSIVE
)

func (e *event) fd() int        { return int(e.Fd) }
func (e *event) readable() bool { return e.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 }
func (e *event) writable() bool { return e.Events&unix.EPOLLOUT != 0 }

// ended reports that the client sends no more; it is asked for only while a command is parked.
func (e *event) ended() bool { return e.Events&unix.EPOLLRDHUP != 0 }

// gone reports that the client has closed both sides, or reset.
func (e *event) gone() bool { return e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 }

func newPoller() (*poller, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(ep)
		return nil, err
	}
	p := &poller{ep: ep, wake: wake, events: make([]event, 512)}
	if err := p.add(wake, pollIn); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) add(fd int, events uint32) error {
	return unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (p *poller) modify(fd int, events uint32) error {
	return unix.EpollCtl(p.ep, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (p *poller) remove(fd int) { _ = unix.EpollCtl(p.ep, unix.EPOLL_CTL_DEL, fd, nil) }

// wait returns what is ready, after at most d. It looks first without sleeping, in a system call that the Go runtime need not
// know of; only a call that may sleep tells the runtime, so that it is not held up.
func (p *poller) wait(d time.Duration) []event {
	if n := p.look(); n > 0 || d == 0 {
		return p.events[:n]
	}
	var n int
	var errno unix.Errno
	if !p.coarse {
		ts := unix.NsecToTimespec(int64(d))
		r, _, e := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.ep), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)),
			uintptr(unsafe.Pointer(&ts)), 0, 0)
		n, errno = int(r), e
	}
	if p.coarse || errno == unix.ENOSYS {
		p.coarse = true
		ms := min((d+time.Millisecond-1)/time.Millisecond, math.MaxInt32)
		r, _, e := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.ep), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)),
			uintptr(ms), 0, 0)
		n, errno = int(r), e
	}
	if errno != 0 { // EINTR
		return nil
	}
	return p.events[:n]
}

func (p *poller) look() int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.ep), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// signal wakes the loop; any goroutine may call it.
func (p *poller) signal() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:])
}

func (p *poller) drain() {
	var b [8]byte
	_, _ = unix.Read(p.wake, b[:])
}

func (p *poller) close() {
	_ = unix.Close(p.wake)
	_ = unix.Close(p.ep)
}

// aside is wait with a buffer of its own: the round that is interrupted goes through the other.
func (p *poller) aside(d time.Duration) []event {
	outer := p.events
	p.events = make([]event, 64)
	events := p.wait(d)
	p.events = outer
	return events
}
