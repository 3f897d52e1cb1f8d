//go:build !linux

package vfio

import (
	"errors"
	"fmt"

	"cvmstore/nvme"
)

// Function cannot be opened on this system.
type Function struct{ nvme.Bar }

// Open returns errors.ErrUnsupported, wrapped.
func Open(a Address, _ Options) (*Function, error) {
	return nil, fmt.Errorf("vfio %s: only Linux has VFIO: %w", a.PCI, errors.ErrUnsupported)
}

// DMA returns nil.
func (f *Function) DMA() nvme.DMA { return nil }

// How returns "".
func (f *Function) How() string { return "" }

// Close does nothing.
func (f *Function) Close() error { return nil }

// MemoryLimit returns "".
func MemoryLimit() string { return "" }
