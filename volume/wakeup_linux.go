package volume

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// wakeup is an eventfd beside a flag, so that draining it costs no system call while nobody signalled.
type wakeup struct {
	event int
	set   atomic.Bool
}

func newWakeup() (*wakeup, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &wakeup{event: fd}, nil
}

func (w *wakeup) fd() int { return w.event }

func (w *wakeup) signal() {
	if w.set.CompareAndSwap(false, true) {
		_, _ = unix.Write(w.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (w *wakeup) drain() {
	if w.set.CompareAndSwap(true, false) { // before the read: a signal after it writes again
		var b [8]byte
		_, _ = unix.Read(w.event, b[:])
	}
}

func (w *wakeup) close() { _ = unix.Close(w.event) }
