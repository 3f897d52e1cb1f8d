package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// errMemory: the memory with the keys would not stay in this VM.
var errMemory = errors.New("refused in a confidential VM: memory with keys may reach the disk")

// checkMemory refuses swap and hibernation, which write memory to a disk that the host owns. root is where /proc and /sys are.
func checkMemory(root string) error {
	swaps, err := os.ReadFile(filepath.Join(root, "proc/swaps"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if lines := strings.Split(strings.TrimSpace(string(swaps)), "\n"); len(lines) > 1 {
		name, _, _ := strings.Cut(lines[1], " ")
		return fmt.Errorf("%w: swap is on (%s); build the image without it", errMemory, name)
	}
	resume, err := os.ReadFile(filepath.Join(root, "sys/power/resume"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if dev := strings.TrimSpace(string(resume)); dev != "" && dev != "0:0" {
		return fmt.Errorf("%w: the kernel may hibernate to device %s; boot with nohibernate", errMemory, dev)
	}
	return nil
}
