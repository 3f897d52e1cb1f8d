package vfio

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The part of <linux/vfio.h>, <linux/iommufd.h> and <linux/dma-heap.h> that is used here.
const (
	vfioGetAPIVersion     = 0x3b64
	vfioCheckExtension    = 0x3b65
	vfioSetIOMMU          = 0x3b66
	vfioGroupGetStatus    = 0x3b67
	vfioGroupSetContainer = 0x3b68
	vfioGroupGetDevice    = 0x3b6a
	vfioDeviceGetInfo     = 0x3b6b
	vfioDeviceGetRegion   = 0x3b6c
	vfioDeviceReset       = 0x3b6f
	vfioIOMMUGetInfo      = 0x3b70
	vfioIOMMUMapDMA       = 0x3b71
	vfioIOMMUUnmapDMA     = 0x3b72
	vfioDeviceBind        = 0x3b76 // to an iommufd
	vfioDeviceAttach      = 0x3b77 // to an address space
	iommuIOASAlloc        = 0x3b81
	iommuIOASRanges       = 0x3b84
	iommuIOASMap          = 0x3b85
	iommuIOASUnmap        = 0x3b86
	dmaHeapAlloc          = 0xc0184800

	apiVersion  = 0
	type1IOMMU  = 1
	type1v2     = 3
	noIOMMU     = 8
	groupViable = 1 << 0

	deviceCanReset = 1 << 0
	deviceIsPCI    = 1 << 1
	regionBAR0     = 0
	regionConfig   = 7
	regionRead     = 1 << 0
	regionWrite    = 1 << 1
	regionMmap     = 1 << 2

	mapRead      = 1 << 0
	mapWrite     = 1 << 1
	ioasFixed    = 1 << 0
	ioasWritable = 1 << 1
	ioasReadable = 1 << 2

	iommuInfoCaps = 1 << 1
	capIOVARange  = 1
)

// Fields that are not used have no name.

type groupStatus struct{ argsz, flags uint32 }

type deviceInfo struct {
	argsz, flags uint32
	_            [4]uint32 // regions, interrupts, capabilities
}

type regionInfo struct {
	argsz, flags, index, _ uint32
	size, offset           uint64
}

type iommuInfo struct {
	argsz, flags uint32
	_            uint64 // page sizes
	caps, _      uint32
}

type dmaMap struct {
	argsz, flags      uint32
	vaddr, iova, size uint64
}

type dmaUnmap struct {
	argsz, _   uint32
	iova, size uint64
}

type deviceBind struct {
	argsz, _ uint32
	iommufd  int32
	_        uint32
}

type deviceAttach struct{ argsz, _, space uint32 }

type ioasAlloc struct{ size, _, id uint32 }

type ioasRanges struct {
	size, id, count, _ uint32
	ranges, _          uint64
}

type ioasMap struct {
	size, flags, id, _  uint32
	vaddr, length, iova uint64
}

type ioasUnmap struct {
	size, id     uint32
	iova, length uint64
}

type heapData struct {
	length      uint64
	fd, fdFlags uint32
	_           uint64
}

// The kernel knows these by their sizes.
var (
	_ [8]byte  = [unsafe.Sizeof(groupStatus{})]byte{}
	_ [24]byte = [unsafe.Sizeof(deviceInfo{})]byte{}
	_ [32]byte = [unsafe.Sizeof(regionInfo{})]byte{}
	_ [24]byte = [unsafe.Sizeof(iommuInfo{})]byte{}
	_ [32]byte = [unsafe.Sizeof(dmaMap{})]byte{}
	_ [24]byte = [unsafe.Sizeof(dmaUnmap{})]byte{}
	_ [16]byte = [unsafe.Sizeof(deviceBind{})]byte{}
	_ [12]byte = [unsafe.Sizeof(deviceAttach{})]byte{}
	_ [12]byte = [unsafe.Sizeof(ioasAlloc{})]byte{}
	_ [32]byte = [unsafe.Sizeof(ioasRanges{})]byte{}
	_ [40]byte = [unsafe.Sizeof(ioasMap{})]byte{}
	_ [24]byte = [unsafe.Sizeof(ioasUnmap{})]byte{}
	_ [24]byte = [unsafe.Sizeof(heapData{})]byte{}
)

// argument is a structure that an ioctl reads and writes.
type argument interface {
	groupStatus | deviceInfo | regionInfo | iommuInfo | dmaMap | dmaUnmap | deviceBind | deviceAttach | ioasAlloc | ioasRanges |
		ioasMap | ioasUnmap | heapData | int32
}

// control is ioctl with a structure.
func control[T argument](fd int, request uint, arg *T) error {
	_, err := retry(func() (int, error) {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(arg)))
		return result(n, errno)
	})
	return err
}

// controlValue is ioctl with a number.
func controlValue(fd int, request uint, value uintptr) (int, error) {
	return retry(func() (int, error) {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), value)
		return result(n, errno)
	})
}

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// retryMax bounds system calls that are interrupted. The Go runtime's signals do that, many times in a row never.
const retryMax = 1000

func retry(call func() (int, error)) (int, error) {
	for tries := 1; ; tries++ {
		n, err := call()
		if err != unix.EINTR || tries == retryMax {
			return n, err
		}
	}
}

// groupDevice is VFIO_GROUP_GET_DEVICE_FD.
func groupDevice(group int, address string) (int, error) {
	name, err := unix.BytePtrFromString(address)
	if err != nil {
		return 0, err
	}
	return retry(func() (int, error) {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(group), vfioGroupGetDevice, uintptr(unsafe.Pointer(name)))
		return result(n, errno)
	})
}

// iovaSpans is VFIO_IOMMU_GET_INFO: which device addresses can be mapped. Nil: the kernel does not say.
func iovaSpans(container int) ([]span, error) {
	const size = 16 << 10 // of the structure with its capabilities
	buf := make([]uint64, size/8)
	info := (*iommuInfo)(unsafe.Pointer(&buf[0]))
	info.argsz = size
	if err := control(container, vfioIOMMUGetInfo, info); err != nil {
		return nil, fmt.Errorf("ask the IOMMU: %w", err)
	}
	if info.flags&iommuInfoCaps == 0 {
		return nil, nil
	}
	return walkRanges(unsafe.Slice((*byte)(unsafe.Pointer(&buf[0])), size), int(info.caps)), nil
}

// heapAlloc takes memory from a dma-buf heap.
func heapAlloc(heap, n int) ([]byte, error) {
	data := heapData{length: uint64(n), fdFlags: unix.O_RDWR | unix.O_CLOEXEC}
	if err := control(heap, dmaHeapAlloc, &data); err != nil {
		return nil, fmt.Errorf("dma-buf heap, %d MiB: %w", n>>20, err)
	}
	defer func() { _ = unix.Close(int(data.fd)) }() // the mapping holds the memory
	b, err := unix.Mmap(int(data.fd), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB of a dma-buf heap: %w", n>>20, err)
	}
	return b, nil
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// register32 is a register in a mapped BAR. The caller has checked the offset.
func register32(bar []byte, off int) *uint32 { return (*uint32)(unsafe.Pointer(&bar[off])) }

func register64(bar []byte, off int) *uint64 { return (*uint64)(unsafe.Pointer(&bar[off])) }

// rangesScratch is where the kernel writes ranges to. It is no variable of a function, because stacks move.
var (
	rangesMutex   sync.Mutex
	rangesScratch [2 * rangesMax]uint64
)

func addressOfWords(list *[2 * rangesMax]uint64) uint64 { return uint64(uintptr(unsafe.Pointer(list))) }
