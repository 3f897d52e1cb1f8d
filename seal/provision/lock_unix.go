//go:build unix

package provision

import (
	"fmt"
	"os"
	"syscall"
)

// lockFile keeps other processes out until the file is unlocked or closed. What they do in between is short.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

func unlockFile(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
