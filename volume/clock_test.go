package volume_test

import (
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// hostClock is a clock that the host sets as it likes.
type hostClock struct{ mono time.Duration }

func (c *hostClock) Monotonic() time.Duration { return c.mono }

const year = 365 * 24 * time.Hour

// TestTheHostsClockCannotExpireNorRevive: with a counter that has a clock of its own, store time never runs more than ten
// seconds ahead of the counter's, and never back, whatever the host's clock does, while running and between runs (4.7).
func TestTheHostsClockCannotExpireNorRevive(t *testing.T) {
	truth := epoch.Stamp(1_800_000_000_000)
	host := &hostClock{}
	r := newRig(t, memdev.Options{Blocks: 512}, epochtest.Options{Bounded: true, Clock: func() epoch.Stamp { return truth }})
	r.opts.Clock = host
	last := int64(0)
	check := func(when string) {
		t.Helper()
		now := r.v.Now()
		if now < last {
			t.Fatalf("%s: store time went back by %d ms", when, last-now)
		}
		if ahead := now - int64(truth); ahead > 10_000 {
			t.Fatalf("%s: store time is %d ms ahead of the counter's clock", when, ahead)
		}
		last = now
	}
	jumps := []time.Duration{time.Second, year, -year, 3 * year, -2 * year, time.Millisecond}
	for range 3 {
		r.open()
		check("after the start")
		for i, j := range jumps {
			host.mono += j
			check("after a jump while running")
			truth += epoch.Stamp(time.Second.Milliseconds())
			r.put(volume.LevelFresh, op{uint32(i), "x"})
			check("after a commit")
			if now := r.v.Now(); now < int64(truth) {
				t.Fatalf("store time %d ms behind the last stamp", int64(truth)-now)
			}
		}
		r.close()
		host.mono += year
	}
	// A counter that answers nothing more: time stands still ten seconds ahead.
	r.open()
	host.mono += year
	stood := r.v.Now()
	host.mono += year
	if r.v.Now() != stood {
		t.Fatal("store time ran on without contact")
	}
}

// TestTimeIsAskedForEachSecond: without writes, stamps still come, so that keys expire on an idle server.
func TestTimeIsAskedForEachSecond(t *testing.T) {
	truth := epoch.Stamp(1_800_000_000_000)
	host := &hostClock{}
	r := newRig(t, memdev.Options{Blocks: 512}, epochtest.Options{Bounded: true, Clock: func() epoch.Stamp { return truth }})
	r.opts.Clock = host
	r.open()
	for range 100 {
		host.mono += time.Second
		truth += 1000
		r.v.Step()
	}
	if behind := int64(truth) - r.v.Now(); behind > 2000 {
		t.Fatalf("store time is %d ms behind", behind)
	}
}

// TestTimePassesWhileRecoveryWorks: store time counts on from the moment at which the counter answered Open.
func TestTimePassesWhileRecoveryWorks(t *testing.T) {
	const stamp = epoch.Stamp(1_800_000_000_000)
	host := &hostClock{}
	r := newRig(t, memdev.Options{Blocks: 512}, epochtest.Options{Clock: func() epoch.Stamp { return stamp }})
	r.opts.Clock = host
	r.dev.SetFault(func(q memdev.Request) memdev.Fault {
		if q.Op == device.OpFlush {
			host.mono += 70 * time.Millisecond // a slow flush before the opening frame
		}
		return memdev.Fault{}
	})
	r.open()
	if late := int64(stamp) + 70 - r.v.Now(); late > 0 {
		t.Fatalf("store time is %d ms behind", late)
	}
}
