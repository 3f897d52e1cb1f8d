package command

import "strings"

func observingCommands() []Command {
	const g = "server"
	const f = Admin | Loading | Stale | NoLevel
	slow := func(name string, arity int, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: f &^ NoLevel, Group: g, Since: "2.2.12", Summary: summary, Handler: h}
	}
	lat := func(name string, arity int, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: f | NoScript, Group: g, Since: since, Summary: summary, Handler: h}
	}
	return []Command{
		{Name: "slowlog", Arity: -2, Group: g, Since: "2.2.12", Summary: "Shows commands that took long.", Subs: []Command{
			slow("get", -2, "Returns the newest slow commands.", slowlogGet),
			slow("len", 2, "Counts the slow commands that are kept.", slowlogLen),
			slow("reset", 2, "Forgets the slow commands.", slowlogReset),
		}},
		{Name: "latency", Arity: -2, Group: g, Since: "2.8.13", Summary: "Shows what took long, by kind of event.", Subs: []Command{
			lat("latest", 2, "2.8.13", "Returns the newest sample of each event.", latencyLatest),
			lat("history", 3, "2.8.13", "Returns the samples of one event.", latencyHistory),
			lat("reset", -2, "2.8.13", "Forgets the samples of all events, or of those that are named.", latencyReset),
			lat("graph", 3, "2.8.13", "Draws the samples of one event.", latencyGraph),
			lat("doctor", 2, "2.8.13", "Says what the samples mean.", latencyDoctor),
			lat("histogram", -2, "7.0.0", "Returns how long commands took, in powers of two microseconds.", latencyHistogram),
		}},
		{Name: "monitor", Arity: 1, Flags: f | NoScript, Group: g, Since: "1.0.0", Summary: "Shows every command that is executed, when it has reached this connection's level.", Handler: cmdMonitor},
	}
}

func slowlogGet(c *Ctx) error {
	count := int64(10)
	switch len(c.Args) {
	case 2:
	case 3:
		n, err := parseInt(c.Args[2])
		if err != nil || n < -1 {
			return Error("ERR count should be greater than or equal to -1")
		}
		count = n
	default:
		return unknownSub(c)
	}
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	if count < 0 || count > int64(len(o.slow)) {
		count = int64(len(o.slow))
	}
	c.Reply.Array(int(count))
	for i := len(o.slow) - 1; i >= len(o.slow)-int(count); i-- {
		e := &o.slow[i]
		c.Depends = max(c.Depends, e.seen)
		c.Reply.Array(6)
		c.Reply.Int(e.id)
		c.Reply.Int(e.at)
		c.Reply.Int(e.usec)
		c.Reply.Array(len(e.args))
		for _, a := range e.args {
			c.Reply.Bulk(a)
		}
		c.Reply.String(e.addr)
		c.Reply.String(e.name)
	}
	return nil
}

func unknownSub(c *Ctx) error {
	return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(c.Args[1], 128) + "'. Try " + strings.ToUpper(c.Cmd.parent.Name) + " HELP.")
}

func slowlogLen(c *Ctx) error {
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	c.Reply.Int(int64(len(o.slow)))
	return nil
}

func slowlogReset(c *Ctx) error {
	o := c.Srv.Observed()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slow = nil
	c.Reply.OK()
	return nil
}
