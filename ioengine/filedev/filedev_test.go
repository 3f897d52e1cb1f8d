//go:build linux

package filedev

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
)

// contractOptions are what devicetest expects.
var contractOptions = Options{
	Create: true, Initial: devicetest.Blocks, BlocksMax: devicetest.BlocksMax, GrowBlocks: 64,
}

func mustOpen(t testing.TB, path string, o Options) *Device {
	t.Helper()
	d, err := Open(path, o)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.(*Device)
}

func mustClose(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustQueue(t testing.TB, d *Device, depth int) *Queue {
	t.Helper()
	q, err := d.NewQueue(depth)
	if err != nil {
		t.Fatal(err)
	}
	return q.(*Queue)
}

func mustAlloc(t testing.TB, d *Device, n device.BlockCount, v byte) []byte {
	t.Helper()
	buf, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf, bytes.Repeat([]byte{v}, len(buf)))
	return buf
}

func TestContractOnAFile(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Device {
		return mustOpen(t, filepath.Join(t.TempDir(), "volume"), contractOptions)
	})
}

func TestContractInThePageCache(t *testing.T) {
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if err := unix.Statfs(shm, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Skip("no tmpfs")
	}
	devicetest.Run(t, func(t *testing.T) device.Device {
		dir, err := os.MkdirTemp(shm, "filedev")
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return mustOpen(t, filepath.Join(dir, "volume"), contractOptions)
	})
}

func TestTheRingWakesEpollBesideSockets(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "volume"), Options{Create: true, Initial: 64})
	q := mustQueue(t, d, 8)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{q.Fd(), pair[0]} {
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			t.Fatal(err)
		}
	}
	events := make([]unix.EpollEvent, 4)
	ready := func(timeout int) map[int]bool {
		n, err := retry(func() (int, error) { return unix.EpollWait(epoll, events, timeout) })
		if err != nil {
			t.Fatal(err)
		}
		fds := map[int]bool{}
		for _, e := range events[:n] {
			fds[int(e.Fd)] = true
		}
		return fds
	}
	if len(ready(0)) != 0 {
		t.Fatal("ready before anything was submitted")
	}
	buf := mustAlloc(t, d, 1, 1)
	out := make([]device.Completion, 1)
	for _, r := range []device.Request{
		{Op: device.OpWrite, Buf: buf, Through: true},
		{Op: device.OpWrite, Buf: buf},
		{Op: device.OpFlush},
		{Op: device.OpRead, Buf: buf},
		{Op: device.OpTrim, Count: 1},
		{Op: device.OpRead, Buf: buf, LBA: 64}, // fails at Submit
	} {
		if n, err := q.Submit([]device.Request{r, r}); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		for range 2 { // level triggered: what is not polled stays ready
			if fds := ready(10_000); !fds[q.Fd()] || fds[pair[0]] {
				t.Fatalf("ready: %v", fds)
			}
			if n, err := q.Poll(out); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if len(ready(0)) != 0 {
			t.Fatal("ready after all was polled")
		}
	}
	if _, err := unix.Write(pair[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	if fds := ready(10_000); !fds[pair[0]] || fds[q.Fd()] {
		t.Fatalf("ready: %v", fds)
	}
	for _, fd := range append(pair[:], epoll) {
		_ = unix.Close(fd)
	}
	mustClose(t, q)
	mustClose(t, d)
}

func TestWriteThrough(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "volume"), Options{Create: true, Initial: 64})
	q := mustQueue(t, d, 8)
	w, r := mustAlloc(t, d, 2, 5), mustAlloc(t, d, 2, 0)
	if err := q.WriteThrough(62, w); err != nil {
		t.Fatal(err)
	}
	if err := q.WriteThrough(63, w); !errors.Is(err, device.ErrBounds) {
		t.Errorf("outside: %v", err)
	}
	if err := devicetest.Do(t, q, device.Request{Op: device.OpRead, LBA: 62, Buf: r})[0]; err != nil || !bytes.Equal(r, w) {
		t.Errorf("read: %v", err)
	}
	mustClose(t, q)
	mustClose(t, d)
}

func TestAFileThatLostItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	d := mustOpen(t, path, Options{Create: true, Initial: 64})
	q := mustQueue(t, d, 8)
	if err := os.Truncate(path, 10*device.BlockSize); err != nil {
		t.Fatal(err)
	}
	buf := mustAlloc(t, d, 4, 0)
	errs := devicetest.Do(t, q,
		device.Request{Op: device.OpRead, LBA: 8, Buf: buf},
		device.Request{Op: device.OpRead, LBA: 20, Buf: buf[:device.BlockSize]},
	)
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "read at block") {
			t.Errorf("read %d past the end: %v", i, err)
		}
	}
	mustClose(t, q)
	mustClose(t, d)
}

func TestResults(t *testing.T) {
	buf := make([]byte, 2*device.BlockSize)
	for _, c := range []struct {
		name   string
		op     device.Op
		res    int32
		before slot
		again  bool
		fails  bool
	}{
		{"read", device.OpRead, 8192, slot{}, false, false},
		{"half a read", device.OpRead, 4096, slot{}, true, false},
		{"the other half", device.OpRead, 4096, slot{done: 4096}, false, false},
		{"a read that ends inside a block", device.OpRead, 1000, slot{}, false, true},
		{"a read at the end", device.OpRead, 0, slot{}, false, true},
		{"an interrupted read", device.OpRead, -int32(unix.EINTR), slot{}, true, false},
		{"an interrupted write", device.OpWrite, -int32(unix.EINTR), slot{}, false, true},
		{"a write", device.OpWrite, 8192, slot{}, false, false},
		{"half a write", device.OpWrite, 4096, slot{}, false, true},
		{"a write to be tried again", device.OpWrite, -int32(unix.EAGAIN), slot{}, true, false},
		{"once too often", device.OpWrite, -int32(unix.EAGAIN), slot{resubmits: resubmitsMax}, false, true},
		{"a flush is not tried again", device.OpFlush, -int32(unix.EAGAIN), slot{}, false, true},
		{"a flush that failed", device.OpFlush, -int32(unix.EIO), slot{}, false, true},
		{"a flush", device.OpFlush, 0, slot{}, false, false},
	} {
		s := c.before
		s.req = device.Request{Op: c.op, Buf: buf}
		if again := s.take(c.res); again != c.again || (s.err != nil) != c.fails {
			t.Errorf("%s: again %v, error %v", c.name, again, s.err)
		}
	}
	s := slot{req: device.Request{Op: device.OpWrite, Buf: buf}}
	if s.take(-int32(unix.ENOSPC)); !errors.Is(s.err, device.ErrFull) || !errors.Is(s.err, unix.ENOSPC) {
		t.Errorf("no space: %v", s.err)
	}
}

func TestDurableRequestsAskTheKernelForIt(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "volume"), Options{Create: true, Initial: 64})
	q := mustQueue(t, d, 4)
	buf := mustAlloc(t, d, 2, 1)
	for i, c := range []struct {
		req  device.Request
		want sqe
	}{
		{device.Request{Op: device.OpWrite, LBA: 3, Buf: buf, Through: true}, sqe{opcode: opWrite, opFlags: unix.RWF_DSYNC, off: 12288, len: 8192}},
		{device.Request{Op: device.OpWrite, LBA: 3, Buf: buf}, sqe{opcode: opWrite, off: 12288, len: 8192}},
		{device.Request{Op: device.OpFlush, Through: true}, sqe{opcode: opFsync, opFlags: fsyncData}},
		{device.Request{Op: device.OpRead, LBA: 3, Buf: buf, Through: true}, sqe{opcode: opRead, off: 12288, len: 8192}},
	} {
		q.slots[0].req = c.req
		q.push(0)
		got := q.ring.sqes[i]
		c.want.fd, c.want.addr = int32(d.fd), got.addr
		if got != c.want {
			t.Errorf("request %d became %+v, want %+v", i, got, c.want)
		}
	}
	q.ring.forget()
	mustClose(t, q)
	mustClose(t, d)
}

func TestAnUnknownCompletionBreaksTheQueue(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "volume"), Options{Create: true, Initial: 64})
	for _, userData := range []uint64{0, 1 << 32, 999, 2<<32 | 1} { // a free slot, twice; no slot; a request before this one
		q := mustQueue(t, d, 4)
		q.slots[1].busy, q.slots[1].generation = true, 3
		q.ring.push(sqe{opcode: opNop, userData: userData})
		if err := q.ring.send(); err != nil {
			t.Fatal(err)
		}
		if n, err := q.Poll(make([]device.Completion, 1)); n != 0 || err == nil {
			t.Errorf("user data %#x: %d, %v", userData, n, err)
		}
		if n, err := q.Submit([]device.Request{{Op: device.OpFlush}}); n != 0 || err == nil {
			t.Errorf("a broken queue took %d requests", n)
		}
		mustClose(t, q)
	}
	mustClose(t, d)
}

func TestWaitEndsAtItsTimeout(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "volume"), Options{Create: true, Initial: 64})
	q := mustQueue(t, d, 4)
	// Nothing was submitted in this slot, so nothing will ever complete.
	i := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	start := time.Now()
	n, err := q.Wait(make([]device.Completion, 1), 30*time.Millisecond)
	if took := time.Since(start); n != 0 || err != nil || took < 30*time.Millisecond {
		t.Errorf("%d, %v after %v", n, err, took)
	}
	q.free = append(q.free, i)
	mustClose(t, q)
	mustClose(t, d)
}
