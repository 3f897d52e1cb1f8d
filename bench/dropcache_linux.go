package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache has the system forget a file's pages, which are on the disk.
func dropCache(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
