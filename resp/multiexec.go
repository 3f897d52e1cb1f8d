package resp

import (
	"errors"
	"time"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
)

// EXEC. All keys of all commands are locked at once; see keyspace's multi.go for how they come to be one batch.

const (
	errExecAlone = execAbort("ERR EXEC without MULTI")
	errSpoiled   = execAbort("EXECABORT Transaction discarded because of previous errors.")
)

// slowNote is what is told of an executed command once it is known what its reply depends on.
type slowNote struct {
	q    *queued
	took time.Duration
}

// Exec runs what was queued. A miss, a busy volume and a question to other loops have it run again from the start: until its
// batch is open it has changed nothing.
func (v *view) Exec(c *command.Ctx) error {
	l, s := v.l, v.session(c.S)
	m := s.multi
	switch {
	case m == nil || !m.open:
		return errExecAlone
	case m.spoiled:
		return errSpoiled
	}
	if err := l.askEarly(s, c, m); err != nil {
		return err
	}
	start, db := len(c.Reply.Buf), s.DB
	notes, err := l.transact(s, c, m)
	c.Multi, c.Cmd = false, command.Exec()
	if err != nil {
		s.DB = db
		c.Reply.Buf = c.Reply.Buf[:start]
		m.messages, m.missed = nil, nil
		return err
	}
	seen := c.Tx.Seen()
	c.Depends = max(c.Depends, seen)
	if m.flags&command.Write != 0 {
		s.LastWrite = max(s.LastWrite, seen)
	}
	for _, p := range m.messages {
		p.seen = max(seen, s.lastSeen)
		l.publish(p)
	}
	for i := range m.missed {
		m.missed[i].counter = seen
		l.notifyEvent(&m.missed[i])
	}
	l.endMulti(s)
	for _, n := range notes {
		l.observe(s, n.q.cmd, n.q.args, n.took, seen)
	}
	return nil
}

// askEarly answers the commands that cannot be answered while everything is locked.
func (l *loop) askEarly(s *session, c *command.Ctx, m *transaction) error {
	outer := *c
	defer func() {
		c.Args, c.Cmd, c.Reply.Buf = outer.Args, outer.Cmd, outer.Reply.Buf
	}()
	for i := range m.queue {
		q := &m.queue[i]
		if q.told || q.cmd.Flags&command.Early == 0 {
			continue
		}
		c.Args, c.Cmd, c.Reply.Buf = q.args, q.cmd, nil
		err := q.cmd.Handler(c)
		if errors.Is(err, command.ErrPark) {
			return err
		}
		c.Resume = command.ResumeNone
		if err != nil {
			c.Reply.Buf = nil
			c.Reply.Error(command.Text(err))
		}
		q.early, q.told = c.Reply.Buf, true
		if q.cmd.Locks == command.LockSelf {
			c.Depends = max(c.Depends, c.Tx.Seen())
		}
	}
	return nil
}

// transact is EXEC from lock to unlock.
func (l *loop) transact(s *session, c *command.Ctx, m *transaction) ([]slowNote, error) {
	t := c.Tx
	if m.scripts {
		if err := l.takeTurn(); err != nil {
			return nil, err
		}
		defer l.leaveTurn()
	}
	if m.all {
		l.srv.space.BeginAll(t, s.DB)
	} else {
		l.srv.space.Begin(t, s.DB, m.locks())
	}
	defer t.End()
	if s.NoTouch {
		t.NoTouch()
	}
	t.SetOrigin(s.ID)
	if m.scripts {
		t.Script()
	}
	if changed, err := watchesChanged(t, m); changed || err != nil {
		c.Reply.NullArray()
		return nil, err
	}
	t.Part(s.DB, nil)
	if err := l.rehearse(s, c, m); err != nil {
		return nil, err
	}
	if err := t.Perform(m.slack()); err != nil {
		return nil, err
	}
	notes := make([]slowNote, 0, len(m.queue))
	c.Reply.Array(len(m.queue))
	for i := range m.queue {
		q := &m.queue[i]
		took, err := l.performQueued(s, c, q)
		if err != nil {
			return nil, err
		}
		notes = append(notes, slowNote{q, took})
	}
	return notes, nil
}

// locks are the keys that EXEC locks: of its commands, and those that are watched.
func (m *transaction) locks() [][]byte {
	keys := m.keys
	for _, w := range m.watches {
		keys = append(keys, w.Key())
	}
	return keys
}

// watchesChanged looks at every watch, so that the answer depends on all changes.
func watchesChanged(t *keyspace.Tx, m *transaction) (changed bool, err error) {
	for _, w := range m.watches {
		t.Part(w.DB(), nil)
		c, err := t.Changed(w)
		if err != nil {
			return false, err
		}
		changed = changed || c
	}
	return changed, nil
}

// rehearse lets the commands that use keys run up to their first change, with a session that is put away afterwards.
func (l *loop) rehearse(s *session, c *command.Ctx, m *transaction) error {
	t, outer, shadow := c.Tx, *c, s.Session
	defer func() {
		c.Args, c.Cmd, c.S, c.Reply, c.Resume = outer.Args, outer.Cmd, outer.S, outer.Reply, outer.Resume
		c.Loose, c.Depends = outer.Loose, outer.Depends
	}()
	t.Rehearse()
	c.S, c.Multi, c.Rehearsal = &shadow, true, true
	defer func() { c.Rehearsal = false }()
	var miss error
	for i := range m.queue {
		q := &m.queue[i]
		if q.told || q.cmd.Locks == command.LockNone && q.cmd.Name != "select" || q.cmd.Name == "watch" {
			continue
		}
		l.enter(c, q)
		c.Reply = command.Reply{Buf: m.scratch[:0], Proto: 3}
		err := q.cmd.Handler(c)
		c.Reply.Cut(0)
		m.scratch = c.Reply.Buf[:0]
		again, busy := command.Retry(err)
		switch {
		case busy:
			return err
		case again:
			miss = err
		}
	}
	return miss
}

// enter makes a queued command the one that c is about.
func (l *loop) enter(c *command.Ctx, q *queued) {
	c.Args, c.Cmd = q.args, q.cmd
	c.Resume, c.Loose = command.ResumeNone, q.cmd.Flags&command.NoLevel != 0
	if q.cmd.Flags&command.Blocking != 0 {
		c.Resume = command.ResumeTimeout // nothing waits inside a batch
	}
	var keys [][]byte
	if q.cmd.LocksFor(q.args) == command.LockKeys {
		keys = c.Keys()
	}
	c.Tx.Part(c.S.DB, keys)
}

// performQueued executes one command of EXEC. It returns an error only if EXEC has to run again.
func (l *loop) performQueued(s *session, c *command.Ctx, q *queued) (time.Duration, error) {
	start := len(c.Reply.Buf)
	var err error
	if perm := l.permits(s, q.cmd, q.args, "multi"); perm != nil { // it may have been taken away since
		err = perm
	} else if q.told {
		c.Reply.Buf = append(c.Reply.Buf, q.early...)
	} else {
		l.enter(c, q)
		c.Multi = true
		misses := l.tellsOfMisses(q.cmd)
		c.Tx.NoteAbsent(misses)
		err = q.cmd.Handler(c)
		if misses {
			s.multi.noteMisses(c)
		}
		if s.Tracking.On {
			l.remember(s, c)
		}
		if miss, busy := command.Retry(err); (miss || busy) && !c.Tx.HasChanged() {
			return 0, err
		}
	}
	if err != nil {
		text := command.Text(err)
		c.Reply.Cut(start)
		c.Reply.Error(text)
		if !isCounted(err) {
			bump(&l.stats.errors, 1)
			l.srv.errors.add(text)
		}
	}
	s.Commands++
	return l.count(q.cmd, err), nil
}

// slackMax bounds what a batch reserves beyond the rehearsal.
const slackMax = 4 << 20

// slack bounds what the commands may need beyond their rehearsal because others of the transaction have made their keys' values
// longer: for each that writes, what those before it on the same keys bring.
func (m *transaction) slack() (sum int) {
	if len(m.queue) < 2 {
		return 0
	}
	grown := make(map[string]int, len(m.keys))
	for i := range m.queue {
		q := &m.queue[i]
		if q.cmd.Flags&command.Write == 0 || q.cmd.Locks != command.LockKeys {
			continue
		}
		size := 0
		for _, a := range q.args {
			size += len(a) + argOverhead
		}
		for _, k := range command.KeysOf(q.cmd, q.args) {
			sum += grown[string(k)]
			grown[string(k)] += size
		}
		if sum > slackMax {
			return slackMax
		}
	}
	return sum
}
