package vfio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNoSharedMemory is wrapped when this is a confidential guest whose kernel cannot give out memory that the host can reach.
var ErrNoSharedMemory = errors.New("this is a confidential guest, and its kernel has no dma-buf heap system_cc_shared: " +
	"the device cannot reach the guest's private memory (docs/NVME.md, \"In a confidential guest\")")

// source is where memory for DMA comes from. Sizes are multiples of hugeBytes.
type source struct {
	kind  string // for people
	alloc func(n int) ([]byte, error)
	fixed bool // its pages never change their physical addresses
}

// sharedHeap is the kernel's heap of memory that is shared with the host (not encrypted).
const sharedHeap = "dev/dma_heap/system_cc_shared"

// confidentialMarks are devices that only a confidential guest has.
var confidentialMarks = []string{"dev/sev-guest", "dev/tdx_guest"}

// chooseSource decides where memory comes from: the shared heap, huge pages, pages. root is "/", but for tests.
func chooseSource(root string) (source, error) {
	heap := filepath.Join(root, sharedHeap)
	if fd, err := unix.Open(heap, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		return source{"dma-buf heap system_cc_shared", func(n int) ([]byte, error) { return heapAlloc(fd, n) }, true}, nil
	} else if !errors.Is(err, unix.ENOENT) {
		return source{}, fmt.Errorf("open %s: %w", heap, err)
	}
	for _, mark := range confidentialMarks {
		if _, err := os.Lstat(filepath.Join(root, mark)); err == nil {
			return source{}, fmt.Errorf("/%s is there: %w", mark, ErrNoSharedMemory)
		}
	}
	if probe, err := hugeAlloc(hugeBytes); err == nil {
		_ = unix.Munmap(probe)
		return source{"huge pages", hugeAlloc, true}, nil
	}
	return source{"pages", pagesAlloc, false}, nil
}

func hugeAlloc(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB|unix.MAP_POPULATE|21<<unix.MAP_HUGE_SHIFT)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB of huge pages (raise vm.nr_hugepages): %w", n>>20, err)
	}
	return b, nil
}

// pagesAlloc maps ordinary pages.
func pagesAlloc(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB: %w", n>>20, err)
	}
	// A child process must not make these pages copy on write: we would go on with another page than the device.
	if err := unix.Madvise(b, unix.MADV_DONTFORK); err != nil {
		_ = unix.Munmap(b)
		return nil, fmt.Errorf("keep memory out of child processes: %w", err)
	}
	return b, nil
}
