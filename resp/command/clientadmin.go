package command

import "math"

// What one client does to others: kill, pause, unblock.

// clientFilter says which clients CLIENT KILL means. Zero fields mean any.
type clientFilter struct {
	id          uint64
	addr, laddr string
	user        string
	kind        string // type
	skipMe      bool
}

func (f *clientFilter) matches(s *Session, me uint64) bool {
	return s.hasType(f.kind) && (f.id == 0 || s.ID == f.id) && (f.addr == "" || s.Addr == f.addr) && (f.laddr == "" || s.LocalAt == f.laddr) &&
		(f.user == "" || s.User == f.user) && !(f.skipMe && s.ID == me)
}

func clientKill(c *Ctx) error {
	f, err := clientKillFilter(c)
	if err != nil {
		return err
	}
	me := c.S.ID
	out, ok := c.Srv.Gather(c, func(s *Session, _ int64, out []byte) []byte {
		switch {
		case !f.matches(s, me):
		case s.ID == me: // its own reply has to leave first
			out = append(out, 'm')
		default:
			s.Kill = true
			out = append(out, 'k')
		}
		return out
	})
	if !ok {
		c.Park = Park{Answer: true}
		return ErrPark
	}
	for _, b := range out {
		c.S.CloseAfter = c.S.CloseAfter || b == 'm'
	}
	switch {
	case len(c.Args) > 3:
		c.Reply.Int(int64(len(out)))
	case len(out) == 0:
		return Error("ERR No such client")
	default:
		c.Reply.OK()
	}
	return nil
}

func clientKillFilter(c *Ctx) (f clientFilter, err error) {
	args := c.Args[2:]
	if len(args) == 1 {
		f.addr = string(args[0])
		return f, nil
	}
	f.skipMe = true
	if len(args)%2 != 0 {
		return f, errSyntax
	}
	for i := 0; i < len(args); i += 2 {
		switch name, val := args[i], args[i+1]; {
		case equalFold(name, "id"):
			n, err := parseInt(val)
			if err != nil || n < 1 {
				return f, Error("ERR client-id should be greater than 0")
			}
			f.id = uint64(n)
		case equalFold(name, "type"):
			if f.kind, err = clientType(val); err != nil {
				return f, err
			}
		case equalFold(name, "addr"):
			f.addr = string(val)
		case equalFold(name, "laddr"):
			f.laddr = string(val)
		case equalFold(name, "user"):
			if string(val) != "default" {
				return f, Error("ERR No such user '" + clip(val, 128) + "'")
			}
			f.user = "default"
		case equalFold(name, "skipme") && equalFold(val, "yes"):
			f.skipMe = true
		case equalFold(name, "skipme") && equalFold(val, "no"):
			f.skipMe = false
		default:
			return f, errSyntax
		}
	}
	return f, nil
}

// clientType returns the name of a type of clients, in lower case.
func clientType(name []byte) (kind string, err error) {
	for _, kind := range []string{"normal", "master", "replica", "slave", "pubsub"} {
		if equalFold(name, kind) {
			return kind, nil
		}
	}
	return "", Error("ERR Unknown client type '" + clip(name, 128) + "'")
}

// hasType reports whether a session is of a type; all are of type "". There are no replicas and no master.
func (s *Session) hasType(kind string) bool {
	switch kind {
	case "":
		return true
	case "normal":
		return s.Subscriptions() == 0
	case "pubsub":
		return s.Subscriptions() > 0
	}
	return false
}

func clientPause(c *Ctx) error {
	all := true
	if len(c.Args) == 4 {
		switch {
		case equalFold(c.Args[3], "write"):
			all = false
		case equalFold(c.Args[3], "all"):
		default:
			return errSyntax
		}
	} else if len(c.Args) > 4 {
		return errSyntax
	}
	d, err := waitTimeout(c.Args[2])
	if err != nil {
		return err
	}
	until := c.Now + int64(d)
	if until < c.Now {
		until = math.MaxInt64
	}
	c.Srv.Pause(until, all)
	c.Reply.OK()
	return nil
}

func clientUnpause(c *Ctx) error {
	c.Srv.Unpause()
	c.Reply.OK()
	return nil
}

func clientUnblock(c *Ctx) error {
	why := ResumeTimeout
	if len(c.Args) == 4 {
		switch {
		case equalFold(c.Args[3], "timeout"):
		case equalFold(c.Args[3], "error"):
			why = ResumeUnblocked
		default:
			return Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		}
	}
	id, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	out, ok := c.Srv.Gather(c, func(s *Session, _ int64, out []byte) []byte {
		if s.ID != uint64(id) || !s.Blocked {
			return out
		}
		s.Unblock = why
		return append(out, '1')
	})
	if !ok {
		c.Park = Park{Answer: true}
		return ErrPark
	}
	c.Reply.Int(int64(len(out)))
	return nil
}
