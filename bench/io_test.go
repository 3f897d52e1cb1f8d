package bench

import (
	"errors"
	"math"
	"strings"
	"testing"

	"cvmstore/ioengine/filedev"
)

// TestIOPrintsItsTables runs every part at a size that means nothing, so that the program does not rot.
func TestIOPrintsItsTables(t *testing.T) {
	for _, c := range []struct {
		part string
		want []string
	}{
		{"modelled", []string{"write  1 MiB", "read   1 MiB", "write  2 MiB", "crypto"}},
		{"ablations", []string{"full protection", "raw", "staging copy", "AES-256-GCM", "no overlap", "XTS"}},
		{"file", []string{"write  1 MiB", "read   2 MiB"}},
		{"commits", []string{"alone", "write, 4 in flight", "read, 32 in flight"}},
		{"amplification", []string{"1048576        1.00006   1.00006     1.005", "8388609        1.00055   1.00055     1.001"}},
	} {
		t.Run(c.part, func(t *testing.T) {
			if testing.Short() && (c.part == "file" || c.part == "commits") {
				t.Skip("writes files")
			}
			var out strings.Builder
			err := CompareIO(IOOptions{
				Dir: t.TempDir(), Only: []string{c.part}, Rounds: 1, Slices: 1, SliceMiB: 1, SizesMiB: []int{1, 2}, Depth: 4,
				ReadRate: 2, WriteRate: 2, NoFio: true, Out: &out,
			})
			if errors.Is(err, filedev.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%s", want, out.String())
				}
			}
		})
	}
	if err := CompareIO(IOOptions{Only: []string{"nonsense"}}); err == nil {
		t.Error("an unknown part was accepted")
	}
}

func TestTheIntervalHoldsTheMedian(t *testing.T) {
	var samples []float64
	for i := range 101 {
		samples = append(samples, float64(i))
	}
	s := bootstrap(samples)
	if s.median != 50 || s.low > 50 || s.high < 50 || s.low < 25 || s.high > 75 || math.Abs((50-s.low)-(s.high-50)) > 15 {
		t.Errorf("%v", s)
	}
}
