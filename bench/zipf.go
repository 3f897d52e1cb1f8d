package bench

import (
	"math"
	"math/rand/v2"
)

// chooser draws items from 0 to n-1: evenly, or by Zipf's law with an exponent below 1 (Gray et al., "Quickly generating
// billion-record synthetic databases"), scrambled so that popular items do not lie side by side.
type chooser struct {
	rng  *rand.Rand
	n    int
	zipf bool

	theta, alpha, zetan, eta float64
}

func newChooser(rng *rand.Rand, n int, theta float64) *chooser {
	c := &chooser{rng: rng, n: n, theta: theta, zipf: theta > 0}
	if !c.zipf {
		return c
	}
	for i := 1; i <= n; i++ {
		c.zetan += 1 / math.Pow(float64(i), theta)
	}
	zeta2 := 1 + math.Pow(0.5, theta)
	c.alpha = 1 / (1 - theta)
	c.eta = (1 - math.Pow(2/float64(n), 1-theta)) / (1 - zeta2/c.zetan)
	return c
}

func (c *chooser) next() int {
	if !c.zipf {
		return c.rng.IntN(c.n)
	}
	u := c.rng.Float64()
	uz := u * c.zetan
	rank := 0
	switch {
	case uz < 1:
	case uz < 1+math.Pow(0.5, c.theta):
		rank = 1
	default:
		rank = min(int(float64(c.n)*math.Pow(c.eta*u-c.eta+1, c.alpha)), c.n-1)
	}
	return int(uint64(rank) * 0x9e3779b97f4a7c15 % uint64(c.n))
}
