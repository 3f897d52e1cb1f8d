package nvme

import (
	"runtime"
	"time"
)

// machineClock is the machine's monotonic clock. The host owns it and can make waits longer, which is denial of service.
type machineClock struct{ start time.Time }

func (c machineClock) Now() time.Duration { return time.Since(c.start) }

func (c machineClock) Pause() { runtime.Gosched() }

// Polling without a break is right for the first moments only: a flush takes milliseconds, and the host's own threads want
// the core as well.
const (
	spinFor  = 50 * time.Microsecond
	restFor  = 20 * time.Microsecond
	restLong = 200 * time.Microsecond // after restAfter
	restFrom = 5 * time.Millisecond
)

// waiter paces one wait on the machine's clock: spin, then short rests, then longer ones.
type waiter struct {
	clock Clock
	start time.Duration
}

func startWait(c Clock) waiter { return waiter{c, c.Now()} }

// rest pauses once, and returns how long the wait has taken.
func (w *waiter) rest() time.Duration {
	past := w.clock.Now() - w.start
	if _, machine := w.clock.(machineClock); !machine || past < spinFor {
		w.clock.Pause()
		return past
	}
	if past < restFrom {
		time.Sleep(restFor)
	} else {
		time.Sleep(restLong)
	}
	return past
}
