package command

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func infoCPU(t *infoText) {
	var self, children unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &self)
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &children)
	seconds := func(tv unix.Timeval) string { return fmt.Sprintf("%d.%06d", tv.Sec, tv.Usec) }
	t.str("used_cpu_sys", seconds(self.Stime))
	t.str("used_cpu_user", seconds(self.Utime))
	t.str("used_cpu_sys_children", seconds(children.Stime))
	t.str("used_cpu_user_children", seconds(children.Utime))
}
