package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// dieWithUs makes a child end when this program does, however that ends (a closed pipe, for one).
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// userHertz is the unit of the times in /proc, fixed by the kernel's interface.
const userHertz = 100

// cpuTime is what a process has used so far, in user and kernel mode; 0 if it cannot be read.
func cpuTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	b = b[bytes.LastIndexByte(b, ')')+1:] // a program's name may contain anything
	f := bytes.Fields(b)
	const utime, stime = 11, 12 // after the name
	if len(f) <= stime {
		return 0
	}
	user, err1 := strconv.ParseInt(string(f[utime]), 10, 64)
	kernel, err2 := strconv.ParseInt(string(f[stime]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+kernel) * time.Second / userHertz
}
