package resp

import (
	"fmt"
	"slices"
)

// CONFIG SET port: the new listeners open before anything else of the command takes effect, the old ones close after.

// listening returns all listeners. The slice is replaced, never changed: loop 0 accepts while another loop sets the port.
func (s *Server) listening() []*listener {
	if all := s.listeners.Load(); all != nil {
		return *all
	}
	return nil
}

// reopen opens the listeners of another port. commit puts them in the place of the old ones, abandon closes them.
func (s *Server) reopen(next *Config) (commit, abandon func(), err error) {
	if next.Port == s.config.Load().Port {
		return func() {}, func() {}, nil
	}
	if next.Port < 0 {
		return nil, nil, configError("port", "argument must be between 0 and 65535 inclusive")
	}
	if s.opts.Exposed != nil {
		if err := s.opts.Exposed(*next); err != nil {
			return nil, nil, configError("port", err.Error())
		}
	}
	var opened []*listener
	if next.Port > 0 {
		if opened, err = s.listenOn(next, kindTCP, int(next.Port)); err != nil {
			s.log.Error().Err(err).Msg("the port stays as it was")
			return nil, nil, configError("port", "Unable to listen on this port. Check server logs.")
		}
	}
	commit = func() {
		old := s.listening()
		kept := slices.DeleteFunc(slices.Clone(old), func(ln *listener) bool { return ln.kind == kindTCP })
		next := slices.Concat(opened, kept)
		s.listeners.Store(&next)
		s.loops[0].post(func(l *loop) { l.relisten(opened, old) })
	}
	abandon = func() {
		for _, ln := range opened {
			ln.close()
		}
	}
	return commit, abandon, nil
}

// relisten exchanges the TCP listeners, on loop 0. Clients that are connected stay so.
func (l *loop) relisten(opened, old []*listener) {
	for _, ln := range old {
		if ln.kind == kindTCP {
			l.poll.remove(ln.fd)
			ln.close()
		}
	}
	for _, ln := range opened {
		if l.stopping {
			ln.close()
		} else if err := l.poll.add(ln.fd, pollIn); err != nil {
			l.srv.log.Error().Err(err).Msg(fmt.Sprint("no connections are taken at ", ln.addr))
		}
	}
}

// apply makes what a new configuration changes outside of it take effect: all of it, or nothing and the error to answer.
func (s *Server) apply(next *Config, set map[string]bool) error {
	commit, abandon, err := s.reopen(next)
	if err != nil {
		return err
	}
	if err := s.applyTLS(next, set); err != nil {
		abandon()
		return err
	}
	commit()
	return nil
}
