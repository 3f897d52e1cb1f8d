package resp

import (
	"sync/atomic"

	"cvmstore/resp/command"
)

// pause is what CLIENT PAUSE asked for.
type pause struct {
	until atomic.Int64 // monotonic nanoseconds; 0: none
	all   atomic.Bool
}

// holds returns until when a command is held back; 0: it is not.
func (p *pause) holds(flags command.Flag, now int64) int64 {
	until := p.until.Load()
	if until <= now || !p.all.Load() && flags&command.Write == 0 {
		return 0
	}
	return until
}

func (v *view) Pause(until int64, all bool) {
	p := &v.s.pause
	p.all.Store(all)
	p.until.Store(max(until, p.until.Load()))
	v.s.space.HoldDeletes(true)
}

func (v *view) Unpause() {
	v.s.pause.until.Store(0)
	v.s.space.HoldDeletes(false)
	for _, l := range v.s.loops {
		l.post(func(l *loop) {
			for i := len(l.parked) - 1; i >= 0; i-- {
				if l.parked[i].park.Paused {
					l.unpark(l.parked[i], command.ResumeNone)
				}
			}
		})
	}
}

// admits decides whether a command may run now: not when it is paused, was unblocked by another client, or needs memory that
// there is not.
func (l *loop) admits(c *command.Ctx) error {
	flags := c.Cmd.Flags
	if c.Cmd.Name == "exec" {
		flags |= l.queuedFlags(c.S)
	}
	if c.Cmd.Locks == command.LockScript && l.srv.pause.until.Load() != 0 && l.scriptWrites(c) {
		flags |= command.Write
	}
	switch {
	case c.Resume == command.ResumeUnblocked:
		return errUnblocked
	case c.Park.Paused:
		c.Park, c.Resume = command.Park{}, command.ResumeNone
	}
	if l.srv.pause.until.Load() != 0 && c.Resume == command.ResumeNone && !l.stopping {
		if until := l.srv.pause.holds(flags, l.now); until > 0 {
			c.Park = command.Park{Until: until, Paused: true}
			return command.ErrPark
		}
	}
	if flags&command.DenyOOM != 0 {
		if err := l.makeRoom(); err != nil {
			return err
		}
	}
	return nil
}

const (
	errUnblocked = command.Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
	errOOM       = command.Error("OOM command not allowed when used memory > 'maxmemory'.")
)
