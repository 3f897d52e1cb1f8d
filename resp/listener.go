package resp

import (
	"errors"
	"net"
	"slices"
	"strings"
)

// kind is how a listener's clients come in.
type kind uint8

const (
	kindTCP kind = iota
	kindTLS
	kindUnix
)

// listener is a listening socket. Loop 0 accepts for all and deals the connections out in turn.
type listener struct {
	fd     int
	kind   kind
	addr   net.Addr
	mutedN bool // not polled after an error such as too many open files; cron polls it again
	closed bool
}

func (ln *listener) close() {
	if !ln.closed {
		ln.closed = true
		closeFD(ln.fd)
		if ln.kind == kindUnix {
			removeSocket(ln.addr.String())
		}
	}
}

// listen opens the listeners that the configuration asks for.
func (s *Server) listen() (err error) {
	config := s.config.Load()
	t, err := config.tlsConfig(s.opts.Attested)
	if err != nil {
		return err
	}
	s.tls.Store(t)
	for _, way := range []struct {
		kind kind
		port int64
	}{{kindTCP, config.Port}, {kindTLS, config.TLSPort}} {
		if way.port == 0 {
			continue
		}
		opened, err := s.listenOn(config, way.kind, int(way.port))
		if err != nil {
			return err
		}
		if err := s.add(opened...); err != nil {
			return err
		}
	}
	if config.UnixSocket == "" {
		return nil
	}
	fd, err := listenUnix(config.UnixSocket, uint32(config.UnixPerm), int(config.TCPBacklog))
	if err != nil {
		return err
	}
	return s.add(&listener{fd: fd, kind: kindUnix, addr: &net.UnixAddr{Name: config.UnixSocket, Net: "unix"}})
}

// listenOn listens on every address of bind. Nobody accepts there yet.
func (s *Server) listenOn(config *Config, k kind, port int) (opened []*listener, err error) {
	defer func() {
		if err != nil {
			for _, ln := range opened {
				ln.close()
			}
		}
	}()
	port = max(port, 0)
	for _, host := range config.Bind {
		name, optional := strings.CutPrefix(host, "-")
		fd, addr, err := listenTCP(name, port, int(config.TCPBacklog))
		if err != nil {
			if optional {
				s.log.Warn().Err(err).Msg("address left out")
				continue
			}
			return opened, err
		}
		opened = append(opened, &listener{fd: fd, kind: k, addr: addr})
		if port == 0 { // the others take the port that the first one was given
			port = addr.(*net.TCPAddr).Port
		}
	}
	if len(opened) == 0 {
		return nil, errors.New("no address to listen on")
	}
	return opened, nil
}

// add has loop 0 accept from listeners.
func (s *Server) add(opened ...*listener) error {
	all := slices.Concat(s.listening(), opened)
	s.listeners.Store(&all) // what release closes
	for _, ln := range opened {
		if err := s.loops[0].poll.add(ln.fd, pollIn); err != nil {
			return err
		}
	}
	return nil
}

// addr returns the first address of a kind; nil if there is none.
func (s *Server) addr(k kind) net.Addr {
	for _, ln := range s.listening() {
		if ln.kind == k {
			return ln.addr
		}
	}
	return nil
}

// accepted is a new connection and what is known of its client.
type accepted struct {
	conn          conn
	remote, local string
	near          bool // on this machine
}

// listener returns the listener with this descriptor, on the loop that accepts.
func (s *Server) listener(l *loop, fd int) *listener {
	if l.num != 0 {
		return nil
	}
	for _, ln := range s.listening() {
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
		a, err := acceptConn(ln, int(l.config.TCPKeep))
		if errors.Is(err, errAgain) {
			return
		}
		if err != nil {
			l.srv.log.Warn().Err(err).Msg("no connection accepted for a moment")
			_ = l.poll.modify(ln.fd, 0)
			ln.mutedN = true
			return
		}
		l.admit(ln, a)
	}
}

const deniedText = "-DENIED protected mode: this server has no password and serves clients on its own machine only. " +
	"Set requirepass, or, if the network is trusted, protected-mode no.\r\n"

// admit checks the limits and hands the connection to the next loop, under TLS after the handshake.
func (l *loop) admit(ln *listener, a accepted) {
	srv := l.srv
	refuse := ""
	switch {
	case srv.connected.Load() >= l.config.MaxClients:
		refuse = "-ERR max number of clients reached\r\n"
	case l.config.Protected && l.srv.users.free() && !a.near:
		refuse = deniedText
	}
	if refuse != "" {
		bump(&l.stats.rejected, 1)
		if ln.kind != kindTLS { // a TLS client could not read it
			_, _ = a.conn.write([]byte(refuse))
		}
		a.conn.close()
		return
	}
	bump(&l.stats.accepted, 1)
	srv.connected.Add(1)
	s := &session{conn: a.conn, waitAt: -1, parkedAt: -1}
	s.p.reset()
	s.ID, s.FD = srv.clientID.Add(1), a.conn.fd()
	s.Addr, s.LocalAt, s.Near, s.Unix = a.remote, a.local, a.near, ln.kind == kindUnix
	s.Session.Reset(srv.users.free())
	s.Created, s.LastUsed = l.now, l.now
	to := srv.loops[srv.next.Add(1)%uint64(len(srv.loops))]
	switch {
	case ln.kind == kindTLS:
		l.handshake(s, to)
	case to == l:
		l.adopt(s)
	default:
		to.post(func(l *loop) { l.adopt(s) })
	}
}

// adopt makes a session this loop's own.
func (l *loop) adopt(s *session) {
	s.loop = l
	if l.stopping {
		s.closed = true
		l.unaccepted(s.conn)
		return
	}
	l.sessions[s.FD] = s
	l.srv.directory.add(s)
	if err := l.poll.add(s.FD, pollIn); err != nil {
		l.srv.log.Error().Err(err).Msg("connection not polled")
		l.close(s)
	}
	if s.conn.held() {
		l.again(s)
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
	l.cancelJobs(s)
	l.dropBody(s)
	s.dropParts(-1)
	if s.tx != nil && s.fetches == 0 {
		l.txFree(s)
	}
	if s.Monitor {
		l.srv.monitors.Add(-1)
	}
	l.srv.directory.remove(s)
	l.srv.untrack(s)
	l.srv.unsubscribeAll(s)
	l.unblock(s)
	l.leavePass(s)
	if s.multi != nil {
		l.endMulti(s)
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
	l.unwatchAll()
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
