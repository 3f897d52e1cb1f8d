package epoch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes all written data of f durable. The file never changes its size after Create, so its metadata can wait.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
