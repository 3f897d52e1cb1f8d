package resp

import (
	"time"

	"cvmstore/resp/command"
)

// While a script runs for long, loops go on reading from their clients and answer that the server is busy; a few commands are
// executed, such as the one that ends the script. This happens within the script's command, or instead of a round, so nothing here
// touches the keyspace or the volume.

// answerAside looks at the sockets once, for at most d.
func (l *loop) answerAside(d time.Duration) {
	events := append([]event(nil), l.poll.aside(d)...)
	if len(events) == 0 {
		return
	}
	outer := struct {
		ctx              command.Ctx
		argv             [][]byte
		obuf, rbuf       []byte
		running, parsing *session
		aside, settling  bool
		held             []held
	}{l.ctx, l.argv, l.obuf, l.rbuf, l.running, l.parsing, l.aside, l.settling, l.held}
	if l.asideRB == nil {
		l.asideRB = make([]byte, readBytes)
	}
	l.ctx = command.Ctx{Space: outer.ctx.Space, Srv: outer.ctx.Srv}
	l.argv, l.obuf, l.rbuf, l.held = nil, nil, l.asideRB, nil
	l.aside, l.settling = true, true
	for i := range events {
		e := &events[i]
		s := l.sessions[e.fd()]
		if s == nil || s == outer.running || s.closed {
			if s == nil && l.srv.listener(l, e.fd()) != nil && l.aside {
				l.accept(l.srv.listener(l, e.fd()))
			}
			continue
		}
		if s.phase != phaseRun || s.pinned || s.body != nil || s.serving != nil {
			l.mute(s, true)
			l.again(s) // it is looked at when the script has ended
			continue
		}
		if e.writable() {
			l.flush(s)
		}
		if e.readable() && !s.closed {
			l.read(s)
		}
	}
	l.ctx, l.argv, l.obuf, l.rbuf, l.running, l.parsing = outer.ctx, outer.argv, outer.obuf, outer.rbuf, outer.running, outer.parsing
	l.aside, l.settling, l.held = outer.aside, outer.settling, outer.held
}
