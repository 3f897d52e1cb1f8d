package bench

import (
	"math/rand/v2"
	"testing"
)

// Scores are written as Java writes doubles.
func TestScoresAreWrittenAsJavaDoes(t *testing.T) {
	for n, want := range map[int32]string{
		-594971599: "-5.94971599E8", 3366: "3366.0", 0: "0.0", -1: "-1.0", 10_000_000: "1.0E7", 9_999_999: "9999999.0",
		-2147483648: "-2.147483648E9", 1_200_000_000: "1.2E9",
	} {
		if got := javaDouble(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if h := javaHash("_indices"); h != 1445915166 && h != javaHash("_indice")*31+'s' {
		t.Errorf("hash code %d", h)
	}
}

// The popular numbers of a zipfian choice are the small ones, by about the proportions of the law.
func TestZipfPrefersSmallNumbers(t *testing.T) {
	const n, draws = 1000, 200_000
	z, rng := newZipf(n), rand.New(rand.NewPCG(1, 1))
	var seen [n]int
	for range draws {
		seen[z.next(rng)]++
	}
	for _, i := range []int{0, 1} {
		want := draws / z.zetan
		if i == 1 {
			want *= z.half - 1
		}
		if got := float64(seen[i]); got < 0.95*want || got > 1.05*want {
			t.Errorf("%d was drawn %v times, want about %v", i, got, want)
		}
	}
}
