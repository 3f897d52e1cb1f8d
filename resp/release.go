package resp

import (
	"time"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// How replies leave: at once, or after the step of the committer that makes their level reached.

// flush writes what may leave, and takes note of what still waits.
func (l *loop) flush(s *session) {
	if s.closed {
		return
	}
	if s.conn.unsent() > 0 {
		if err := s.conn.push(); err != nil && err != errAgain {
			l.close(s)
			return
		}
	}
	blocked, turn := false, l.turn
	for !blocked {
		if len(s.queue.ready()) == 0 {
			p := s.due()
			if p == nil {
				break
			}
			done, full, err := l.stream(s, p, &turn)
			if err != nil {
				if l.streamFailed(s, p, err); s.closed {
					return
				}
				break
			}
			if blocked = full; !done {
				break
			}
			p.drop()
			s.parts = s.parts[1:]
			continue
		}
		n, err := s.conn.write(s.queue.ready())
		if err == errAgain {
			blocked = true
			break
		}
		if err != nil {
			l.close(s)
			return
		}
		s.BytesOut += uint64(n)
		bump(&l.stats.netOut, uint64(n))
		s.wrote(n)
	}
	if blocked = blocked || s.conn.unsent() > 0; blocked != s.wantOut {
		s.wantOut = blocked
		l.rearm(s)
	}
	if len(s.marks) > 0 {
		l.waitingAdd(s)
	}
	if s.pending() == 0 {
		s.trim()
	}
	switch {
	case s.phase == phaseEnd && s.pending() == 0 && s.conn.unsent() == 0:
		l.close(s)
	case s.phase == phaseSlow && int64(s.pending()) <= l.config.OutBufSoft/2 && len(s.marks) < marksMax/2 && len(s.parts) < partsMax/2:
		s.phase = phaseRun
		l.again(s)
	}
}

// giveBack takes the shared reply buffer back from a session; what has not left moves to memory of the session's own.
func (l *loop) giveBack(s *session) {
	s.lent = false
	if s.closed || s.pending() == 0 {
		l.obuf, s.out = s.out[:0], nil
	} else {
		if s.sent > 0 {
			s.compact()
		}
		s.own = append(s.own[:0], s.out...)
		l.obuf, s.out = s.out[:0], s.own
	}
	if cap(l.obuf) > obufKeep {
		l.obuf = make([]byte, 0, readBytes)
	}
}

// obufKeep bounds the shared reply buffer, ownKeep what an idle session keeps.
const (
	obufKeep = 1 << 20
	ownKeep  = 4 << 10
)

// trim gives back what a session without pending replies needs no more.
func (s *session) trim() {
	if cap(s.marks) > ownKeep/64 {
		s.marks = nil
	}
	if s.lent {
		return
	}
	if cap(s.out) > ownKeep {
		s.out, s.own = nil, nil
	}
}

// want takes note that somebody waits; the volume hears of it once a round.
func (l *loop) want(c volume.Counter, level volume.Level) { l.wants[level] = max(l.wants[level], c) }

// step leads one step of the committer and releases the replies that it, or another loop's, made ready.
func (l *loop) step() {
	if l.vol == nil {
		l.checkParked()
		return
	}
	if len(l.busy) > 0 {
		applied, _, _ := l.vol.Watermarks()
		l.want(applied, volume.LevelFresh)
	}
	for level := range l.wants {
		if l.wants[level] != 0 {
			l.vol.Want(l.wants[level], volume.Level(level))
			l.wants[level] = 0
		}
	}
	moved := l.vol.Step()
	l.stirred = l.stirred || moved
	l.moved.Store(false) // what moves from here on is seen by the next round
	if _, durable, fresh := l.vol.Watermarks(); durable != l.durable || fresh != l.fresh {
		l.durable, l.fresh, moved = durable, fresh, true
	}
	if len(l.waiting) > 0 && (moved || l.vol.Err() != nil) {
		l.releaseAll()
	}
	if len(l.busy) > 0 && (moved || l.now-l.busyTried > int64(busyRetry)) {
		l.busyTried = l.now
		for i, s := range l.busy {
			l.busy[i] = nil
			if s.phase == phaseBusy {
				l.wake(s)
			}
		}
		l.busy = l.busy[:0]
	}
	l.checkParked()
}

// busyRetry bounds how long a session waits for a sign of progress that another loop may have taken.
const busyRetry = 5 * time.Millisecond

// releaseAll writes the replies whose level has been reached.
func (l *loop) releaseAll() {
	cause := l.vol.Err()
	now := nanos()
	for i := len(l.waiting) - 1; i >= 0; i-- {
		s := l.waiting[i]
		l.noteWaits(s, now)
		moved := s.release(l.vol)
		if cause != nil && len(s.marks) > 0 {
			n := s.expire(l.vol, l.now, cause, command.Unreached(cause, time.Duration(0)))
			bump(&l.stats.uncertain, uint64(n))
			moved = true
		}
		if len(s.marks) == 0 {
			l.waitingRemove(s)
		}
		if moved {
			l.flush(s)
		}
	}
}
