package geo

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Palermo and Catania are the places of Redis' own documentation, whose numbers are known.
var (
	palermo = Point{13.361389, 38.115556}
	catania = Point{15.087269, 37.502669}
)

func TestKnownPlaces(t *testing.T) {
	for _, c := range []struct {
		p     Point
		score uint64
		text  string
	}{{palermo, 3479099956230698, "sqc8b49rny0"}, {catania, 3479447370796909, "sqdtr74hyu0"}} {
		if got := Score(c.p); got != c.score {
			t.Errorf("score of %v: %d, want %d", c.p, got, c.score)
		}
		if got := Text(Place(float64(c.score))); got != c.text {
			t.Errorf("name of %v: %s, want %s", c.p, got, c.text)
		}
	}
	if d := Distance(Place(float64(Score(palermo))), Place(float64(Score(catania)))); math.Abs(d-166274.1516) > 0.0001 {
		t.Errorf("distance %f", d)
	}
}

// slowScore halves the ranges, a bit after the other.
func slowScore(p Point) (score uint64) {
	lonLow, lonHigh, latLow, latHigh := -180.0, 180.0, -LatMax, LatMax
	for range stepMax {
		score <<= 2
		if mid := (lonLow + lonHigh) / 2; p.Lon >= mid {
			score |= 2
			lonLow = mid
		} else {
			lonHigh = mid
		}
		if mid := (latLow + latHigh) / 2; p.Lat >= mid {
			score |= 1
			latLow = mid
		} else {
			latHigh = mid
		}
	}
	return score
}

func random(rng *rand.Rand) Point {
	return Point{(rng.Float64()*2 - 1) * LonMax, (rng.Float64()*2 - 1) * LatMax}
}

func TestScoresAreWhereTheyShouldBe(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const width, height = 360.0 / (1 << stepMax), 2 * LatMax / (1 << stepMax)
	for range 20000 {
		p := random(rng)
		score := Score(p)
		if slow := slowScore(p); score != slow {
			t.Fatalf("%v: %b, want %b", p, score, slow)
		}
		q := Place(float64(score))
		if math.Abs(p.Lon-q.Lon) > width || math.Abs(p.Lat-q.Lat) > height {
			t.Fatalf("%v comes back as %v", p, q)
		}
		if again := Score(q); again != score {
			t.Fatalf("%v: %d, then %d", p, score, again)
		}
	}
}

// TestRangesHaveAllOfTheArea: whatever is inside an area has a score in one of its ranges, and in one only.
func TestRangesHaveAllOfTheArea(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	inside := 0
	for range 4000 {
		size := math.Pow(10, 1+rng.Float64()*5.5) // up to some 3000 km
		a := Area{Centre: random(rng), Unit: 1, Radius: size}
		if rng.IntN(2) == 0 {
			a = Area{Centre: a.Centre, Unit: 1, Box: true, Width: size, Height: math.Pow(10, 1+rng.Float64()*5.5)}
		}
		// Beyond the poles and the date line Redis does not look, nor do we.
		if b := a.bounds(); b.west < -LonMax || b.east > LonMax || b.south < -LatMax || b.north > LatMax || math.IsNaN(b.west) {
			continue
		}
		ranges := a.Ranges()
		if len(ranges) > 9 {
			t.Fatalf("%d ranges", len(ranges))
		}
		b := a.bounds()
		for range 50 {
			p := Point{b.west + rng.Float64()*(b.east-b.west), b.south + rng.Float64()*(b.north-b.south)}
			score := float64(Score(p))
			if _, ok := a.Contains(Place(score)); !ok {
				continue
			}
			inside++
			n := 0
			for _, r := range ranges {
				if score >= r.Min && score < r.Max {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%v, in %+v, is in %d ranges", p, a, n)
			}
		}
	}
	if inside < 10000 {
		t.Fatalf("only %d points were inside", inside)
	}
}

func TestScoresThatNoPointHas(t *testing.T) {
	for _, score := range []float64{-1, 1 << 52, 1 << 60, 1e300, -1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1<<63 + 1<<12} {
		if p := Place(score); !p.Valid() {
			t.Errorf("%g is at %v", score, p)
		}
	}
}
