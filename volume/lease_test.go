package volume_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// lateCounter is a counter whose answers take longer than the lease, by the volume's clock.
type lateCounter struct {
	epoch.Service
	clock *leaseClock
	by    time.Duration
	n     int
}

type leaseClock struct{ now time.Duration }

func (c *leaseClock) Monotonic() time.Duration { return c.now }

func (c *lateCounter) Commit(req epoch.CommitRequest, done func(epoch.Stamp, error)) {
	c.n++
	c.clock.now += c.by
	if c.n == 2 {
		c.by = 0
	}
	c.Service.Commit(req, done)
}

// An opening whose answer took longer than the lease is confirmed before anybody is served (DESIGN.md 6.4.5); and a counter that
// always takes longer is an error, not an endless start.
func TestOpeningIsConfirmedWithinTheLease(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 512}, epochtest.Options{})
	clock := &leaseClock{now: time.Second}
	late := &lateCounter{Service: r.counter, clock: clock, by: 3 * time.Second}
	o := volume.Options{
		Device: r.dev, Counter: late, Keys: r.keys, Clock: clock, FreshLease: 2 * time.Second, SegmentBlocks: 4,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: &toyStore{items: map[uint32]toyItem{}}},
	}
	v, err := volume.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if late.n != 3 {
		t.Errorf("%d commits of the opening frame; two answers came too late", late.n)
	}
	if v.Lapsed() {
		t.Error("it serves without a lease")
	}
	if err := v.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	late.by, late.n = 3*time.Second, 10
	if _, err := volume.Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), "longer than the fresh lease") {
		t.Errorf("a counter that is slower than the lease: %v", err)
	}
}
