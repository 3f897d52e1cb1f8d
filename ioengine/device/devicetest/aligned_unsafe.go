package devicetest

import (
	"unsafe"

	"cvmstore/ioengine/device"
)

func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%device.BlockSize == 0
}
