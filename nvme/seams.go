package nvme

import "time"

// Bar is the controller's register space (section 3.1). Offsets are multiples of the access size and inside Size; the driver
// asks for nothing else. What is read is hostile, and may differ from one read to the next.
type Bar interface {
	Read32(off int) uint32
	Read64(off int) uint64
	Write32(off int, v uint32)
	Write64(off int, v uint64)
	// Size is how many bytes of it are mapped, as the bus says, not the controller.
	Size() int
}

// Mapped is a Bar that lies in this process' memory, so that a doorbell is one store.
type Mapped interface {
	Bar
	// Register returns the place of a 32-bit register, or nil.
	Register(off int) *uint32
}

// FunctionResetter is a Bar that can also reset the whole PCI function: the last resort when the controller does not stop.
// After it returned nil the controller has forgotten all that it was told, and reaches no memory before it is told again.
type FunctionResetter interface {
	ResetFunction() error
}

// DMA hands out memory that the controller can read and write at any time. Its methods may be called from any goroutine, and are
// not called on the data path.
type DMA interface {
	// Alloc returns at least n zeroed bytes in whole pages, aligned to PageSize. The memory neither moves nor goes away
	// before Free.
	Alloc(p Purpose, n int) (Memory, error)
	// Free takes memory back that the controller no longer uses.
	Free(Memory)
	// Kind says for people what memory this is.
	Kind() string
}

// Purpose is what shared memory is for. docs/NVME.md lists all of them.
type Purpose string

// All memory that is shared with the controller.
const (
	PurposeAdminSubmission Purpose = "admin submission queue"
	PurposeAdminCompletion Purpose = "admin completion queue"
	PurposeIdentify        Purpose = "identify page"
	PurposeSubmission      Purpose = "I/O submission queue"
	PurposeCompletion      Purpose = "I/O completion queue"
	PurposeLists           Purpose = "PRP lists"
	PurposeBuffers         Purpose = "I/O buffers"
)

// PageSize is the controller's memory page (CC.MPS = 0), whatever the size of the CPU's pages.
const PageSize = 4096

// Memory is a piece of shared memory. Its slice headers are private, its bytes are not.
type Memory struct {
	Bytes []byte
	Pages []uint64 // the device's address of each page of Bytes
}

// contiguous reports whether the first n bytes follow each other for the device as well.
func (m *Memory) contiguous(n int) bool {
	for i := 1; i < (n+PageSize-1)/PageSize; i++ {
		if m.Pages[i] != m.Pages[i-1]+PageSize {
			return false
		}
	}
	return true
}

// Clock is the time that the driver's bounds are measured in.
type Clock interface {
	Now() time.Duration // since any moment, never back
	Pause()             // lets others go on; called again and again while something is waited for
}
