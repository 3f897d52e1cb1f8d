package command

import (
	"cvmstore/streams"
)

func xinfoCommand() Command {
	const g = "stream"
	sub := func(name string, arity int, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: ReadOnly, Group: g, First: 2, Last: 2, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	return Command{
		Name: "xinfo", Arity: -2, Group: g, Since: "5.0.0", Summary: "Describes streams and their groups.",
		Subs: []Command{
			sub("stream", -3, "5.0.0", "Describes a stream.", xinfoStream),
			sub("groups", 3, "5.0.0", "Describes the groups of a stream.", xinfoGroups),
			sub("consumers", 4, "5.0.0", "Describes the consumers of a group.", xinfoConsumers),
		},
	}
}

func xinfoStream(c *Ctx) error {
	full, count := false, 10
	switch args := c.Args[3:]; {
	case len(args) == 0:
	case len(args) != 1 && len(args) != 3, !equalFold(args[0], "full"), len(args) == 3 && !equalFold(args[1], "count"):
		return errSubSyntax(c)
	default:
		full = true
		if len(args) == 3 {
			n, err := parseInt(args[2])
			if err != nil {
				return err
			}
			if n >= 0 {
				count = int(n)
			}
		}
	}
	i, ok, err := streams.Stat(c.Tx, c.Args[2])
	if err != nil {
		return err
	}
	if !ok {
		return errNoKey
	}
	if full {
		return xinfoFull(c, &i, count)
	}
	var ends [2][]streams.Entry
	var missed error
	for k := range ends {
		list, err := streams.Range(c.Tx, c.Args[2], streams.RangeOptions{To: streams.IDMax, Count: 1, Reverse: k == 1})
		if err != nil {
			if miss, _ := Retry(err); !miss {
				return err
			}
			missed = err
		}
		ends[k] = list
	}
	if missed != nil {
		return missed
	}
	r := &c.Reply
	r.Map(10)
	streamHead(r, &i)
	r.String("groups")
	r.Int(int64(i.Groups))
	for k, name := range []string{"first-entry", "last-entry"} {
		r.String(name)
		if len(ends[k]) == 0 {
			r.Null()
		} else {
			r.entry(&ends[k][0])
		}
	}
	return nil
}

// streamHead appends what both forms of XINFO STREAM begin with: seven pairs. The index is no radix tree: its leaves are counted.
func streamHead(r *Reply, i *streams.Info) {
	r.String("length")
	r.Int(int64(i.Length))
	r.String("radix-tree-keys")
	r.Int(int64(i.Leaves))
	r.String("radix-tree-nodes")
	r.Int(int64(i.Leaves) + 1)
	r.String("last-generated-id")
	r.id(i.Last)
	r.String("max-deleted-entry-id")
	r.id(i.MaxDeleted)
	r.String("entries-added")
	r.Int(int64(i.Added))
	r.String("recorded-first-entry-id")
	r.id(i.First)
}

func xinfoFull(c *Ctx, i *streams.Info, count int) error {
	list, err := streams.Range(c.Tx, c.Args[2], streams.RangeOptions{To: streams.IDMax, Count: count})
	if err != nil {
		return err
	}
	groups, _, err := streams.Groups(c.Tx, c.Args[2], count)
	if err != nil {
		return err
	}
	r := &c.Reply
	r.Map(9)
	streamHead(r, i)
	r.String("entries")
	r.entries(list)
	r.String("groups")
	r.Array(len(groups))
	for k := range groups {
		g := &groups[k]
		r.Map(7)
		r.String("name")
		r.String(g.Name)
		groupPosition(r, g)
		r.String("pel-count")
		r.Int(int64(g.Pending))
		r.String("pending")
		r.Array(len(g.List))
		for _, p := range g.List {
			r.Array(4)
			r.id(p.ID)
			r.String(p.Consumer)
			r.Int(p.Delivered)
			r.Int(int64(p.Count))
		}
		r.String("consumers")
		r.Array(len(g.Consumers))
		for j := range g.Consumers {
			fullConsumer(r, &g.Consumers[j])
		}
	}
	return nil
}

func groupPosition(r *Reply, g *streams.GroupInfo) {
	r.String("last-delivered-id")
	r.id(g.Last)
	r.String("entries-read")
	intOrNull(r, g.Read)
	r.String("lag")
	intOrNull(r, g.Lag)
}

func intOrNull(r *Reply, n int64) {
	if n < 0 {
		r.Null()
	} else {
		r.Int(n)
	}
}

func fullConsumer(r *Reply, x *streams.ConsumerInfo) {
	r.Map(5)
	r.String("name")
	r.String(x.Name)
	r.String("seen-time")
	r.Int(x.Seen)
	r.String("active-time")
	r.Int(x.Active)
	r.String("pel-count")
	r.Int(int64(x.Pending))
	r.String("pending")
	r.Array(len(x.List))
	for _, p := range x.List {
		r.Array(3)
		r.id(p.ID)
		r.Int(p.Delivered)
		r.Int(int64(p.Count))
	}
}

func xinfoGroups(c *Ctx) error {
	groups, ok, err := streams.Groups(c.Tx, c.Args[2], -1)
	if err != nil {
		return err
	}
	if !ok {
		return errNoKey
	}
	r := &c.Reply
	r.Array(len(groups))
	for k := range groups {
		g := &groups[k]
		r.Map(6)
		r.String("name")
		r.String(g.Name)
		r.String("consumers")
		r.Int(int64(len(g.Consumers)))
		r.String("pending")
		r.Int(int64(g.Pending))
		groupPosition(r, g)
	}
	return nil
}

func xinfoConsumers(c *Ctx) error {
	switch _, ok, err := streams.Stat(c.Tx, c.Args[2]); {
	case err != nil:
		return err
	case !ok:
		return errNoKey
	}
	g, err := streams.Group(c.Tx, c.Args[2], c.Args[3])
	if err != nil {
		return noGroup(err, c.Args[2], c.Args[3])
	}
	now := c.Tx.Now()
	r := &c.Reply
	r.Array(len(g.Consumers))
	for i := range g.Consumers {
		x := &g.Consumers[i]
		r.Map(4)
		r.String("name")
		r.String(x.Name)
		r.String("pending")
		r.Int(int64(x.Pending))
		r.String("idle")
		r.Int(max(now-x.Seen, 0))
		r.String("inactive")
		if x.Active < 0 {
			r.Int(-1)
		} else {
			r.Int(max(now-x.Active, 0))
		}
	}
	return nil
}
