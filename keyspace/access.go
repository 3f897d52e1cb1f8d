package keyspace

// An entry's access clock says when its key was last used: seconds of store time since Attach, modulo 1<<24 (194 days). It is
// kept in memory only, so after a restart no key has been idle for longer than the server runs, as with Redis.

// idleSlack is how far, in seconds, an entry's clock may be ahead of the space's: two transactions may set it in the wrong
// order.
const idleSlack = 60

// tick moves the access clock to a store time. Whoever asks for the time calls it, the expiry cycle ten times a second.
func (s *Space) tick(now int64) {
	if c := s.seconds(now); c != s.clock.Load() {
		s.clock.Store(c)
	}
}

func (s *Space) seconds(now int64) uint32 { return uint32((now - s.base) / 1000) }

// accessed notes that an entry's key is used now. It costs no clock.
func (t *Tx) accessed(e *entry) {
	if t.quiet {
		return
	}
	if u := t.w.s.uses.Load(); u != nil && u.Count {
		e.access = e.access&^accessMask | u.used(e.access&accessMask, t.w.s.minute())
		return
	}
	e.access = e.access&^accessMask | t.w.s.clock.Load()&accessMask
}

// created notes the first use of a key.
func (t *Tx) created(e *entry) {
	if t.w.s.CountsUses() {
		e.access = e.access&^accessMask | t.w.s.minute()<<8 | usesFirst
		return
	}
	t.accessed(e)
}

// IdleTime returns for how many seconds a key has not been used.
func (t *Tx) IdleTime(key []byte) (seconds int64, found bool, err error) {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return 0, false, err
	}
	return int64(t.w.s.idle(p.entry(), t.Now())), true, nil
}

// idle is for how many seconds an entry's key has not been used.
func (s *Space) idle(e *entry, now int64) uint32 {
	idle := (s.seconds(now) - e.access) & accessMask
	if idle > accessMask-idleSlack {
		return 0
	}
	return idle
}

// SetUse makes a key, which exists, count as unused for that many seconds, or, where uses are counted, as used that often
// (RESTORE IDLETIME and FREQ). What is negative stays as it is.
func (t *Tx) SetUse(key []byte, idle, uses int64) {
	p := t.locate(key)
	if p.i < 0 || !p.entry().live() {
		panic("internal error: keyspace: use of an absent key")
	}
	e, now := p.entry(), t.Now()
	switch counts := t.w.s.CountsUses(); {
	case counts && uses >= 0:
		e.access = e.access&^accessMask | t.w.s.minute()<<8 | uint32(min(uses, usesMax))
	case !counts && idle >= 0:
		e.access = e.access&^accessMask | (t.w.s.seconds(now)-uint32(min(idle, accessMask-idleSlack)))&accessMask
	}
}
