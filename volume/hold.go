package volume

import "time"

// HoldMax bounds how long one call holds.
const HoldMax = 5 * time.Minute

// Hold keeps every block that is in use now, or comes into use, from being used again for a time of at most HoldMax: what a copy of the
// device needs that is taken while the volume is written. Calls renew it. The number that it returns stays the same as long as the
// hold did not lapse: when another one comes back, a copy that was begun under the first is worthless.
func (v *Volume) Hold(d time.Duration) uint64 {
	v.leader.Lock()
	defer v.leader.Unlock()
	now := v.clock.Monotonic()
	if now >= v.hold.until {
		v.hold.number++
	}
	v.hold.until = max(v.hold.until, now+min(d, HoldMax))
	return v.hold.number
}

// Unhold ends a hold.
func (v *Volume) Unhold() {
	v.leader.Lock()
	defer v.leader.Unlock()
	v.hold.until = 0
}

// hold is the leader's.
type hold struct {
	until  time.Duration // monotonic
	number uint64
}

// heldLocked reports whether freed blocks have to wait. The leader asks before it gives any back.
func (v *Volume) heldLocked() bool { return v.hold.until > 0 && v.clock.Monotonic() < v.hold.until }
