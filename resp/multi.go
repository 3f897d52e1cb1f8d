package resp

import (
	"bytes"
	"strings"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
)

// transaction is what a session has said since MULTI or WATCH.
type transaction struct {
	open    bool // since MULTI
	spoiled bool // a command was refused while queueing: EXEC will refuse all
	queue   []queued
	bytes   int // of arguments
	flags   command.Flag
	watches []*keyspace.Watch

	// What EXEC locks.
	keys [][]byte
	all  bool

	scripts bool // EXEC runs scripts

	messages []*message // published by its commands
	missed   []keyEvent // keys that reading commands looked for in vain
	scratch  []byte     // replies of the rehearsal
}

// queued is one command that waits for EXEC. Its arguments are its own.
type queued struct {
	cmd   *command.Command
	args  [][]byte
	early []byte // the reply of a command that is answered before the batch
	told  bool   // early is there
}

// argOverhead is what an argument costs beside its bytes.
const argOverhead = 24

// queues reports whether a command waits for EXEC instead of being executed.
func (s *session) queues(cmd *command.Command) bool {
	if !s.Queueing {
		return false
	}
	switch cmd.Full() {
	case "multi", "exec", "discard", "watch", "quit", "reset":
		return false
	}
	return true
}

// queueUp keeps a command for EXEC. Its arguments lie in the query buffer, so they are copied.
func (l *loop) queueUp(s *session, c *command.Ctx) error {
	m := s.multi
	if c.Cmd.Flags&command.NoMulti != 0 {
		return command.Error("ERR Command not allowed inside a transaction")
	}
	if err := l.admits(c); err != nil {
		return err
	}
	q := queued{cmd: c.Cmd, args: make([][]byte, len(c.Args))}
	for i, a := range c.Args {
		q.args[i] = bytes.Clone(a)
		m.bytes += len(a) + argOverhead
	}
	m.flags |= c.Cmd.Flags
	if c.Cmd.Locks == command.LockScript {
		m.scripts = true
		if l.scriptWrites(c) {
			m.flags |= command.Write
		}
	}
	s.Queued++
	if !m.spoiled {
		m.queue = append(m.queue, q)
		switch c.Cmd.LocksFor(q.args) {
		case command.LockKeys:
			m.keys = append(m.keys, command.KeysOf(q.cmd, q.args)...)
		case command.LockAll, command.LockSelf, command.LockScript:
			m.all = m.all || c.Cmd.Flags&command.Early == 0
		}
	}
	if int64(m.bytes) > l.config.QueryBufLimit {
		bump(&l.stats.queryClosed, 1)
		l.srv.log.Warn().Uint64("client", s.ID).Int("bytes", m.bytes).Msg("closed: queued commands above client-query-buffer-limit")
		l.close(s)
	}
	c.Reply.Simple("QUEUED")
	return nil
}

// spoil makes a refused command spoil the transaction that it was to be part of, and returns the error to answer.
func (l *loop) spoil(s *session, args [][]byte, refused bool, err error) error {
	m := s.multi
	if m == nil {
		return err
	}
	cmd, _ := command.Lookup(args)
	if !m.open {
		if refused && cmd != nil && cmd.Name == "exec" { // with a wrong number of arguments it ends what is watched all the same
			l.endMulti(s)
		}
		return err
	}
	switch {
	case cmd == nil || cmd.Name != "exec" && (refused || s.queues(cmd)):
		m.spoiled = true
		m.queue, m.keys = nil, nil
	case cmd.Name == "exec": // refused, or failed before it changed anything
		text := command.Text(err)
		l.endMulti(s)
		if _, own := err.(execAbort); !own {
			return execAbort("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(text, "ERR "))
		}
	}
	return err
}

// execAbort is an error that tells already that the transaction is over.
type execAbort string

func (e execAbort) Error() string { return string(e) }

// queuedFlags returns the flags of all commands that a session has queued.
func (l *loop) queuedFlags(s *command.Session) command.Flag {
	if m := l.sessions[s.FD].multi; m != nil {
		return m.flags
	}
	return 0
}

// endMulti forgets what is queued and what is watched. A transaction may be under way (one client kills another), so that
// watches end later in the round.
func (l *loop) endMulti(s *session) {
	if m := s.multi; m != nil {
		l.unwatch = append(l.unwatch, m.watches...)
	}
	s.multi, s.Queueing, s.Queued = nil, false, 0
}

// unwatchAll ends the watches that nobody needs any more. No transaction is under way.
func (l *loop) unwatchAll() {
	for i, w := range l.unwatch {
		l.srv.space.Unwatch(w)
		l.unwatch[i] = nil
	}
	l.unwatch = l.unwatch[:0]
}

func (v *view) session(s *command.Session) *session { return v.l.sessions[s.FD] }

// transaction returns the session's transaction, made if need be.
func (s *session) transaction() *transaction {
	if s.multi == nil {
		s.multi = &transaction{}
	}
	return s.multi
}

func (v *view) Multi(cs *command.Session) bool {
	s := v.session(cs)
	m := s.transaction()
	if m.open {
		return false
	}
	m.open, s.Queueing = true, true
	return true
}

func (v *view) Discard(cs *command.Session) bool {
	s := v.session(cs)
	if !s.Queueing {
		return false
	}
	v.l.endMulti(s)
	return true
}

// Watch watches keys. The same key twice is watched once: the first watch counts.
func (v *view) Watch(c *command.Ctx, keys [][]byte) error {
	s := v.session(c.S)
	m := s.transaction()
	for _, k := range keys {
		if m.watching(s.DB, k) {
			continue
		}
		w, err := c.Tx.Watch(k)
		if err != nil {
			return err
		}
		m.watches = append(m.watches, w)
	}
	return nil
}

func (m *transaction) watching(db int, key []byte) bool {
	for _, w := range m.watches {
		if w.DB() == db && string(w.Key()) == string(key) {
			return true
		}
	}
	return false
}

func (v *view) Unwatch(cs *command.Session) {
	s := v.session(cs)
	if m := s.multi; m != nil {
		v.l.unwatch = append(v.l.unwatch, m.watches...)
		m.watches = nil
		if !m.open {
			s.multi = nil
		}
	}
}
