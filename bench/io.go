package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// IOOptions say how to measure the sealed I/O path.
type IOOptions struct {
	Dir       string   // for the volume file; default: a temporary directory in the current one
	Only      []string // which parts: modelled, ablations, file, commits, amplification; none: all
	Rounds    int      // of each side on the modelled device; default 15
	Slices    int      // of each side on the file; default 64
	SliceMiB  int      // how much one slice on the file moves; default 64
	SizesMiB  []int    // of objects; default 1, 16, 256 and 1024
	ChunkKiB  int      // default 256
	Depth     int      // default 32
	ReadRate  float64  // GB/s of the modelled device; 0: 13.6, or a half, a quarter of it if this machine cannot move that
	WriteRate float64  // GB/s; 0: 6.9, likewise
	NVMe      bool     // the modelled drive behind our NVMe driver and a controller in software, rather than driven directly
	NoFio     bool     // for tests
	Out       io.Writer
}

// ioTable is one of the parts.
type ioTable struct {
	name string
	run  func(IOOptions) error
}

// ioTables stand in the order in which they run.
var ioTables = []ioTable{
	{"modelled", compareModelled},
	{"ablations", compareAblations},
	{"file", compareFile},
	{"commits", compareCommits},
	{"amplification", countAmplification},
}

// CompareIO measures the engine against the device and against itself with parts taken away, and prints what it finds.
func CompareIO(o IOOptions) error {
	o.setDefaults()
	for _, name := range o.Only {
		if !slices.ContainsFunc(ioTables, func(t ioTable) bool { return t.name == name }) {
			return fmt.Errorf("no part %q", name)
		}
	}
	// The engine is one thread. A modelled device has another one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, p := range ioTables {
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		if err := p.run(o); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintln(o.Out)
	}
	return nil
}

func (o *IOOptions) setDefaults() {
	for p, v := range map[*int]int{&o.Rounds: 15, &o.Slices: 64, &o.SliceMiB: 64, &o.ChunkKiB: 256, &o.Depth: 32} {
		if *p == 0 {
			*p = v
		}
	}
	if len(o.SizesMiB) == 0 {
		o.SizesMiB = []int{1, 16, 256, 1024}
	}
}

func (o *IOOptions) chunk() int { return o.ChunkKiB << 10 }

func mib(n int) int64 { return int64(n) << 20 }

// largest returns the largest object, in bytes.
func (o *IOOptions) largest() int64 { return mib(slices.Max(o.SizesMiB)) }

// newPool makes the buffers that all sides of a part share: they run one after the other.
func (o *IOOptions) newPool(dev device.Device, sides int) (*ioengine.Pool, error) {
	// The extra block is room for the tag of WithGCM.
	chunk := min(o.chunk()+device.BlockSize, ioengine.ChunkMax)
	return ioengine.NewPool(dev, ioengine.PoolOptions{Buffers: o.Depth + o.Depth/2 + 2*sides, Chunk: chunk})
}

// spread is a median with the bounds of its 95 % confidence interval.
type spread struct{ median, low, high float64 }

// bootstrap computes the interval by drawing samples with repetition. Its random numbers are the same each time.
func bootstrap(samples []float64) spread {
	const draws = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	medians := make([]float64, draws)
	drawn := make([]float64, len(samples))
	for i := range medians {
		for j := range drawn {
			drawn[j] = samples[rng.IntN(len(samples))]
		}
		medians[i] = medianOf(drawn)
	}
	slices.Sort(medians)
	return spread{medianOf(samples), medians[draws*25/1000], medians[draws*975/1000]}
}

func (s spread) String() string { return fmt.Sprintf("%.3f [%.3f to %.3f]", s.median, s.low, s.high) }

// clockGHz is the rate of the processor's reference cycles, 0 if the system does not say.
func clockGHz() float64 {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "cpu MHz" {
			mhz, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return mhz / 1000
		}
	}
	return 0
}

func sizeName(bytes int64) string {
	if bytes >= 1<<30 && bytes%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
