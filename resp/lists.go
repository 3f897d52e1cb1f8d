package resp

import (
	"cvmstore/keyspace"
	"cvmstore/resp/command"
)

// The lists of sessions that wait. Each session knows its place, so that adding and removing cost nothing.

func (l *loop) waitingAdd(s *session) {
	if s.waitAt < 0 {
		s.waitAt = len(l.waiting)
		l.waiting = append(l.waiting, s)
	}
}

func (l *loop) waitingRemove(s *session) {
	if s.waitAt >= 0 {
		last := len(l.waiting) - 1
		l.waiting[s.waitAt] = l.waiting[last]
		l.waiting[s.waitAt].waitAt = s.waitAt
		l.waiting[last] = nil
		l.waiting = l.waiting[:last]
		s.waitAt = -1
	}
}

func (l *loop) parkedAdd(s *session) {
	if s.parkedAt < 0 {
		s.parkedAt = len(l.parked)
		l.parked = append(l.parked, s)
		l.stats.blocked.Add(1)
	}
	if u := s.park.Until; u > 0 && (l.nextPark == 0 || u < l.nextPark) {
		l.nextPark = u
	}
}

func (l *loop) parkedRemove(s *session) {
	if s.parkedAt >= 0 {
		last := len(l.parked) - 1
		l.parked[s.parkedAt] = l.parked[last]
		l.parked[s.parkedAt].parkedAt = s.parkedAt
		l.parked[last] = nil
		l.parked = l.parked[:last]
		s.parkedAt = -1
		l.stats.blocked.Add(-1)
	}
}

// checkParked wakes the parked sessions whose counter has reached its level or whose time is up.
func (l *loop) checkParked() {
	due := l.nextPark > 0 && l.now >= l.nextPark
	if due {
		l.nextPark = 0
	}
	for i := len(l.parked) - 1; i >= 0; i-- {
		s := l.parked[i]
		switch p := &s.park; {
		case p.Level != 0 && l.vol != nil && l.vol.Reached(p.Counter, p.Level):
			l.unpark(s, command.ResumeReady)
		case p.Until > 0 && l.now >= p.Until, p.Level != 0 && l.vol != nil && l.vol.Err() != nil:
			l.unpark(s, command.ResumeTimeout)
		case due && p.Until > 0 && (l.nextPark == 0 || p.Until < l.nextPark):
			l.nextPark = p.Until
		}
	}
}

func (l *loop) unpark(s *session, why command.Resume) {
	l.parkedRemove(s)
	s.resume = why
	l.wake(s)
}

// txTake gives a session whose command has missed a transaction of its own, which keeps what is fetched for it.
func (l *loop) txTake(s *session) *keyspace.Tx {
	if s.tx == nil {
		if n := len(l.txPool); n > 0 {
			s.tx, l.txPool = l.txPool[n-1], l.txPool[:n-1]
		} else {
			s.tx = new(keyspace.Tx)
		}
	}
	return s.tx
}

func (l *loop) txFree(s *session) {
	s.tx.Forget()
	if len(l.txPool) < 64 {
		l.txPool = append(l.txPool, s.tx)
	}
	s.tx = nil
}
