package keyspace

import "math/rand/v2"

// Under an LFU policy the 24 bits of an entry's access field hold, as Redis' do, the minute of the last use modulo 1<<16 and a
// counter that grows with the logarithm of the number of uses and falls with time. A change of policy leaves the fields as
// they are: until a key is used again its field is misread, in Redis too.

const (
	usesMax   = 255
	usesFirst = 5 // of a new key, so that it is not the first to go
	usesMask  = 0xff
	minuteMax = 1<<16 - 1
)

// Uses says how uses of keys are counted. The zero value notes the time of the last one only.
type Uses struct {
	Count     bool  // LFU: count them
	LogFactor int64 // how many uses saturate the counter: about a million at 10
	Decay     int64 // minutes after which a counter falls by one; 0: never
}

// SetUses changes how uses are counted, from any goroutine.
func (s *Space) SetUses(u Uses) { s.uses.Store(&u) }

// CountsUses reports whether uses are counted rather than timed.
func (s *Space) CountsUses() bool { return s.uses.Load() != nil && s.uses.Load().Count }

// uses is the counter of an access field now.
func (u *Uses) uses(access, minute uint32) uint32 {
	n := access & usesMask
	if u.Decay <= 0 {
		return n
	}
	passed := (minute - access>>8) & minuteMax
	return n - uint32(min(int64(n), int64(passed)/u.Decay))
}

// used returns the access field after one more use.
func (u *Uses) used(access, minute uint32) uint32 {
	n := u.uses(access, minute)
	if n < usesMax {
		above := int64(n) - usesFirst
		if above <= 0 || rand.Float64()*float64(above*u.LogFactor+1) < 1 {
			n++
		}
	}
	return minute<<8 | n
}

// minute is the access clock of counted uses.
func (s *Space) minute() uint32 { return s.clock.Load() / 60 & minuteMax }

// Frequency returns the counter of a key's uses.
func (t *Tx) Frequency(key []byte) (n int64, found bool, err error) {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return 0, false, err
	}
	t.Now()
	u := t.w.s.uses.Load()
	if u == nil {
		u = &Uses{}
	}
	return int64(u.uses(p.entry().access&accessMask, t.w.s.minute())), true, nil
}
