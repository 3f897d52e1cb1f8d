//go:build !linux

package dma

import (
	"fmt"
	"unsafe"
)

const page = 4096

// Map returns n zeroed bytes, aligned to a page. Here they come from the heap, which does not move.
func Map(n int) ([]byte, Kind, error) {
	if n <= 0 {
		return nil, "", fmt.Errorf("map %d bytes", n)
	}
	raw := make([]byte, n+page)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (page - 1)
	return raw[skip : skip+n : skip+n], Small, nil
}

// Unmap gives back what Map returned. Here the garbage collector does it.
func Unmap([]byte) error { return nil }
