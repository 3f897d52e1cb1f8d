package volume

import (
	"fmt"
	"time"
)

// What a transaction of several commands needs of the batch that is open: more room than it announced, and its own records
// back. Both are for what nobody could know before the batch began.

// Extend makes room in an open batch for records of so many bytes more. ErrTooLarge or ErrFull leave the batch as it was; it
// cannot answer ErrBusy, since nothing may wait inside a batch.
func (t *Tx) Extend(bytes, records int, class Class) error {
	v := t.v
	need := bytes + records*recOverhead
	left := t.budget - t.bytes
	if t.big {
		usable := v.segmentRoom(2 + v.recordBlocksMax() + 2*(1+v.segmentBlocks/blocksOf(v.opts.FrameBytes)))
		if usable <= 0 || len(v.ready) < (left+need)/usable+1 {
			return fmt.Errorf("a batch of %d bytes needs %d more: %w", t.budget, need, ErrTooLarge)
		}
		t.budget += need
		return nil
	}
	f := v.open
	if len(f.buf)+left+need > v.roomLocked(f.seg, f.block, class) {
		return fmt.Errorf("a batch of %d bytes needs %d more: %w", t.budget, need, ErrTooLarge)
	}
	v.growLocked(f, left+need)
	t.budget += need
	return nil
}

// fetchTries times fetchTry bounds how long Fetch waits for the device.
const (
	fetchTries = 500
	fetchTry   = 10 * time.Millisecond
)

// Fetch reads a record back while the batch is open: one of the batch's own, of another frame that is still in memory, or from
// the device. The last blocks everyone who wants to append, so it is for what could not be fetched before the batch began.
func (t *Tx) Fetch(f Fetch) ([]byte, error) {
	if p, ok := t.v.pendingRecordLocked(f.At, recEnvelope+f.Size); ok {
		return checkRecord(f, p)
	}
	r, err := t.v.NewReader(1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if err := r.submitDevice(f, 0); err != nil {
		return nil, err
	}
	var out [1]Fetched
	for range fetchTries {
		if r.move(out[:]) == 1 {
			return out[0].Payload, out[0].Err
		}
		r.take(r.queue.Wait(r.done, fetchTry))
	}
	return nil, fmt.Errorf("read at block %d: no answer within %v", t.v.lbaOf(f.At), fetchTries*fetchTry)
}

// Abandon stops the volume, as a failed device does, before this batch is written.
func (t *Tx) Abandon(cause error) {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if t.v.failure.CompareAndSwap(nil, &err) {
		t.v.log.Error().Err(err).Msg("writing has stopped")
	}
}
