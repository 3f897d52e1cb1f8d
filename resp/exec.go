package resp

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// roundCommands bounds what one client may have executed in one round of its loop, so that others get their turn.
const roundCommands = 1024

// missesMax bounds how often a command may ask for values: each time it does, compaction has moved what was fetched.
const missesMax = 100

// consume parses and executes what buf holds, and returns the rest. Replies are collected in the loop's buffer and leave in one
// write, after the last command of the batch.
func (l *loop) consume(s *session, buf []byte) (rest []byte) {
	if len(s.out) == 0 {
		s.out, s.lent = l.obuf[:0], true
	}
	s.settled = len(s.in) == len(buf) && (len(buf) == 0 || &s.in[0] == &buf[0])
	for n := 0; s.phase == phaseRun; n++ {
		if n == roundCommands {
			l.again(s)
			break
		}
		if !s.pinned {
			st, used := l.parse(s, buf)
			buf = buf[used:]
			s.starved = st == statusMore
			if st == statusFull {
				s.phase = phaseBody
			}
			if s.starved || st == statusFull {
				break
			}
			if st == statusEmpty {
				continue
			}
		}
		if s.body != nil && !s.body.ready() {
			s.pinned, s.phase = true, phaseBody
			break
		}
		l.argv = s.p.argv(buf, l.argv[:0])
		if !l.execute(s, l.argv) {
			s.pinned = true
			break
		}
		s.pinned, s.settled = false, false
		buf = buf[s.p.size():]
		s.p.reset()
		l.bound(s)
	}
	l.flush(s)
	if s.lent {
		l.giveBack(s)
	}
	l.argv = forget(l.argv)
	l.ctx.Forget()
	return buf
}

// forget lets go of the buffers that args point into, and of a slice that one large command has left.
func forget(args [][]byte) [][]byte {
	if cap(args) > argsKeep {
		return nil
	}
	clear(args[:cap(args)])
	return args[:0]
}

const argsKeep = 256

// parse takes the next command, with used bytes of the buffer done with.
func (l *loop) parse(s *session, buf []byte) (st status, used int) {
	s.p.unauth = !s.Authenticated
	s.p.bulkMax = l.config.ProtoMaxBulk
	s.p.body, l.parsing = l.takes, s
	used, st, err := s.p.next(buf)
	if err != nil {
		l.srv.log.Debug().Uint64("client", s.ID).Err(err).Msg("protocol error")
		r := command.Reply{Buf: s.out}
		r.Error("ERR " + err.Error())
		s.out = r.Buf
		s.add(0, 0, l.round, 0)
		s.phase = phaseEnd
		return statusMore, len(buf)
	}
	if st == statusEmpty {
		used += s.p.size()
		s.p.reset()
	}
	return st, used
}

// execute runs one command to its end and queues its reply. It returns false if the session is parked and the same command is
// to run again.
func (l *loop) execute(s *session, args [][]byte) bool {
	c := &l.ctx
	start := len(s.out)
	c.Args, c.S, c.Reply = args, &s.Session, command.Reply{Buf: s.out, Proto: s.Proto}
	c.Now, c.Resume, c.Park = l.now, s.resume, s.park
	c.Depends, s.resume = 0, command.ResumeNone
	c.Pushes, c.Body = false, nil
	if s.body != nil {
		c.Body = s.body.blob
	}
	if s.serving != nil { // perhaps again, after a miss
		c.Ready = []byte(s.serving.key.key)
		if c.Resume == command.ResumeNone {
			c.Resume = command.ResumeReady
		}
	}
	l.running = s
	s.QueryBytes = int(s.p.size())
	cmd, err := l.lookup(s, args)
	var seen volume.Counter
	if err == nil {
		c.Cmd = cmd
		s.LastCmd = cmd
		if s.queues(cmd) {
			err = l.queueUp(s, c)
		} else {
			seen, err = l.perform(s, c)
		}
		if err != nil && l.parks(s, c, err) {
			c.Reply.Cut(start)
			s.out = c.Reply.Buf
			l.pushHeld(s)
			if s.phase == phasePark {
				l.tried(s, false)
			}
			l.settle()
			return false
		}
	}
	s.park, s.misses = command.Park{}, 0
	s.Commands++
	if err != nil {
		err = l.spoil(s, args, cmd == nil, err)
		text := command.Text(err)
		c.Reply.Cut(start)
		c.Reply.Error(text)
		if !isCounted(err) {
			bump(&l.stats.errors, 1)
			l.srv.errors.add(text)
		}
	}
	s.out = c.Reply.Buf
	l.addParts(s, &c.Reply)
	l.dropBody(s)
	took := l.count(cmd, err)
	if cmd != nil {
		l.observe(s, cmd, args, took, seen)
	}
	l.reply(s, start, seen)
	if s.Tracking.Caching && !s.Queueing && (cmd == nil || cmd.Container() != "client") {
		s.Tracking.Caching = false
	}
	l.pushHeld(s)
	l.unblock(s)
	l.tried(s, true)
	l.settle()
	return true
}

func (l *loop) lookup(s *session, args [][]byte) (*command.Command, error) {
	cmd, err := command.Lookup(args)
	if err != nil {
		if command.SecurityAttack(args) {
			l.srv.log.Warn().Uint64("client", s.ID).Msg("a client speaks HTTP: closed, since a browser may have been tricked into it")
			s.phase = phaseEnd
		}
		if cmd != nil {
			bump(&l.stats.perCommand[cmd.Index].rejected, 1)
		}
		return nil, err
	}
	if !s.Authenticated && cmd.Flags&command.NoAuth == 0 {
		return nil, errNoAuth
	}
	if err := l.permits(s, cmd, args, s.context()); err != nil {
		bump(&l.stats.perCommand[cmd.Index].rejected, 1)
		return nil, err
	}
	if l.aside {
		if err := l.srv.scripts.refuses(cmd); err != nil {
			return nil, err
		}
	}
	if s.Proto == 2 && s.Subscriptions() > 0 && !listens(cmd) {
		return nil, command.Error("ERR Can't execute '" + cmd.Full() + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return cmd, nil
}

// listens reports whether a RESP2 client may send a command while it is subscribed: all that it receives has to look like a
// message.
func listens(cmd *command.Command) bool {
	switch cmd.Full() {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe", "ping", "quit", "reset":
		return true
	}
	return false
}

var errNoAuth = command.Error("NOAUTH Authentication required.")

// perform begins the transaction as the table says, runs the handler, and returns what the reply depends on.
func (l *loop) perform(s *session, c *command.Ctx) (seen volume.Counter, err error) {
	if s.fetchErr != nil {
		err, s.fetchErr = s.fetchErr, nil
		what := c.Cmd.Name
		if c.Cmd.Group == "file" && len(c.Args) > 1 {
			what = fmt.Sprintf("%s %q", what, c.Args[1])
		}
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if s.body != nil && s.body.err != nil {
		return 0, s.body.err
	}
	if err := l.admits(c); err != nil {
		return 0, err
	}
	c.Tx = &l.tx
	if s.tx != nil {
		c.Tx = s.tx
	}
	c.Loose = c.Cmd.Flags&command.NoLevel != 0
	switch c.Cmd.LocksFor(c.Args) {
	case command.LockKeys:
		l.srv.space.Begin(c.Tx, s.DB, c.Keys())
	case command.LockAll:
		l.srv.space.BeginAll(c.Tx, s.DB)
	case command.LockPlan:
		keys, err := c.Planning()
		if err != nil {
			return c.Depends, err
		}
		l.srv.space.Begin(c.Tx, s.DB, keys)
	case command.LockScript:
		if err := l.takeTurn(); err != nil {
			return 0, err
		}
		defer l.leaveTurn()
		l.srv.space.BeginAll(c.Tx, s.DB)
		c.Tx.Script()
	case command.LockSelf:
	default:
		err = c.Cmd.Handler(c)
		return c.Depends, err
	}
	if s.NoTouch && c.Cmd.Locks != command.LockSelf && c.Cmd.Name != "touch" {
		c.Tx.NoTouch()
	}
	if c.Cmd.Locks != command.LockSelf {
		c.Tx.SetOrigin(s.ID)
	}
	misses := l.tellsOfMisses(c.Cmd)
	if misses {
		c.Tx.NoteAbsent(true)
	}
	err = c.Cmd.Handler(c)
	if errors.Is(err, command.ErrPark) {
		l.block(s, c)
	}
	if miss, busy := command.Retry(err); s.Tracking.On && !miss && !busy {
		l.remember(s, c)
	}
	if c.Cmd.Locks != command.LockSelf {
		c.Tx.End()
	}
	if c.Cmd.Locks == command.LockScript {
		l.scriptEnded(s, err)
	}
	if miss, busy := command.Retry(err); misses && !miss && !busy {
		l.keymiss(c, c.Tx.Seen())
	}
	if !c.Loose {
		seen = c.Tx.Seen()
	}
	if c.Cmd.Flags&command.Write != 0 || c.Cmd.Locks == command.LockScript {
		s.LastWrite = max(s.LastWrite, seen)
	}
	return seen, err
}

// parks parks the session if err says that the command is to run again.
func (l *loop) parks(s *session, c *command.Ctx, err error) bool {
	if errors.Is(err, command.ErrPark) {
		s.park = c.Park
		s.phase = phasePark
		l.parkedAdd(s)
		if s.park.Level != 0 {
			l.want(s.park.Counter, s.park.Level)
		}
		return true
	}
	miss, busy := command.Retry(err)
	switch {
	case miss:
		s.misses++
		return s.misses <= missesMax && l.fetch(s, c.Tx)
	case busy:
		if s.since == 0 {
			s.since = l.now
		} else if l.now-s.since > int64(l.config.ReplyTimeoutDuration()) {
			s.since = 0
			return false
		}
		s.phase = phaseBusy
		l.busy = append(l.busy, s)
		return true
	}
	return false
}

// reply ends the reply that stands in out from start on.
func (l *loop) reply(s *session, start int, seen volume.Counter) {
	s.since = 0
	s.lastSeen = max(s.lastSeen, seen)
	if s.tx != nil {
		l.txFree(s)
	}
	switch s.ReplyMode {
	case command.ReplyOff, command.ReplySkipping:
		if !l.ctx.Pushes {
			s.out = s.out[:start]
			s.dropParts(start)
		}
		if s.ReplyMode == command.ReplySkipping {
			s.ReplyMode = command.ReplyOn
		}
	case command.ReplySkipNext:
		s.ReplyMode = command.ReplySkipping
	}
	if s.CloseAfter {
		s.phase = phaseEnd
	}
	level := s.Level
	if level == 0 {
		level = l.level
	}
	if len(s.out) == start { // nothing to send, so nothing that waits
		if seen != 0 {
			l.want(seen, level)
		}
		return
	}
	if seen == 0 && level == volume.LevelFresh && l.ctx.Cmd != nil && l.ctx.Cmd.Locks != command.LockNone && !l.ctx.Loose && l.vol.Lapsed() {
		_, _, seen = l.vol.Watermarks() // nothing is called fresh without the lease, not even what never changed
	}
	if seen == 0 || l.vol.Reached(seen, level) {
		s.add(0, 0, l.round, 0)
		return
	}
	if cause := l.vol.Err(); cause != nil {
		s.dropParts(start)
		r := command.Reply{Buf: s.out[:start]}
		r.Error(command.Unreached(cause, time.Duration(0)))
		s.out = r.Buf
		bump(&l.stats.uncertain, 1)
		s.add(0, 0, l.round, 0)
		return
	}
	l.want(seen, level)
	s.add(seen, level, l.round, l.now+int64(l.config.ReplyTimeoutDuration()))
}

// count takes a command into the statistics and returns how long it took.
func (l *loop) count(cmd *command.Command, err error) time.Duration {
	bump(&l.stats.commands, 1)
	if cmd == nil {
		return 0
	}
	st := &l.stats.perCommand[cmd.Index]
	if err == errOOM {
		bump(&st.rejected, 1)
		return 0
	}
	bump(&st.calls, 1)
	if err != nil {
		bump(&st.failed, 1)
	}
	now := nanos()
	took := time.Duration(now - l.now)
	bump(&st.nanos, uint64(took))
	bump(&st.buckets[command.Bucket(took)], 1)
	l.now = now
	return took
}

// bump adds to a counter that only this loop writes and others read.
func bump(a *atomic.Uint64, n uint64) { a.Store(a.Load() + n) }
