package command

// RedisVersion is the version of Redis whose answers this server gives.
const RedisVersion = "7.2.4"

func connectionCommands() []Command {
	const g = "connection"
	const quick = Fast | Loading | Stale | NoLevel
	return []Command{
		{Name: "ping", Arity: -1, Flags: Fast | NoLevel, Group: g, Since: "1.0.0", Summary: "Answers PONG, or its argument.", Handler: cmdPing},
		{Name: "echo", Arity: 2, Flags: quick, Group: g, Since: "1.0.0", Summary: "Answers its argument.", Handler: cmdEcho},
		{Name: "hello", Arity: -1, Flags: quick | NoAuth | NoScript, Group: g, Since: "6.0.0", Summary: "Chooses the protocol version, and authenticates and names the connection if asked to.", Handler: cmdHello},
		{Name: "auth", Arity: -2, Flags: quick | NoAuth | NoScript, Group: g, Since: "1.0.0", Summary: "Authenticates the connection.", Handler: cmdAuth},
		{Name: "select", Arity: 2, Flags: quick, Group: g, Since: "1.0.0", Summary: "Chooses the database of the connection.", Handler: cmdSelect},
		{Name: "quit", Arity: -1, Flags: quick | NoAuth | NoScript, Group: g, Since: "1.0.0", Summary: "Closes the connection after all replies.", Handler: cmdQuit},
		{Name: "reset", Arity: 1, Flags: quick | NoAuth | NoScript, Group: g, Since: "6.2.0", Summary: "Brings the connection back to its first state.", Handler: cmdReset},
		clientCommand(),
	}
}

func cmdPing(c *Ctx) error {
	if c.S.Proto == 2 && c.S.Subscriptions() > 0 && len(c.Args) <= 2 { // shaped like a message there
		c.Reply.Array(2)
		c.Reply.String("pong")
		c.Reply.Bulk(append(c.Args, nil)[1])
		return nil
	}
	switch len(c.Args) {
	case 1:
		c.Reply.Simple("PONG")
	case 2:
		c.Reply.Bulk(c.Args[1])
	default:
		return wrongArity("ping")
	}
	return nil
}

func cmdEcho(c *Ctx) error {
	c.Reply.Bulk(c.Args[1])
	return nil
}

func cmdHello(c *Ctx) error {
	proto := c.S.Proto
	args := c.Args[1:]
	if len(args) > 0 {
		n, err := parseInt(args[0])
		if err != nil {
			return Error("ERR Protocol version is not an integer or out of range")
		}
		if n < 2 || n > 3 {
			return Error("NOPROTO unsupported protocol version")
		}
		proto, args = int(n), args[1:]
	}
	var user, pass, name []byte
	for i := 0; i < len(args); {
		switch left := len(args) - i - 1; {
		case equalFold(args[i], "auth") && left >= 2:
			user, pass = args[i+1], args[i+2]
			i += 3
		case equalFold(args[i], "setname") && left >= 1:
			if name = args[i+1]; !printable(name) {
				return errClientNames
			}
			i += 2
		default:
			return Error("ERR Syntax error in HELLO option '" + clip(args[i], 128) + "'")
		}
	}
	if user != nil {
		if err := c.Srv.Users().Login(c, user, pass); err != nil {
			return err
		}
	}
	if !c.S.Authenticated {
		return Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if name != nil {
		c.S.Name = string(name)
	}
	c.S.Proto, c.Reply.Proto = proto, proto
	r := &c.Reply
	r.Map(7)
	r.String("server")
	r.String("redis")
	r.String("version")
	r.String(RedisVersion)
	r.String("proto")
	r.Int(int64(proto))
	r.String("id")
	r.Int(int64(c.S.ID))
	r.String("mode")
	r.String("standalone")
	r.String("role")
	r.String("master")
	r.String("modules")
	r.Array(0)
	return nil
}

func cmdAuth(c *Ctx) error {
	user, pass := []byte("default"), c.Args[1]
	switch len(c.Args) {
	case 2:
		if c.Srv.DefaultFree() {
			return Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		}
	case 3:
		user, pass = c.Args[1], c.Args[2]
	default:
		return errSyntax
	}
	if err := c.Srv.Users().Login(c, user, pass); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdSelect(c *Ctx) error {
	n, err := parseInt(c.Args[1])
	if err != nil {
		return err
	}
	if n != int64(int32(n)) {
		return Error("ERR value is out of range, value must between -2147483648 and 2147483647")
	}
	if n < 0 || n >= int64(c.Space.Databases()) {
		return errDBRange
	}
	c.S.DB = int(n)
	c.Reply.OK()
	return nil
}

func cmdQuit(c *Ctx) error {
	c.S.CloseAfter = true
	c.Reply.OK()
	return nil
}

func cmdReset(c *Ctx) error {
	if c.S.Monitor {
		c.Srv.Monitoring(-1)
	}
	c.Srv.UnsubscribeAll(c.S)
	c.Srv.Untrack(c.S)
	c.Srv.Discard(c.S)
	c.Srv.Unwatch(c.S)
	c.S.Reset(c.Srv.DefaultFree())
	c.Reply.Proto = 2
	c.Reply.Simple("RESET")
	return nil
}
