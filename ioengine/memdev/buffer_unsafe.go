package memdev

import (
	"unsafe"

	"cvmstore/ioengine/device"
)

// What stands in buffers that nobody should read: easy to recognise in a dump, and never a valid tag.
const (
	poisonRead  = 0xA5 // a read is in flight
	poisonFreed = 0xDD // given back by Free
)

// alignedBuffer returns n zeroed bytes that start at a multiple of the block size. The heap does not move.
func alignedBuffer(n int) []byte {
	raw := make([]byte, n+device.BlockSize)
	skip := -int(address(raw)) & (device.BlockSize - 1)
	return raw[skip : skip+n : skip+n]
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// overlap says whether a and b share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	return address(a) < address(b)+uintptr(len(b)) && address(b) < address(a)+uintptr(len(a))
}

func fill(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
