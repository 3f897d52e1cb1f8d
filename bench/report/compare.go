package report

import (
	"fmt"
	"io"
	"math"
)

// agree is how far the ratios of two runs may be apart before a figure is called unstable.
const agree = 0.10

// Compare prints the figures that two reports share, and which of them are apart by more than ten in a hundred. It returns how
// many ratios are.
func Compare(a, b *Report, out io.Writer) (unstable int) {
	old := map[string]float64{}
	for _, f := range a.Figures() {
		old[f.Experiment+"/"+f.Name] = f.Value
	}
	fmt.Fprintf(out, "%-14s %-60s %10s %10s %8s\n", "", "", "first", "second", "change")
	for _, f := range b.Figures() {
		was, ok := old[f.Experiment+"/"+f.Name]
		if !ok {
			continue
		}
		change, mark := f.Value/was-1, ""
		if f.Unit == "x" && !(math.Abs(change) <= agree) {
			mark = "  unstable"
			unstable++
		}
		fmt.Fprintf(out, "%-14s %-60.60s %10s %10s %+7.1f%%%s\n", f.Experiment, f.Name, number(was), number(f.Value), 100*change, mark)
	}
	return unstable
}
