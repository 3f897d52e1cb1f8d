package command

// Transactions. The loop keeps what a session has queued; see Transactions.

func multiCommands() []Command {
	const g = "transactions"
	const f = NoScript | Loading | Stale | Fast | NoLevel
	return []Command{
		{Name: "multi", Arity: 1, Flags: f, Group: g, Since: "1.2.0", Summary: "Begins a transaction: the commands that follow are queued.", Handler: cmdMulti},
		{Name: "exec", Arity: 1, Flags: NoScript | Loading | Stale, Group: g, Since: "1.2.0", Summary: "Executes the queued commands as one atomic batch.", Handler: cmdExec},
		{Name: "discard", Arity: 1, Flags: f, Group: g, Since: "2.0.0", Summary: "Forgets the queued commands.", Handler: cmdDiscard},
		{Name: "watch", Arity: -2, Flags: f, Group: g, First: 1, Last: -1, Step: 1, Locks: LockKeys, Since: "2.2.0", Summary: "Lets the next EXEC do nothing if one of the keys changes until then.", Handler: cmdWatch},
		{Name: "unwatch", Arity: 1, Flags: f, Group: g, Since: "2.2.0", Summary: "Forgets the watched keys.", Handler: cmdUnwatch},
	}
}

// Transactions is the part of Server that MULTI and its kin need.
type Transactions interface {
	// Multi begins to queue. It returns false if the session does so already.
	Multi(*Session) bool
	// Exec runs what was queued, and appends the reply.
	Exec(*Ctx) error
	// Discard forgets what was queued, and what is watched. It returns false if the session does not queue.
	Discard(*Session) bool
	// Watch watches keys, in a transaction that has them.
	Watch(c *Ctx, keys [][]byte) error
	Unwatch(*Session)
}

func cmdMulti(c *Ctx) error {
	if !c.Srv.Multi(c.S) {
		return Error("ERR MULTI calls can not be nested")
	}
	c.Reply.OK()
	return nil
}

// Exec is the row of EXEC.
func Exec() *Command { return table["exec"] }

func cmdExec(c *Ctx) error { return c.Srv.Exec(c) }

func cmdDiscard(c *Ctx) error {
	if !c.Srv.Discard(c.S) {
		return Error("ERR DISCARD without MULTI")
	}
	c.Reply.OK()
	return nil
}

func cmdWatch(c *Ctx) error {
	if c.S.Queueing {
		return Error("ERR WATCH inside MULTI is not allowed")
	}
	if err := c.Srv.Watch(c, c.Args[1:]); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdUnwatch(c *Ctx) error {
	c.Srv.Unwatch(c.S)
	c.Reply.OK()
	return nil
}
