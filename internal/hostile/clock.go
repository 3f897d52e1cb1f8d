package hostile

import "time"

// Clock is the controller's time, which passes only when somebody looks at it or pauses. It implements nvme.Clock.
type Clock struct{ c *Controller }

// Clock returns it.
func (c *Controller) Clock() Clock { return Clock{c} }

const (
	lookTakes  = 200 * time.Nanosecond
	pauseTakes = 20 * time.Microsecond
	idleTakes  = 2 * time.Millisecond
)

// Now implements nvme.Clock.
func (k Clock) Now() time.Duration {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	k.c.now += lookTakes
	k.c.tick()
	return k.c.now
}

// Pause implements nvme.Clock.
func (k Clock) Pause() {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	if len(k.c.pending) == 0 {
		k.c.now += idleTakes // nothing will come: the sooner the deadline, the better
	}
	k.c.now += pauseTakes
	k.c.tick()
}
