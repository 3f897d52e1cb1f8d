package volume

import (
	"errors"
	"fmt"

	"cvmstore/ioengine/device"
)

// A device takes at most so many blocks in one request (device.Info.TransferBlocks; a drive may allow 32). What is longer goes out in
// pieces, in one place for all of this package, here. Nothing is promised about their order, and a power cut may leave some of
// them: frames, manifests and summaries are authenticated as wholes, so one that is torn is none. Each piece of a durable write
// is durable when it completes, and the write is done when all of them are: whoever sent it counts them.

// pieces calls f for each part of buf that one request may carry, with its place.
func pieces(most device.BlockCount, lba device.LBA, buf []byte, f func(lba device.LBA, part []byte)) {
	step := most.Bytes()
	for from := 0; from < len(buf); from += step {
		f(lba+device.LBA(from/device.BlockSize), buf[from:min(from+step, len(buf))])
	}
}

// submitWrite sends a write of any length, and returns how many completions with its token are to come.
func (v *Volume) submitWrite(lba device.LBA, buf []byte, through bool, token uint64) (n int) {
	v.stats.bytesWritten += uint64(len(buf))
	pieces(v.transfer, lba, buf, func(lba device.LBA, part []byte) {
		n++
		v.submit(device.Request{Op: device.OpWrite, Through: through, LBA: lba, Buf: part, Token: token})
	})
	return n
}

// submit hands one request to the device. What its queue has no room for goes out, in order, when something else has completed.
func (v *Volume) submit(r device.Request) {
	v.backlog = append(v.backlog, r)
	v.submitBacklog()
}

func (v *Volume) submitBacklog() {
	if len(v.backlog) == 0 || v.failure.Load() != nil {
		return
	}
	lba := v.backlog[0].LBA
	n, err := v.queue.Submit(v.backlog)
	v.backlog = append(v.backlog[:0], v.backlog[n:]...)
	if err == nil && len(v.backlog) > 0 && v.queue.Outstanding() == 0 {
		err = errors.New("the device's queue takes nothing")
	}
	if err != nil {
		v.fail(ErrFailed, fmt.Errorf("submit at block %d: %w", lba, err))
	}
}
