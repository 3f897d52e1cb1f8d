package resp

import (
	"errors"
	"net"
	"net/netip"
)

// listener is a listening socket. Loop 0 accepts for all and deals the connections out in turn.
type listener struct {
	fd     int
	addr   net.Addr
	mutedN bool // not polled after an error such as too many open files; cron polls it again
	closed bool
}

func (ln *listener) close() {
	if !ln.closed {
		ln.closed = true
		closeFD(ln.fd)
	}
}

// listener returns the listener with this descriptor, on the loop that accepts.
func (s *Server) listener(l *loop, fd int) *listener {
	if l.num != 0 {
		return nil
	}
	for _, ln := range s.listeners {
		if ln.fd == fd && !ln.closed {
			return ln
		}
	}
	return nil
}

// acceptsRound bounds the connections accepted in one round.
const acceptsRound = 256

func (l *loop) accept(ln *listener) {
	for range acceptsRound {
		c, remote, local, err := acceptTCP(ln.fd, int(l.config.TCPKeep))
		if errors.Is(err, errAgain) {
			return
		}
		if err != nil {
			l.srv.log.Warn().Err(err).Msg("no connection accepted for a moment")
			_ = l.poll.modify(ln.fd, 0)
			ln.mutedN = true
			return
		}
		l.admit(c, remote, local)
	}
}

const deniedText = "-DENIED protected mode: this server has no password and serves clients on its own machine only. " +
	"Set requirepass, or, if the network is trusted, protected-mode no.\r\n"

// admit checks the limits and hands the connection to the next loop.
func (l *loop) admit(c conn, remote, local netip.AddrPort) {
	srv := l.srv
	refuse := ""
	switch {
	case srv.connected.Load() >= l.config.MaxClients:
		refuse = "-ERR max number of clients reached\r\n"
	case l.config.Protected && l.config.RequirePass == "" && !remote.Addr().IsLoopback():
		refuse = deniedText
	}
	if refuse != "" {
		bump(&l.stats.rejected, 1)
		_, _ = c.write([]byte(refuse))
		c.close()
		return
	}
	bump(&l.stats.accepted, 1)
	srv.connected.Add(1)
	s := &session{conn: c, waitAt: -1, parkedAt: -1}
	s.p.reset()
	s.ID, s.FD = srv.clientID.Add(1), c.fd()
	s.Addr, s.LocalAt = remote.String(), local.String()
	s.Session.Reset(l.config.RequirePass == "")
	s.Created, s.LastUsed = l.now, l.now
	to := srv.loops[srv.next.Add(1)%uint64(len(srv.loops))]
	if to == l {
		l.adopt(s)
		return
	}
	to.post(func(l *loop) { l.adopt(s) })
}

// adopt makes a session this loop's own.
func (l *loop) adopt(s *session) {
	s.loop = l
	if l.stopping {
		s.closed = true
		s.conn.close()
		l.srv.connected.Add(-1)
		return
	}
	l.sessions[s.FD] = s
	if err := l.poll.add(s.FD, pollIn); err != nil {
		l.srv.log.Error().Err(err).Msg("connection not polled")
		l.close(s)
	}
}

// close ends a session. Its descriptor stays open until the end of the round, so that no other connection takes its number while
// events of this round may still name it.
func (l *loop) close(s *session) {
	if s.closed {
		return
	}
	s.closed = true
	s.phase = phaseEnd
	l.waitingRemove(s)
	l.parkedRemove(s)
	if s.tx != nil && s.fetches == 0 {
		l.txFree(s)
	}
	l.poll.remove(s.FD)
	delete(l.sessions, s.FD)
	l.doomed = append(l.doomed, s)
}

// sweep closes the descriptors of the sessions that ended in this round.
func (l *loop) sweep() {
	for i, s := range l.doomed {
		s.conn.close()
		s.in, s.own, s.marks = nil, nil, nil
		s.out = nil
		l.doomed[i] = nil
		l.srv.connected.Add(-1)
	}
	l.doomed = l.doomed[:0]
}

// mute stops, or starts again, to poll a session for input. The kernel's buffer then holds the client back.
func (l *loop) mute(s *session, muted bool) {
	if s.muted != muted {
		s.muted = muted
		l.rearm(s)
	}
}

func (l *loop) rearm(s *session) {
	var events uint32
	if !s.muted {
		events |= pollIn
	}
	if s.wantOut {
		events |= pollOut
	}
	if s.muted && s.phase == phasePark {
		events |= pollEnded // it may be parked for ever; a client that has gone would never be noticed
	}
	_ = l.poll.modify(s.FD, events)
}
