package filedev

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/dma"
)

// regionBlocks is the size from which a buffer is a region: worth huge pages, and to be registered with the rings, so that the
// kernel need not look up and pin its pages for each request.
const regionBlocks device.BlockCount = dma.HugePage / device.BlockSize

// regionMax is the largest piece that the kernel registers, in bytes.
const regionMax = 1 << 30

// region is a large buffer of Alloc.
type region struct {
	buf []byte
	// gone says that Free gave the memory back. The rings still hold its old pages: another mapping at the same address must
	// not go out as those.
	gone atomic.Bool
}

// regions are the large buffers in use.
type regions struct {
	mu   sync.Mutex
	list []*region
}

// allocRegion is Alloc of a large buffer.
func (d *Device) allocRegion(n device.BlockCount) ([]byte, error) {
	buf, kind, err := dma.Map(n.Bytes())
	if err != nil {
		return nil, fmt.Errorf("map a buffer of %d blocks: %w", n, err)
	}
	if kind == dma.Small {
		d.warn("no huge pages for a buffer of %d MiB: large transfers are slower", len(buf)>>20)
	}
	d.regions.mu.Lock()
	defer d.regions.mu.Unlock()
	d.regions.list = append(d.regions.list, &region{buf: buf})
	return buf, nil
}

// freeRegion is Free of a large buffer.
func (d *Device) freeRegion(buf []byte) {
	d.regions.mu.Lock()
	defer d.regions.mu.Unlock()
	i := slices.IndexFunc(d.regions.list, func(r *region) bool { return addressOf(r.buf) == addressOf(buf) && len(r.buf) == len(buf) })
	if i < 0 {
		panic("internal error: Free of a buffer that is not of Alloc")
	}
	d.regions.list[i].gone.Store(true)
	d.regions.list = slices.Delete(d.regions.list, i, i+1)
	if err := dma.Unmap(buf); err != nil {
		panic(fmt.Sprintf("internal error: unmap: %v", err))
	}
}

// register tells a new ring of the regions that there are. Without it everything works, a little slower.
func (q *Queue) register() {
	q.d.regions.mu.Lock()
	defer q.d.regions.mu.Unlock()
	var list []*region
	for _, r := range q.d.regions.list {
		if len(r.buf) <= regionMax {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return
	}
	if err := q.ring.register(list); err != nil {
		q.d.warn("the kernel does not register buffers (%v; see ulimit -l): large transfers are slower", err)
		return
	}
	q.regions = list
}

// regionOf returns which registered region buf lies in, or -1.
func (q *Queue) regionOf(buf []byte) int {
	if len(q.regions) == 0 {
		return -1
	}
	at := addressOf(buf)
	for i, r := range q.regions {
		if from := addressOf(r.buf); at >= from && at+uint64(len(buf)) <= from+uint64(len(r.buf)) && !r.gone.Load() {
			return i
		}
	}
	return -1
}

// fixed is the operation on a registered buffer for the one on any buffer.
var fixed = [...]uint8{opRead: opReadFixed, opWrite: opWriteFixed}

// fix makes a read or write of buf one of a registered buffer, if it is in one.
func (q *Queue) fix(e *sqe, buf []byte) {
	if i := q.regionOf(buf); i >= 0 {
		e.bufIndex, e.opcode = uint16(i), fixed[e.opcode]
	}
}
