package sim

import (
	"math/rand/v2"
	"time"

	"cvmstore/epoch"
)

// clock is the host's clock as a server sees it, and the true time that a bounded counter stamps. The host may let its clocks
// jump; the monotonic one never goes back.
type clock struct {
	mono    time.Duration
	jumped  time.Duration // part of mono that never passed
	wallOff time.Duration
}

// clockStart is an arbitrary day, in milliseconds since the Unix epoch.
const clockStart = 1_800_000_000_000

const year = 365 * 24 * time.Hour

// Monotonic implements volume.Clock.
func (c *clock) Monotonic() time.Duration { return c.mono }

// Wall implements volume.Clock.
func (c *clock) Wall() int64 { return int64(c.trueTime()) + c.wallOff.Milliseconds() }

// trueTime is what a clock that nobody owns would say.
func (c *clock) trueTime() epoch.Stamp {
	return epoch.Stamp(clockStart + (c.mono - c.jumped).Milliseconds())
}

// advance lets time pass.
func (c *clock) advance(d time.Duration) { c.mono += d }

// jump is the host's doing: its wall clock by up to a year either way, or its monotonic clock forward (a machine that was
// suspended, or says so).
func (c *clock) jump(rng *rand.Rand) (what string) {
	d := time.Duration(rng.Int64N(int64(year)))
	switch rng.IntN(3) {
	case 0:
		c.wallOff += d
		return "wall clock forward"
	case 1:
		c.wallOff -= d
		return "wall clock back"
	}
	c.mono += d
	c.jumped += d
	return "monotonic clock forward"
}
