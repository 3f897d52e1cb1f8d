package volume

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/ioengine/device"
)

// readSummaries replays the records that the summaries of these segments list, several segments at a time. The order does not
// matter: the highest counter wins (6.4.2). Segments without one were followed frame by frame.
func (v *Volume) readSummaries(segments []*segment) error {
	var list []*segment
	for _, s := range segments {
		if s.summary.lba != 0 {
			list = append(list, s)
		}
	}
	workers := v.opts.RecoveryWorkers
	if workers <= 0 {
		workers = min(runtime.GOMAXPROCS(0), 8)
	}
	var next atomic.Int64
	errs := make([]error, min(workers, len(list)))
	var all sync.WaitGroup
	work := func(i int) {
		defer all.Done()
		r := summaryReader{v: v}
		defer r.close()
		for errs[i] == nil {
			n := int(next.Add(1)) - 1
			if n >= len(list) {
				return
			}
			errs[i] = r.replay(list[n])
		}
	}
	all.Add(len(errs))
	if len(errs) == 1 {
		work(0)
		return errs[0]
	}
	for i := range errs {
		go work(i)
	}
	all.Wait()
	return errors.Join(errs...)
}

// summaryReader reads summaries, one after the other, through a queue of its own.
type summaryReader struct {
	v     *Volume
	queue device.Queue
	buf   []byte
	done  [summaryDepth]device.Completion
	x     scratch
}

// summaryDepth is how many reads of a summary are under way at once.
const summaryDepth = 16

func (r *summaryReader) close() {
	if r.queue != nil {
		_ = r.queue.Close()
	}
	if r.buf != nil {
		r.v.dev.Free(r.buf)
	}
}

func (r *summaryReader) replay(seg *segment) error {
	shared, err := r.read(seg.summary.extent())
	if err != nil {
		return fmt.Errorf("%w: summary at block %d: %w", errUnread, seg.summary.lba, err)
	}
	body, err := r.v.openSummary(seg, shared)
	if err != nil {
		return err
	}
	err = readListing(body, seg.summary.records, seg.end.Bytes(), func(rec *record, offset, size int) error {
		s := r.v.opts.Stores[rec.store]
		if s == nil {
			return fmt.Errorf("record of store %d, which this program does not know: %w", rec.store, ErrCorrupt)
		}
		return s.Replay(r.v, Record{
			Store: rec.store, Kind: rec.kind, Counter: rec.counter, Place: placeOf(seg.ordinal, offset), Size: size, Payload: rec.payload,
		})
	})
	if err != nil {
		if errors.Is(err, errFormat) {
			err = fmt.Errorf("%w: %w", err, ErrCorrupt)
		}
		return fmt.Errorf("summary at block %d of the segment at block %d: %w", seg.summary.lba, seg.lba, err)
	}
	return nil
}

// read reads an extent into shared memory.
func (r *summaryReader) read(x extent) (shared []byte, err error) {
	if r.queue == nil {
		if r.queue, err = r.v.dev.NewQueue(summaryDepth); err != nil {
			return nil, err
		}
	}
	if len(r.buf) < x.n.Bytes() {
		if r.buf != nil {
			r.v.dev.Free(r.buf)
		}
		if r.buf, err = r.v.dev.Alloc(dmaClass(x.n)); err != nil {
			return nil, err
		}
	}
	shared = r.buf[:x.n.Bytes()]
	clear(shared) // a read that never happens must not serve the last one's data
	return shared, readExtent(r.v, r.queue, r.done[:], shared, x.lba)
}

// readExtent reads blocks through a queue that nobody else uses, several requests at a time, and waits for all of them.
func readExtent(v *Volume, q device.Queue, done []device.Completion, buf []byte, lba device.LBA) error {
	step := max(1, min(readTransfer, v.transfer)).Bytes()
	deadline := v.clock.Monotonic() + ioTimeout
	var first error
	for from := 0; from < len(buf) || q.Outstanding() > 0; {
		for from < len(buf) && q.Outstanding() < len(done) {
			to := min(from+step, len(buf))
			n, err := q.Submit([]device.Request{{Op: device.OpRead, LBA: lba + device.LBA(from/device.BlockSize), Buf: buf[from:to]}})
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			from = to
		}
		n, err := q.Wait(done, time.Second)
		if err != nil {
			return err
		}
		for _, c := range done[:n] {
			if c.Err != nil && first == nil {
				first = c.Err
			}
		}
		if v.clock.Monotonic() > deadline {
			return errors.New("the device does not answer")
		}
	}
	v.stats.bytesRead.Add(uint64(len(buf)))
	return first
}
