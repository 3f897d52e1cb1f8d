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
	seen  volume.Counter
	write func(*command.Reply)
}

// push sends a piece of output to a session of this loop.
func (l *loop) push(s *session, seen volume.Counter, write func(*command.Reply)) {
	if s.closed || s.phase == phaseEnd {
		return
	}
	if s == l.running {
		l.held = append(l.held, held{seen, write})
		return
	}
	r := command.Reply{Buf: s.out, Proto: s.Proto}
	write(&r)
	s.out = r.Buf
	l.mark(s, seen)
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
		l.push(s, h.seen, h.write)
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
