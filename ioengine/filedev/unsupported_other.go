//go:build !linux

package filedev

import (
	"fmt"

	"cvmstore/ioengine/device"
)

// Open returns ErrUnsupported, wrapped.
func Open(path string, _ Options) (device.Device, error) {
	return nil, fmt.Errorf("open volume file %q: %w", path, ErrUnsupported)
}
