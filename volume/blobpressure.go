package volume

import (
	"sync/atomic"
	"time"
)

// Large transfers give way to small commits: each durable write waits behind what the device has already taken, and its flush
// behind what lies in the device's cache. While commits follow one another closely, each BlobIO keeps few chunks at the device,
// which costs a transfer little, and everything that moves large values does so in smaller turns (BlobIO.Pressed).

const (
	pressureGap  = 20 * time.Millisecond // two commits within this are a sign of small writes: a transfer makes one at its end
	pressureHold = 50 * time.Millisecond // how long the sign counts
	pressedDepth = 4                     // chunks at the device meanwhile (ioengine.Engine.Limit)
)

// pressure remembers when frames went out.
type pressure struct {
	last  time.Duration // the leader's
	until atomic.Int64  // monotonic nanoseconds
}

// frameOut takes note of a frame. The leader calls it.
func (p *pressure) frameOut(now time.Duration) {
	if now-p.last < pressureGap {
		p.until.Store(int64(now + pressureHold))
	}
	p.last = now
}

// Pressed reports whether small commits are under way, to which large values give way.
func (io *BlobIO) Pressed() bool { return int64(io.v.clock.Monotonic()) < io.v.pressure.until.Load() }

// giveWay bounds what this BlobIO has at the device.
func (io *BlobIO) giveWay() {
	depth := io.v.opts.Blobs.Depth
	if io.Pressed() {
		depth = min(depth, pressedDepth)
	}
	io.e.Limit(depth)
}
