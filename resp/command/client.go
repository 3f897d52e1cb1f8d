package command

import (
	"strconv"
	"time"

	"cvmstore/resp/pubsub"
)

func clientCommand() Command {
	const g = "connection"
	const f = NoScript | Loading | Stale | NoLevel
	return Command{
		Name: "client", Arity: -2, Group: g, Since: "2.4.0", Summary: "Asks and says things about connections.", Handler: nil,
		Subs: []Command{
			{Name: "id", Arity: 2, Flags: f, Group: g, Since: "5.0.0", Summary: "Returns the number of this connection.", Handler: clientID},
			{Name: "getname", Arity: 2, Flags: f, Group: g, Since: "2.6.9", Summary: "Returns the name of this connection.", Handler: clientGetName},
			{Name: "setname", Arity: 3, Flags: f, Group: g, Since: "2.6.9", Summary: "Names this connection.", Handler: clientSetName},
			{Name: "setinfo", Arity: 4, Flags: f, Group: g, Since: "7.2.0", Summary: "Says which library speaks here: LIB-NAME or LIB-VER.", Handler: clientSetInfo},
			{Name: "info", Arity: 2, Flags: f, Group: g, Since: "6.2.0", Summary: "Describes this connection.", Handler: clientInfo},
			{Name: "list", Arity: -2, Flags: f | Admin | Dangerous | Early, Group: g, Since: "2.4.0", Summary: "Describes all connections.", Handler: clientList},
			{Name: "no-evict", Arity: 3, Flags: f | Admin | Dangerous, Group: g, Since: "7.0.0", Summary: "Keeps this connection from being closed to save memory.", Handler: clientNoEvict},
			{Name: "no-touch", Arity: 3, Flags: f, Group: g, Since: "7.2.0", Summary: "Keeps this connection's reads from counting as use.", Handler: clientNoTouch},
			{Name: "kill", Arity: -3, Flags: f | Admin | Dangerous | Early, Group: g, Since: "2.4.0", Summary: "Closes the connections that the filters name.", Handler: clientKill},
			{Name: "pause", Arity: -3, Flags: f | Admin | Dangerous, Group: g, Since: "3.0.0", Summary: "Holds back all commands, or those that write, for some milliseconds.", Handler: clientPause},
			{Name: "unpause", Arity: 2, Flags: f | Admin | Dangerous, Group: g, Since: "6.2.0", Summary: "Ends a pause.", Handler: clientUnpause},
			{Name: "unblock", Arity: -3, Flags: f | Admin | Dangerous | Early, Group: g, Since: "5.0.0", Summary: "Ends another connection's wait.", Handler: clientUnblock},
			{Name: "tracking", Arity: -3, Flags: f, Group: g, Since: "6.0.0", Summary: "Has this connection told when keys change that it may have cached.", Handler: clientTracking},
			{Name: "caching", Arity: 3, Flags: f, Group: g, Since: "6.0.0", Summary: "Says whether what the next command reads will be cached.", Handler: clientCaching},
			{Name: "trackinginfo", Arity: 2, Flags: f, Group: g, Since: "6.2.0", Summary: "Describes the connection's tracking.", Handler: clientTrackingInfo},
			{Name: "getredir", Arity: 2, Flags: f, Group: g, Since: "6.0.0", Summary: "Returns the connection that invalidations go to.", Handler: clientGetRedir},
			{Name: "reply", Arity: 3, Flags: f, Group: g, Since: "3.2.0", Summary: "Turns replies to this connection on or off, or skips one.", Handler: clientReply},
		},
	}
}

func clientID(c *Ctx) error {
	c.Reply.Int(int64(c.S.ID))
	return nil
}

func clientGetName(c *Ctx) error {
	if c.S.Name == "" {
		c.Reply.Null()
	} else {
		c.Reply.String(c.S.Name)
	}
	return nil
}

func clientSetName(c *Ctx) error {
	if !printable(c.Args[2]) {
		return errClientNames
	}
	c.S.Name = string(c.Args[2])
	c.Reply.OK()
	return nil
}

func clientSetInfo(c *Ctx) error {
	name, val := c.Args[2], c.Args[3]
	var field *string
	switch {
	case equalFold(name, "lib-name"):
		field = &c.S.LibName
	case equalFold(name, "lib-ver"):
		field = &c.S.LibVer
	default:
		return Error("ERR Unrecognized option '" + clip(name, 128) + "'")
	}
	if !printable(val) {
		return Error("ERR " + clip(name, 128) + " cannot contain spaces, newlines or special characters.")
	}
	*field = string(val)
	c.Reply.OK()
	return nil
}

func clientInfo(c *Ctx) error {
	c.Reply.Verbatim("txt", string(describe(c.S, c.Now, nil)))
	return nil
}

func clientList(c *Ctx) error {
	ids, kind, err := clientListFilter(c)
	if err != nil {
		return err
	}
	out, ok := c.Srv.Gather(c, func(s *Session, now int64, out []byte) []byte {
		if ids != nil && !ids[s.ID] || !s.hasType(kind) {
			return out
		}
		return describe(s, now, out)
	})
	if !ok {
		c.Park = Park{Answer: true}
		return ErrPark
	}
	c.Reply.Verbatim("txt", string(out))
	return nil
}

// clientListFilter parses TYPE and ID.
func clientListFilter(c *Ctx) (ids map[uint64]bool, kind string, err error) {
	args := c.Args[2:]
	switch {
	case len(args) == 0:
		return nil, "", nil
	case len(args) == 2 && equalFold(args[0], "type"):
		kind, err = clientType(args[1])
		return nil, kind, err
	case len(args) > 1 && equalFold(args[0], "id"):
		ids = map[uint64]bool{}
		for _, a := range args[1:] {
			id, err := parseInt(a)
			if err != nil || id < 1 {
				return nil, "", Error("ERR Invalid client ID")
			}
			ids[uint64(id)] = true
		}
		return ids, "", nil
	}
	return nil, "", errSyntax
}

// describe appends a session's line of CLIENT LIST.
func describe(s *Session, now int64, out []byte) []byte {
	num := func(name string, n int64) {
		out = append(out, name...)
		out = strconv.AppendInt(out, n, 10)
	}
	str := func(name, val string) {
		out = append(out, name...)
		out = append(out, val...)
	}
	num("id=", int64(s.ID))
	str(" addr=", s.Addr)
	str(" laddr=", s.LocalAt)
	num(" fd=", int64(s.FD))
	str(" name=", s.Name)
	num(" age=", (now-s.Created)/int64(time.Second))
	num(" idle=", (now-s.LastUsed)/int64(time.Second))
	flags := ""
	if s.Monitor {
		flags += "O"
	}
	if s.Tracking.On {
		flags += "t"
	}
	if s.Tracking.Broken {
		flags += "R"
	}
	if s.Tracking.Broadcast {
		flags += "B"
	}
	if s.Subscriptions() > 0 {
		flags += "P"
	}
	if s.Blocked {
		flags += "b"
	}
	if s.Queueing {
		flags += "x"
	}
	if s.NoEvict {
		flags += "e"
	}
	if s.NoTouch {
		flags += "T"
	}
	if s.Unix {
		flags += "U"
	}
	if flags == "" {
		flags = "N"
	}
	str(" flags=", flags)
	num(" db=", int64(s.DB))
	num(" sub=", int64(s.Subs[pubsub.Channel]))
	num(" psub=", int64(s.Subs[pubsub.Pattern]))
	num(" ssub=", int64(s.Subs[pubsub.Shard]))
	if s.Queueing {
		num(" multi=", int64(s.Queued))
	} else {
		num(" multi=", -1)
	}
	num(" qbuf=", int64(s.QueryBytes))
	str(" qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0", "")
	num(" omem=", int64(s.OutputBytes))
	num(" tot-mem=", int64(s.QueryBytes+s.OutputBytes))
	cmd := "NULL"
	if s.LastCmd != nil {
		cmd = s.LastCmd.Full()
	}
	str(" events=r cmd=", cmd)
	str(" user=", s.User)
	num(" redir=", s.Tracking.redirection())
	str(" resp=", strconv.Itoa(s.Proto))
	str(" lib-name=", s.LibName)
	str(" lib-ver=", s.LibVer)
	return append(out, '\n')
}

func clientNoEvict(c *Ctx) error { return onOff(c, &c.S.NoEvict) }
func clientNoTouch(c *Ctx) error { return onOff(c, &c.S.NoTouch) }

func onOff(c *Ctx, field *bool) error {
	switch {
	case equalFold(c.Args[2], "on"):
		*field = true
	case equalFold(c.Args[2], "off"):
		*field = false
	default:
		return errSyntax
	}
	c.Reply.OK()
	return nil
}

func clientReply(c *Ctx) error {
	switch {
	case equalFold(c.Args[2], "on"):
		c.S.ReplyMode = ReplyOn
		c.Reply.OK()
	case equalFold(c.Args[2], "off"):
		c.S.ReplyMode = ReplyOff
	case equalFold(c.Args[2], "skip"):
		if c.S.ReplyMode == ReplyOn {
			c.S.ReplyMode = ReplySkipNext
		}
	default:
		return errSyntax
	}
	return nil
}
