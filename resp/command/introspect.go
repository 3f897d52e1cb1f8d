package command

import (
	"sort"
	"strings"

	"cvmstore/keyspace"
)

func commandCommand() Command {
	const g = "server"
	const f = Loading | Stale | NoLevel
	return Command{
		Name: "command", Arity: -1, Flags: f, Group: g, Since: "2.8.13", Summary: "Describes all commands.", Handler: cmdCommand,
		Subs: []Command{
			{Name: "count", Arity: 2, Flags: f, Group: g, Since: "2.8.13", Summary: "Returns the number of commands.", Handler: commandCount},
			{Name: "info", Arity: -2, Flags: f, Group: g, Since: "2.8.13", Summary: "Describes the commands that are named.", Handler: commandInfo},
			{Name: "docs", Arity: -2, Flags: f, Group: g, Since: "7.0.0", Summary: "Returns help texts.", Handler: commandDocs},
			{Name: "list", Arity: -2, Flags: f, Group: g, Since: "7.0.0", Summary: "Lists command names.", Handler: commandList},
			{Name: "getkeys", Arity: -3, Flags: f, Group: g, Since: "2.8.13", Summary: "Returns the keys among a command's arguments.", Handler: commandGetKeys},
			{Name: "getkeysandflags", Arity: -3, Flags: f, Group: g, Since: "7.0.0", Summary: "Returns the keys among a command's arguments, and what it does to each.", Handler: commandGetKeysAndFlags},
		},
	}
}

func cmdCommand(c *Ctx) error {
	c.Reply.Array(len(ordered))
	for _, cmd := range ordered {
		cmd.describe(&c.Reply)
	}
	return nil
}

func commandCount(c *Ctx) error {
	c.Reply.Int(int64(len(ordered)))
	return nil
}

func commandInfo(c *Ctx) error {
	if len(c.Args) == 2 {
		return cmdCommand(c)
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		if cmd := byFullName(name); cmd != nil {
			cmd.describe(&c.Reply)
		} else {
			c.Reply.NullArray()
		}
	}
	return nil
}

// byFullName finds "get" and "config|get".
func byFullName(name []byte) *Command {
	container, sub, nested := strings.Cut(string(name), "|")
	cmd := find([]byte(container))
	if cmd == nil || !nested {
		return cmd
	}
	return cmd.sub([]byte(sub))
}

// describe appends a command's row as COMMAND INFO has it.
func (c *Command) describe(r *Reply) {
	r.Array(10)
	r.String(c.Full())
	r.Int(int64(c.Arity))
	flags := c.Flags.names()
	r.Set(len(flags))
	for _, f := range flags {
		r.Simple(f)
	}
	r.Int(int64(c.First))
	r.Int(int64(c.Last))
	r.Int(int64(c.Step))
	cats := c.Categories()
	r.Set(len(cats))
	for _, cat := range cats {
		r.Simple("@" + cat)
	}
	r.Array(0)
	c.describeKeys(r)
	r.Array(len(c.Subs))
	for i := range c.Subs {
		c.Subs[i].describe(r)
	}
}

func (c *Command) describeKeys(r *Reply) {
	if c.First == 0 {
		r.Array(0)
		return
	}
	r.Array(1)
	r.Map(3)
	r.String("flags")
	writeKeyFlags(r, c.keyFlags(0))
	r.String("begin_search")
	r.Map(2)
	r.String("type")
	r.String("index")
	r.String("spec")
	r.Map(1)
	r.String("index")
	r.Int(int64(c.First))
	r.String("find_keys")
	r.Map(2)
	r.String("type")
	r.String("range")
	r.String("spec")
	r.Map(3)
	r.String("lastkey")
	last := c.Last
	if last > 0 {
		last -= c.First
	}
	r.Int(int64(last))
	r.String("keystep")
	r.Int(int64(c.Step))
	r.String("limit")
	r.Int(0)
}

var flagNames = []struct {
	flag Flag
	name string
}{
	{Write, "write"},
	{ReadOnly, "readonly"},
	{DenyOOM, "denyoom"},
	{Admin, "admin"},
	{NoScript, "noscript"},
	{Blocking, "blocking"},
	{Loading, "loading"},
	{Stale, "stale"},
	{Fast, "fast"},
	{PubSub, "pubsub"},
	{NoAuth, "no_auth"},
	{NoMulti, "no_multi"},
}

func (f Flag) names() (names []string) {
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Categories returns the command's ACL categories, without "@".
func (c *Command) Categories() []string {
	var cats []string
	add := func(cond bool, name string) {
		if cond {
			cats = append(cats, name)
		}
	}
	switch c.Group {
	case "generic":
		if c.Name == "sort" || c.Name == "sort_ro" {
			cats = append(cats, "list", "set", "sortedset")
			break
		}
		cats = append(cats, "keyspace")
	case "server", "cvm":
		if c.Name == "command" || c.parent != nil && c.parent.Name == "command" {
			cats = append(cats, "connection")
		}
	case "sorted-set":
		cats = append(cats, "sortedset")
	case "transactions":
		cats = append(cats, "transaction")
	default:
		cats = append(cats, c.Group)
	}
	add(c.Flags&Keyspace != 0, "keyspace")
	add(c.Flags&Write != 0, "write")
	add(c.Flags&ReadOnly != 0 && c.Group != "scripting", "read") // what a script does is its own commands' affair
	add(c.Flags&Admin != 0, "admin")
	add(c.Flags&(Admin|Dangerous) != 0, "dangerous")
	add(c.Flags&Blocking != 0, "blocking")
	add(c.Flags&Fast != 0, "fast")
	add(c.Flags&Fast == 0, "slow")
	return cats
}

func commandDocs(c *Ctx) error {
	var cmds []*Command
	if len(c.Args) == 2 {
		cmds = ordered
	}
	for _, name := range c.Args[2:] {
		if cmd := byFullName(name); cmd != nil {
			cmds = append(cmds, cmd)
		}
	}
	c.Reply.Map(len(cmds))
	for _, cmd := range cmds {
		c.Reply.String(cmd.Full())
		cmd.document(&c.Reply)
	}
	return nil
}

func (c *Command) document(r *Reply) {
	n := 3
	if len(c.Subs) > 0 {
		n++
	}
	if c.Syntax != "" {
		n++
	}
	r.Map(n)
	r.String("summary")
	r.String(c.Summary)
	r.String("since")
	r.String(c.Since)
	r.String("group")
	r.String(c.Group)
	if c.Syntax != "" {
		c.writeArguments(r)
	}
	if len(c.Subs) > 0 {
		r.String("subcommands")
		r.Map(len(c.Subs))
		for i := range c.Subs {
			r.String(c.Subs[i].Full())
			c.Subs[i].document(r)
		}
	}
}

func commandList(c *Ctx) error {
	keep := func(*Command) bool { return true }
	switch args := c.Args[2:]; {
	case len(args) == 0:
	case len(args) == 3 && equalFold(args[0], "filterby") && equalFold(args[1], "pattern"):
		keep = func(cmd *Command) bool { return keyspace.Match(args[2], []byte(cmd.Full())) }
	case len(args) == 3 && equalFold(args[0], "filterby") && equalFold(args[1], "aclcat"):
		keep = func(cmd *Command) bool {
			for _, cat := range cmd.Categories() {
				if equalFold(args[2], cat) {
					return true
				}
			}
			return false
		}
	case len(args) == 3 && equalFold(args[0], "filterby") && equalFold(args[1], "module"):
		keep = func(*Command) bool { return false }
	default:
		return errSyntax
	}
	var names []string
	for _, cmd := range all {
		if keep(cmd) {
			names = append(names, cmd.Full())
		}
	}
	sort.Strings(names)
	c.Reply.Set(len(names))
	for _, n := range names {
		c.Reply.String(n)
	}
	return nil
}
