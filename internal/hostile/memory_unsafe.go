package hostile

import "unsafe"

// aligned returns n zeroed bytes that begin at a page. The heap does not move.
func aligned(n int) []byte {
	raw := make([]byte, n+pageSize)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (pageSize - 1)
	return raw[skip : skip+n : skip+n]
}

// words sees memory as the rings' words.
func words(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}
