package memdev

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
)

func TestContract(t *testing.T) {
	for _, manual := range []bool{false, true} {
		t.Run(fmt.Sprintf("manual=%v", manual), func(t *testing.T) {
			devicetest.Run(t, func(*testing.T) device.Device {
				return New(Options{Blocks: devicetest.Blocks, BlocksMax: devicetest.BlocksMax, Seed: 3, Manual: manual, History: true})
			})
		})
	}
}

// rig is a device with one queue.
type rig struct {
	*Device
	t *testing.T
	q device.Queue
}

func newRig(t *testing.T, o Options) *rig {
	r := &rig{Device: New(o), t: t}
	r.reopen()
	return r
}

func (r *rig) reopen() {
	q, err := r.NewQueue(64)
	if err != nil {
		r.t.Fatal(err)
	}
	r.q = q
}

// block makes a buffer filled with v.
func (r *rig) block(v byte) []byte {
	buf, err := r.Alloc(1)
	if err != nil {
		r.t.Fatal(err)
	}
	fill(buf, v)
	return buf
}

func (r *rig) write(lba device.LBA, v byte, through bool) error {
	return devicetest.Do(r.t, r.q, device.Request{Op: device.OpWrite, LBA: lba, Buf: r.block(v), Through: through})[0]
}

func (r *rig) flush() error { return devicetest.Do(r.t, r.q, device.Request{Op: device.OpFlush})[0] }

func (r *rig) submit(reqs ...device.Request) {
	r.t.Helper()
	if n, err := r.q.Submit(reqs); n != len(reqs) || err != nil {
		r.t.Fatalf("submitted %d: %v", n, err)
	}
}

// sectors returns the distinct values of the sectors of a block, whose bytes must be equal within a sector.
func (r *rig) sectors(lba device.LBA) (values []byte) {
	c := r.Peek(lba)
	for at := 0; at < len(c); at += sectorSize {
		s := c[at : at+sectorSize]
		if bytes.Count(s, s[:1]) != sectorSize {
			r.t.Fatalf("a sector of block %d is torn inside", lba)
		}
		if !slices.Contains(values, s[0]) {
			values = append(values, s[0])
		}
	}
	return values
}

func TestPowerCutKeepsWhatWasMadeDurableAndOnlyThat(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(400) {
		r := newRig(t, Options{Blocks: 16, Seed: seed, Manual: true})
		_ = r.write(0, 1, true)  // durable by itself
		_ = r.write(1, 1, false) // durable by the flush
		_ = r.flush()
		_ = r.write(2, 1, false)                                                             // completed, not flushed
		_ = r.write(1, 2, false)                                                             // a later version, not flushed
		r.submit(device.Request{Op: device.OpWrite, LBA: 3, Buf: r.block(1)})                // in flight
		r.submit(device.Request{Op: device.OpWrite, LBA: 4, Buf: r.block(1), Through: true}) // in flight
		old := r.q
		r.PowerCut(rand.New(rand.NewPCG(seed, 1)))
		if got := r.sectors(0); !slices.Equal(got, []byte{1}) {
			t.Fatalf("seed %d: a write through was lost: %v", seed, got)
		}
		if got := r.sectors(1); slices.Contains(got, 0) {
			t.Fatalf("seed %d: a flushed write was lost", seed)
		}
		for lba := range device.LBA(5) {
			outcomes[fmt.Sprint(lba, len(r.sectors(lba)) > 1, slices.Max(r.sectors(lba)))]++
		}
		if _, err := old.Poll(make([]device.Completion, 1)); !errors.Is(err, ErrGone) {
			t.Fatalf("the old queue lives: %v", err)
		}
		r.reopen()
		if err := r.write(3, 9, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"0 false 1", "1 false 1", "1 false 2", "1 true 2", "2 false 0", "2 false 1", "2 true 1",
		"3 false 0", "3 false 1", "3 true 1", "4 false 0", "4 false 1", "4 true 1",
	} {
		if outcomes[want] == 0 {
			t.Errorf("(block, torn, newest) = (%s) never happened: %v", want, outcomes)
		}
	}
}

func TestFlushCoversOnlyWhatCompletedBeforeItBegan(t *testing.T) {
	lost := 0
	for seed := range uint64(100) {
		r := newRig(t, Options{Blocks: 4, Seed: seed})
		_ = r.write(0, 1, false)
		r.SetFault(Nth(device.OpFlush, 1, Fault{Delay: 5}))
		r.submit(device.Request{Op: device.OpFlush, Token: 7})
		out := make([]device.Completion, 1)
		r.submit(device.Request{Op: device.OpWrite, LBA: 0, Buf: r.block(2)})
		for flushed := false; !flushed; flushed = out[0].Token == 7 {
			if n, err := r.q.Poll(out); err != nil {
				t.Fatal(n, err)
			}
		}
		r.PowerCut(nil)
		if got := r.sectors(0); slices.Contains(got, 0) {
			t.Fatalf("seed %d: lost what the flush covers", seed)
		} else if slices.Contains(got, 1) {
			lost++
		}
	}
	if lost == 0 {
		t.Error("a write that completed after the flush began was never lost")
	}
}

func TestManyVersionsInTheCacheStayCoveredByAFlush(t *testing.T) {
	for seed := range uint64(50) {
		r := newRig(t, Options{Blocks: 1, Seed: seed})
		_ = r.write(0, 1, false)
		r.SetFault(Nth(device.OpFlush, 1, Fault{Delay: 1000}))
		r.submit(device.Request{Op: device.OpFlush})
		for v := byte(2); v < 3*versionsMax; v++ {
			r.submit(device.Request{Op: device.OpWrite, Buf: r.block(v)})
			if n, err := r.q.Poll(make([]device.Completion, 1)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if n, err := r.q.Wait(make([]device.Completion, 1), 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		r.PowerCut(nil)
		if slices.Contains(r.sectors(0), 0) {
			t.Fatalf("seed %d: lost what the flush covers", seed)
		}
	}
}

func TestKillKeepsTheCache(t *testing.T) {
	landed := 0
	for seed := range uint64(100) {
		r := newRig(t, Options{Blocks: 4, Seed: seed, Manual: true})
		_ = r.write(0, 1, false)
		r.submit(device.Request{Op: device.OpWrite, LBA: 1, Buf: r.block(1)})
		r.Kill()
		if !slices.Equal(r.sectors(0), []byte{1}) {
			t.Fatal("a completed write was lost")
		}
		if len(r.sectors(1)) != 1 {
			t.Fatal("a block is torn")
		}
		landed += int(r.sectors(1)[0])
	}
	if landed == 0 || landed == 100 {
		t.Errorf("writes in flight landed %d times of 100", landed)
	}
}

func TestManualIsAFunctionOfItsSeed(t *testing.T) {
	trace := func(seed uint64) string {
		r := newRig(t, Options{Blocks: 64, BlocksMax: 128, Seed: seed, Manual: true, Garbage: true})
		var log strings.Builder
		out := make([]device.Completion, 64)
		for round := range 20 {
			for i := range 10 {
				op := []device.Op{device.OpWrite, device.OpRead, device.OpFlush, device.OpTrim}[(i*i+round)%4]
				r.submit(device.Request{Op: op, LBA: device.LBA(i * 3), Count: 2, Buf: r.block(byte(round)), Token: uint64(i), Through: i%3 == 0})
			}
			done, err := r.Reserve(100)
			n, _ := r.q.Wait(out, time.Hour)
			fmt.Fprint(&log, done, err, out[:n])
			switch round % 3 {
			case 0:
				r.PowerCut(nil)
			case 1:
				r.Kill()
			default:
				if err := r.q.Close(); err != nil {
					t.Fatal(err)
				}
			}
			r.reopen()
			for lba := range device.LBA(64) {
				fmt.Fprintf(&log, "%x", r.Peek(lba)[:600])
			}
		}
		fmt.Fprint(&log, r.Counters())
		return log.String()
	}
	first := trace(1)
	if trace(1) != first {
		t.Error("the same seed ran differently")
	}
	if trace(2) == first {
		t.Error("another seed ran the same")
	}
}

func TestManualReordersAndDelays(t *testing.T) {
	r := newRig(t, Options{Blocks: 64, Seed: 5, Manual: true})
	for i := range uint64(32) {
		r.submit(device.Request{Op: device.OpRead, LBA: device.LBA(i), Buf: r.block(0), Token: i})
	}
	var order []uint64
	polls := 0
	for out := make([]device.Completion, 64); r.q.Outstanding() > 0; polls++ {
		n, err := r.q.Poll(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range out[:n] {
			order = append(order, c.Token)
		}
	}
	if polls < 2 || slices.IsSorted(order) {
		t.Errorf("%d polls, order %v", polls, order)
	}
}
