package vfio

import (
	"errors"
	"fmt"

	"cvmstore/nvme"
)

// Options say how to reach a function.
type Options struct {
	// NoIOMMU allows the device to be given physical addresses, where no IOMMU stands between it and memory. In a confidential guest
	// that loses nothing: the host reaches shared memory anyway, and private memory not at all. Elsewhere the device can
	// write everywhere.
	NoIOMMU bool
	Log     func(msg string)
}

// classNVMe is the PCI class of NVMe controllers: mass storage, non-volatile memory, NVM Express.
const classNVMe = 0x010802

// Device is an nvme.Device together with the function that it is on.
type Device struct {
	*nvme.Device
	function *Function
}

// OpenDevice takes the function at an address and opens a namespace of its controller.
func OpenDevice(a Address, o Options, n nvme.Options) (*Device, error) {
	f, err := Open(a, o)
	if err != nil {
		return nil, err
	}
	n.Namespace = a.Namespace
	d, err := nvme.Open(f, f.DMA(), n)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", a, err), f.Close())
	}
	return &Device{d, f}, nil
}

// How says by which way the device is reached.
func (d *Device) How() string { return d.function.How() }

// Close closes the device, then the function.
func (d *Device) Close() error {
	if err := d.Device.Close(); err != nil && d.Device.Busy() {
		return err // queues are open: nothing has changed
	} else {
		return errors.Join(err, d.function.Close())
	}
}
