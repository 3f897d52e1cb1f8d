package bench

import (
	"errors"

	"cvmstore/internal/hostile"
	"cvmstore/ioengine/device"
	"cvmstore/nvme"
)

// behindNVMe is a device behind our NVMe driver and an honest controller in software. The controller does its work in the thread
// of who drives it, so what it costs is part of what is measured.
type behindNVMe struct {
	*nvme.Device
	below      device.Device
	controller *hostile.Controller
}

func onNVMe(below device.Device) (device.Device, error) {
	c := hostile.New(hostile.Options{RealTime: true, NoTrim: true})
	if err := c.Attach(below); err != nil {
		return nil, err
	}
	d, err := nvme.Open(c, c, nvme.Options{Clock: c.Clock()})
	if err != nil {
		return nil, errors.Join(err, c.Detach())
	}
	return &behindNVMe{d, below, c}, nil
}

// Close closes driver, controller and device.
func (b *behindNVMe) Close() error {
	err := errors.Join(b.Device.Close(), b.controller.Detach(), b.below.Close())
	for _, p := range b.controller.Problems() {
		err = errors.Join(err, errors.New("controller: "+p))
	}
	return err
}
