package command

import "strconv"

func serverCommands() []Command {
	const g = "server"
	const f = Loading | Stale | NoLevel
	return []Command{
		commandCommand(),
		{
			Name: "config", Arity: -2, Group: g, Since: "2.0.0", Summary: "Reads and changes parameters.",
			Subs: []Command{
				{Name: "get", Arity: -3, Flags: f | Admin | NoScript, Group: g, Since: "2.0.0", Summary: "Returns the parameters whose names match.", Handler: configGet},
				{Name: "set", Arity: -4, Flags: f | Admin | NoScript, Group: g, Since: "2.0.0", Summary: "Sets parameters, all or none.", Handler: configSet},
				{Name: "resetstat", Arity: 2, Flags: f | Admin | NoScript, Group: g, Since: "2.0.0", Summary: "Sets the counters of INFO to zero.", Handler: configResetStat},
				{Name: "rewrite", Arity: 2, Flags: f | Admin | NoScript, Group: g, Since: "2.8.0", Summary: "Writes the parameters in force into the configuration file.", Handler: configRewrite},
			},
		},
		{Name: "info", Arity: -1, Flags: Loading | Stale | Dangerous | Early, Group: g, Locks: LockSelf, Since: "1.0.0", Summary: "Describes the server.", Handler: cmdInfo},
		{Name: "dbsize", Arity: 1, Flags: ReadOnly | Fast | Keyspace, Group: g, Locks: LockAll, Since: "1.0.0", Summary: "Returns the number of keys in the database.", Handler: cmdDBSize},
		{Name: "flushdb", Arity: -1, Flags: Write | Dangerous | Keyspace, Group: g, Locks: LockAll, Since: "1.0.0", Summary: "Deletes all keys of the database.", Handler: cmdFlushDB},
		{Name: "flushall", Arity: -1, Flags: Write | Dangerous | Keyspace, Group: g, Locks: LockAll, Since: "1.0.0", Summary: "Deletes all keys of all databases.", Handler: cmdFlushAll},
		{Name: "time", Arity: 1, Flags: Fast | Loading | Stale | NoLevel, Group: g, Since: "2.6.0", Summary: "Returns the store's time: seconds, microseconds.", Handler: cmdTime},
		{Name: "shutdown", Arity: -1, Flags: f | Admin | NoScript | NoMulti, Group: g, Since: "1.0.0", Summary: "Stops the server after all replies have left.", Handler: cmdShutdown},
	}
}

func configGet(c *Ctx) error {
	var found []Field
	c.Srv.ConfigGet(c.Args[2:], func(name, value string) { found = append(found, Field{name, value}) })
	c.Reply.Map(len(found))
	for _, f := range found {
		c.Reply.String(f.Name)
		c.Reply.String(f.Value)
	}
	return nil
}

func configSet(c *Ctx) error {
	if len(c.Args)%2 != 0 {
		return errSyntax
	}
	if err := c.Srv.ConfigSet(c.Args[2:]); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func configResetStat(c *Ctx) error {
	c.Srv.ResetStats()
	c.Reply.OK()
	return nil
}

func configRewrite(c *Ctx) error {
	if err := c.Srv.ConfigRewrite(); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdDBSize(c *Ctx) error {
	c.Reply.Int(int64(c.Tx.DBSize()))
	return nil
}

func cmdFlushDB(c *Ctx) error  { return flush(c, c.Tx.FlushDB) }
func cmdFlushAll(c *Ctx) error { return flush(c, c.Tx.FlushAll) }

func flush(c *Ctx, do func() error) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !equalFold(c.Args[1], "async") && !equalFold(c.Args[1], "sync") {
		return errSyntax
	}
	if err := do(); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdTime(c *Ctx) error {
	var ms int64
	if v := c.Srv.Volume(); v != nil {
		ms = v.Now()
	}
	c.Reply.Array(2)
	c.Reply.String(strconv.FormatInt(ms/1000, 10))
	c.Reply.String(strconv.FormatInt(ms%1000*1000, 10))
	return nil
}

func cmdShutdown(c *Ctx) error {
	for _, a := range c.Args[1:] {
		switch {
		case equalFold(a, "nosave"), equalFold(a, "save"), equalFold(a, "now"), equalFold(a, "force"):
		case equalFold(a, "abort"):
			return Error("ERR No shutdown in progress.")
		default:
			return errSyntax
		}
	}
	c.Srv.Shutdown()
	return nil // the connection ends without a reply, as with Redis
}
