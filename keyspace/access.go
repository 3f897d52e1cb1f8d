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

func (s *Space) seconds(now int64) uint32 { return uint32((now-s.base)/1000) & accessMask }

// accessed notes that an entry's key is used now. It costs no clock.
func (t *Tx) accessed(e *entry) {
	if !t.quiet {
		e.access = e.access&^accessMask | t.w.s.clock.Load()
	}
}

// IdleTime returns for how many seconds a key has not been used.
func (t *Tx) IdleTime(key []byte) (seconds int64, found bool, err error) {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return 0, false, err
	}
	idle := (t.w.s.seconds(t.Now()) - p.entry().access) & accessMask
	if idle > accessMask-idleSlack {
		idle = 0
	}
	return int64(idle), true, nil
}

// SetIdle makes a key, which exists, count as unused for that many seconds (RESTORE IDLETIME).
func (t *Tx) SetIdle(key []byte, seconds int64) {
	p := t.locate(key)
	if p.i < 0 || !p.entry().live() {
		panic("internal error: keyspace: idle time of an absent key")
	}
	e := p.entry()
	e.access = e.access&^accessMask | (t.w.s.seconds(t.Now())-uint32(min(seconds, accessMask-idleSlack)))&accessMask
}
