package volume

import (
	"errors"
	"fmt"
	"time"

	"cvmstore/ioengine/device"
)

// Blocking I/O on the committer's queue, for birth and recovery: before the volume serves, nothing else uses it.

// ioTimeout bounds each wait for the device.
const ioTimeout = 60 * time.Second

// run submits requests and waits for all of them.
func (v *Volume) run(reqs ...device.Request) error {
	deadline := v.clock.Monotonic() + ioTimeout
	var first error
	for len(reqs) > 0 || v.queue.Outstanding() > 0 {
		n, err := v.queue.Submit(reqs)
		if err != nil {
			return err
		}
		reqs = reqs[n:]
		n, err = v.queue.Wait(v.reaped[:], time.Second)
		if err != nil {
			return err
		}
		for _, c := range v.reaped[:n] {
			if c.Err != nil && first == nil {
				first = c.Err
			}
		}
		if v.clock.Monotonic() > deadline {
			return errors.New("the device does not answer")
		}
	}
	return first
}

// readTransfer is how much one request of a long read asks for.
const readTransfer device.BlockCount = 256

func (v *Volume) readInto(buf []byte, lba device.LBA) error {
	var reqs []device.Request
	pieces(min(readTransfer, v.transfer), lba, buf, func(lba device.LBA, part []byte) {
		reqs = append(reqs, device.Request{Op: device.OpRead, LBA: lba, Buf: part})
	})
	if err := v.run(reqs...); err != nil {
		return fmt.Errorf("read at block %d: %w", lba, err)
	}
	v.stats.bytesRead.Add(uint64(len(buf)))
	return nil
}

func (v *Volume) writeThrough(lba device.LBA, buf []byte) error {
	var reqs []device.Request
	pieces(v.transfer, lba, buf, func(lba device.LBA, part []byte) {
		reqs = append(reqs, device.Request{Op: device.OpWrite, Through: true, LBA: lba, Buf: part})
	})
	if err := v.run(reqs...); err != nil {
		return fmt.Errorf("write at block %d: %w", lba, err)
	}
	v.stats.bytesWritten += uint64(len(buf))
	return nil
}

func (v *Volume) flush() error {
	if err := v.run(device.Request{Op: device.OpFlush}); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// reserve waits until blocks 0 to n-1 are laid out.
func (v *Volume) reserve(n device.BlockCount) error {
	deadline := v.clock.Monotonic() + ioTimeout
	for {
		done, err := v.dev.Reserve(n)
		if done || err != nil {
			return err
		}
		if v.clock.Monotonic() > deadline {
			return errors.New("the device lays out no space")
		}
		time.Sleep(50 * time.Microsecond)
	}
}
