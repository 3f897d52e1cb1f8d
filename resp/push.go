package resp

import (
	"cvmstore/resp/command"
	"cvmstore/volume"
)

// What is sent to a client without being the reply to a command: messages, notifications, invalidations. Each piece waits, in
// the client's queue, for what it depends on, at the client's level (DESIGN.md 4.3), and is bounded with the rest of the
// client's output.

// held is a piece for the session whose command is being executed: it comes after the command's reply.
type held struct {
	seen           volume.Counter
	write, instead func(*command.Reply)
}

// push sends a piece of output to a session of this loop.
func (l *loop) push(s *session, seen volume.Counter, write func(*command.Reply)) {
	l.pushOr(s, seen, write, nil)
}

// pushOr is push of what must not be lost: if what it tells does not reach its level in time, instead is sent.
func (l *loop) pushOr(s *session, seen volume.Counter, write, instead func(*command.Reply)) {
	if s.closed || s.phase == phaseEnd {
		return
	}
	if s == l.running {
		l.held = append(l.held, held{seen, write, instead})
		return
	}
	r := command.Reply{Buf: s.out, Proto: s.Proto}
	write(&r)
	s.out = r.Buf
	l.mark(s, seen)
	if n := len(s.marks); instead != nil && n > 0 && s.marks[n-1].counter != 0 && s.marks[n-1].instead == nil {
		x := command.Reply{Proto: s.Proto}
		instead(&x)
		s.marks[n-1].instead = x.Buf
	}
	l.flushLater(s)
}

// flushLater has a session's output written at the end of the round.
func (l *loop) flushLater(s *session) {
	if !s.pushed && !s.lent {
		s.pushed = true
		l.pushed = append(l.pushed, s)
	}
}

// pushHeld sends what the command that has just ended sent to its own session.
func (l *loop) pushHeld(s *session) {
	l.running = nil
	if len(l.held) == 0 {
		return
	}
	pieces := l.held
	l.held = nil
	for _, h := range pieces {
		l.pushOr(s, h.seen, h.write, h.instead)
	}
}

// mark ends a piece of output that depends on seen and is no reply: if it does not reach the level in time it is left out.
func (l *loop) mark(s *session, seen volume.Counter) {
	level := s.Level
	if level == 0 {
		level = l.level
	}
	if seen == 0 || l.vol == nil || l.vol.Reached(seen, level) {
		s.addPush(0, 0, l.round, 0)
		return
	}
	l.want(seen, level)
	round := l.round
	if n := len(s.marks); n >= marksMax {
		round = s.marks[n-1].round // it waits with what came before it, so that marks stay bounded
	}
	s.addPush(seen, level, round, l.now+int64(l.config.ReplyTimeoutDuration()))
}

// deliverPushed writes what was pushed in this round, and closes those who take too little of it. No session holds the shared
// buffer now.
func (l *loop) deliverPushed() {
	for i := 0; i < len(l.pushed); i++ {
		s := l.pushed[i]
		l.pushed[i] = nil
		s.pushed = false
		l.flush(s)
		if n := int64(s.pending()); !s.closed && l.config.OutBuf[s.class()].exceeded(n, l.now, &s.softSince) {
			l.overflow(s, n)
		}
	}
	l.pushed = l.pushed[:0]
}

// class is the class of client-output-buffer-limit that a session belongs to.
func (s *session) class() int {
	switch {
	case s.Monitor:
		return outReplica // Redis counts monitors among the replicas
	case s.Subscriptions() > 0:
		return outPubSub
	}
	return outNormal
}
