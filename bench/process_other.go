//go:build !linux

package bench

import "syscall"

func dieWithUs() *syscall.SysProcAttr { return nil }
