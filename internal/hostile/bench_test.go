package hostile_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"cvmstore/internal/hostile"
	"cvmstore/ioengine/device"
	"cvmstore/nvme"
)

// The driver and an honest controller that moves no data, both on the benchmark's core, in batches of 32 commands of 4 KiB: the
// controller's work is part of the figures.
func BenchmarkCommands(b *testing.B) {
	for _, o := range []struct {
		name string
		op   device.Op
	}{{"read", device.OpRead}, {"write", device.OpWrite}} {
		b.Run(o.name, func(b *testing.B) {
			c := hostile.New(hostile.Options{NoData: true, RealTime: true})
			d, err := nvme.Open(c, c, nvme.Options{})
			if err != nil {
				b.Fatal(err)
			}
			q, err := d.NewQueue(64)
			if err != nil {
				b.Fatal(err)
			}
			const batch = 32
			buf, err := d.Alloc(batch)
			if err != nil {
				b.Fatal(err)
			}
			reqs := make([]device.Request, batch)
			for i := range reqs {
				reqs[i] = device.Request{Op: o.op, LBA: device.LBA(17 * i), Token: uint64(i), Buf: buf[i*device.BlockSize : (i+1)*device.BlockSize]}
			}
			out := make([]device.Completion, batch)
			b.ReportAllocs()
			b.ResetTimer()
			done := 0
			for done < b.N {
				if n, err := q.Submit(reqs); n != batch || err != nil {
					b.Fatal(n, err)
				}
				for left := batch; left > 0; {
					n, err := q.Poll(out)
					if err != nil {
						b.Fatal(err)
					}
					left -= n
				}
				done += batch
			}
			b.StopTimer()
			b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "commands/s")
			if hz := clockRate(); hz > 0 {
				b.ReportMetric(hz*b.Elapsed().Seconds()/float64(done), "cycles/command")
			}
			if err := q.Close(); err != nil {
				b.Fatal(err)
			}
			if err := d.Close(); err != nil {
				b.Fatal(err)
			}
			blameless(b, c)
		})
	}
}

// clockRate is the CPU's nominal cycles a second as Linux shows them, or 0.
func clockRate() float64 {
	text, _ := os.ReadFile("/proc/cpuinfo")
	m := regexp.MustCompile(`(?m)^cpu MHz\s*: ([0-9.]+)`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	mhz, _ := strconv.ParseFloat(string(m[1]), 64)
	return mhz * 1e6
}

// Nothing is allocated for a command, and nothing grows.
func TestCommandsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := hostile.New(hostile.Options{NoData: true, RealTime: true})
	d := open(t, c, nvme.Options{Clock: c.Clock()})
	q, err := d.NewQueue(16)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := d.Alloc(16)
	if err != nil {
		t.Fatal(err)
	}
	reqs := []device.Request{
		{Op: device.OpRead, Buf: buf}, {Op: device.OpWrite, LBA: 16, Buf: buf[:8192], Through: true}, {Op: device.OpFlush}, {Op: device.OpRead, Buf: buf[:4096]},
	}
	var out [4]device.Completion
	n := testing.AllocsPerRun(2000, func() {
		if n, err := q.Submit(reqs); n != len(reqs) || err != nil {
			t.Fatal(n, err)
		}
		for left := len(reqs); left > 0; {
			n, err := q.Poll(out[:])
			if err != nil {
				t.Fatal(err)
			}
			left -= n
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for %d commands", n, len(reqs))
	}
}
