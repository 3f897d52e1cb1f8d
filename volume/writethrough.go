package volume

import (
	"time"

	"cvmstore/ioengine/device"
)

// throughWriter is a device queue that can also write durably in the calling thread. A completion's way back through the
// kernel's worker, the ring and epoll costs about what a small durable write itself costs on a local disk, and a hop more
// when other processes want the cores; and while the thread writes, the sockets collect a larger batch for the next frame.
type throughWriter interface {
	WriteThrough(lba device.LBA, buf []byte) error
}

const (
	throughBytesMax   = 64 << 10         // longer frames are worth overlapping with the next one
	throughLatencyMax = time.Millisecond // a slower device must not hold up the loop
	throughFramesMax  = 4                // in one step, so that sockets get their turn
	throughProbe      = time.Second      // how often a slow device is tried again
)

// throughState decides by what the last writes took, as a moving average.
type throughState struct {
	latency time.Duration
	probe   time.Duration // monotonic; when the next try is due while latency is above the limit
}

// writesThrough reports whether a frame is written in this thread: it is short, nothing is in flight, and the device is fast.
func (v *Volume) writesThrough(f *frame) (throughWriter, bool) {
	w, ok := v.queue.(throughWriter)
	if !ok || v.opts.Parallel || len(f.dma) > min(throughBytesMax, v.transfer.Bytes()) || len(v.inflight) > 0 {
		return nil, false
	}
	t := &v.through
	return w, t.latency <= throughLatencyMax || v.clock.Monotonic() >= t.probe
}

func (v *Volume) writeThroughNow(w throughWriter, f *frame) {
	v.stats.bytesWritten += uint64(len(f.dma))
	start := v.clock.Monotonic()
	err := w.WriteThrough(f.lba(), f.dma)
	end := v.clock.Monotonic()
	t := &v.through
	if t.latency > throughLatencyMax {
		t.latency = end - start // a probe: it alone says how the device is now
	} else {
		t.latency += (end - start - t.latency) / 8
	}
	t.probe = end + throughProbe
	v.inflight = append(v.inflight, f)
	if err != nil {
		v.fail(ErrFailed, err)
		return
	}
	f.done = true
	v.advanceDurable()
}
