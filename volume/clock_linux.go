package volume

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspendedTime returns how long the machine has been suspended since it started.
func suspendedTime() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano()-mono.Nano()) / time.Millisecond * time.Millisecond
}
