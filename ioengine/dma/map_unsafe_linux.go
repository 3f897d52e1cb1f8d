package dma

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	access  = unix.PROT_READ | unix.PROT_WRITE
	private = unix.MAP_PRIVATE | unix.MAP_ANON
)

// Map returns n zeroed bytes, present in memory and aligned to a page; to a huge page, if there are HugePage or more. The
// garbage collector neither moves nor frees them: Unmap does.
func Map(n int) ([]byte, Kind, error) {
	if n <= 0 {
		return nil, "", fmt.Errorf("map %d bytes", n)
	}
	if n >= HugePage && n%HugePage == 0 {
		if at, err := unix.MmapPtr(-1, 0, nil, uintptr(n), access, private|unix.MAP_HUGETLB|unix.MAP_POPULATE); err == nil {
			return unsafe.Slice((*byte)(at), n), Huge, nil
		}
	}
	if n >= HugePage {
		return mapTransparent(n)
	}
	at, err := unix.MmapPtr(-1, 0, nil, pages(n), access, private|unix.MAP_POPULATE)
	if err != nil {
		return nil, "", fmt.Errorf("map %d bytes: %w", n, err)
	}
	return unsafe.Slice((*byte)(at), n), Small, nil
}

// mapTransparent maps more than is needed and gives back what lies before the first huge page and behind the end.
func mapTransparent(n int) ([]byte, Kind, error) {
	at, err := unix.MmapPtr(-1, 0, nil, pages(n)+HugePage, access, private)
	if err != nil {
		return nil, "", fmt.Errorf("map %d bytes: %w", n, err)
	}
	front := -uintptr(at) & (HugePage - 1)
	base := unsafe.Add(at, front)
	if front > 0 {
		err = unix.MunmapPtr(at, front)
	}
	if err == nil {
		err = unix.MunmapPtr(unsafe.Add(base, pages(n)), HugePage-front)
	}
	if err != nil {
		return nil, "", fmt.Errorf("cut a mapping of %d bytes: %w", n, err)
	}
	b := unsafe.Slice((*byte)(base), n)
	kind := Transparent
	if unix.Madvise(b, unix.MADV_HUGEPAGE) != nil {
		kind = Small
	}
	for i := 0; i < n; i += unix.Getpagesize() {
		b[i] = 0 // present now, not at the first transfer
	}
	return b, kind, nil
}

// Unmap gives back what Map returned, whole. Nothing uses it any more.
func Unmap(b []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), pages(len(b)))
}

// pages returns n rounded up to whole pages.
func pages(n int) uintptr {
	page := uintptr(unix.Getpagesize())
	return (uintptr(n) + page - 1) &^ (page - 1)
}
