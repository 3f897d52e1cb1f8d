// Package dma maps memory that a device reads and writes, and that nobody else's memory lies in: in huge pages where the
// machine has them, so that long copies miss the address cache seldom and the device gets few, long pieces. It is a leaf.
//
// What it maps is ordinary private memory of the process. In a confidential VM DMA memory must be shared with the host:
// that comes from another allocator behind the same device.Device.Alloc (HOSTILE_DEVICE.md).
package dma

// Kind says how memory was mapped.
type Kind string

// The kinds, best first.
const (
	Huge        Kind = "huge pages"             // reserved by the administrator (vm.nr_hugepages)
	Transparent Kind = "transparent huge pages" // where the kernel finds them
	Small       Kind = "small pages"
)

// HugePage is the size of a huge page, in bytes, and the least that Map tries to put into some.
const HugePage = 2 << 20
