//go:build !linux

package cli

import "errors"

// errMemory: the memory with the keys would not stay in this VM.
var errMemory = errors.New("refused in a confidential VM: memory with keys may reach the disk")

func checkMemory(string) error { return errors.ErrUnsupported }
