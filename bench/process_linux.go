package bench

import "syscall"

// dieWithUs makes a child end when this program does, however that ends (a closed pipe, for one).
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
