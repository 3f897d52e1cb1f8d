package filedev

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/device"
)

// BenchmarkThrough compares the ways to one durable write at a time. Its numbers mean something only beside each other: run
// it with -count and compare medians.
func BenchmarkThrough(b *testing.B) {
	const blocks = 16384
	d := mustOpen(b, filepath.Join(b.TempDir(), "volume"), Options{Create: true, Initial: blocks})
	q := mustQueue(b, d, 8)
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, q.Fd(), &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		b.Fatal(err)
	}
	events, out := make([]unix.EpollEvent, 1), make([]device.Completion, 8)
	complete := func(reqs ...device.Request) {
		if _, err := q.Submit(reqs); err != nil {
			b.Fatal(err)
		}
		for q.Outstanding() > 0 {
			if _, err := retry(func() (int, error) { return unix.EpollWait(epoll, events, 10_000) }); err != nil {
				b.Fatal(err)
			}
			n, err := q.Poll(out)
			if err != nil || n > 0 && out[0].Err != nil {
				b.Fatal(err, out[0].Err)
			}
		}
	}
	for _, n := range []device.BlockCount{1, 4, 16} {
		buf := mustAlloc(b, d, n, 1)
		for _, way := range []struct {
			name  string
			write func(lba device.LBA) error
		}{
			{"ring", func(lba device.LBA) error {
				complete(device.Request{Op: device.OpWrite, LBA: lba, Buf: buf, Through: true})
				return nil
			}},
			{"ring-write-then-flush", func(lba device.LBA) error {
				complete(device.Request{Op: device.OpWrite, LBA: lba, Buf: buf})
				complete(device.Request{Op: device.OpFlush})
				return nil
			}},
			{"thread", func(lba device.LBA) error { return q.WriteThrough(lba, buf) }},
		} {
			b.Run(fmt.Sprintf("%dKiB/%s", n*4, way.name), func(b *testing.B) {
				lba := device.LBA(0)
				for b.Loop() {
					if err := way.write(lba); err != nil {
						b.Fatal(err)
					}
					if lba += device.LBA(n); uint64(lba)+uint64(n) > blocks {
						lba = 0
					}
				}
			})
		}
		d.Free(buf)
	}
	_ = unix.Close(epoll)
	mustClose(b, q)
	mustClose(b, d)
}
