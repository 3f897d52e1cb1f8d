package command

import (
	"time"

	"cvmstore/keyspace"
)

// Functions is what FUNCTION's subcommands need. The methods that change or read the libraries are called with everything locked.
type Functions interface {
	Load(c *Ctx, source []byte, replace bool) (name string, err error)
	Delete(c *Ctx, name []byte) error
	Flush(c *Ctx) error
	Dump(c *Ctx) []byte
	// Restore takes what Dump returned; policy is flush, append or replace.
	Restore(c *Ctx, payload []byte, policy string) error
	List(c *Ctx) []LibraryInfo
	// Stats may be called while a function runs.
	Stats() FunctionStats
}

// LibraryInfo describes a library.
type LibraryInfo struct {
	Name, Source string
	Functions    []FunctionInfo
}

// FunctionInfo describes a function.
type FunctionInfo struct {
	Name, Description string
	Described         bool
	Flags             []string
}

// FunctionStats is what FUNCTION STATS answers.
type FunctionStats struct {
	Libraries, Functions int
	Running              bool
	Name                 string
	Command              [][]byte
	Took                 time.Duration
}

func functionCommands() []Command {
	const g = "scripting"
	sub := func(name string, arity int, flags Flag, locks Locks, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags | NoScript, Group: g, Locks: locks, Since: "7.0.0", Summary: summary, Handler: h}
	}
	return []Command{{
		Name: "function", Arity: -2, Group: g, Since: "7.0.0", Summary: "Commands about functions.", Subs: []Command{
			sub("load", -3, Write|DenyOOM, LockScript, "Loads a library.", functionLoad),
			sub("delete", 3, Write, LockScript, "Deletes a library.", functionDelete),
			sub("flush", -2, Write, LockScript, "Deletes all libraries.", functionFlush),
			sub("dump", 2, 0, LockScript, "Returns all libraries in the format of RDB files.", functionDump),
			sub("restore", -3, Write|DenyOOM, LockScript, "Loads what FUNCTION DUMP returned.", functionRestore),
			sub("list", -2, 0, LockScript, "Lists libraries and functions.", functionList),
			sub("stats", 2, Stale|NoLevel, LockNone, "Says which function runs.", functionStats),
			sub("kill", 2, Stale|NoLevel, LockNone, "Ends the function that runs.", scriptKill(true)),
		},
	}}
}

func functionUsage(c *Ctx) Error {
	return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(c.Args[1], 128) + "'. Try FUNCTION HELP.")
}

func functionLoad(c *Ctx) error {
	args, replace := c.Args[2:], false
	for ; len(args) > 1; args = args[1:] {
		if !equalFold(args[0], "replace") {
			return Error("ERR Unknown option given: " + clip(args[0], 128))
		}
		replace = true
	}
	name, err := c.Srv.Functions().Load(c, args[0], replace)
	if err != nil {
		return err
	}
	c.Reply.String(name)
	return nil
}

func functionDelete(c *Ctx) error {
	if err := c.Srv.Functions().Delete(c, c.Args[2]); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func functionFlush(c *Ctx) error {
	switch {
	case len(c.Args) > 3:
		return functionUsage(c)
	case len(c.Args) == 3 && !equalFold(c.Args[2], "sync") && !equalFold(c.Args[2], "async"):
		return Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	if err := c.Srv.Functions().Flush(c); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func functionDump(c *Ctx) error {
	c.Reply.Bulk(c.Srv.Functions().Dump(c))
	return nil
}

func functionRestore(c *Ctx) error {
	policy := "append"
	switch {
	case len(c.Args) > 4:
		return functionUsage(c)
	case len(c.Args) == 4:
		policy = ""
		for _, p := range []string{"append", "replace", "flush"} {
			if equalFold(c.Args[3], p) {
				policy = p
			}
		}
		if policy == "" {
			return Error("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
		}
	}
	if err := c.Srv.Functions().Restore(c, c.Args[2], policy); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func functionList(c *Ctx) error {
	var pattern []byte
	code := false
	args := c.Args[2:]
	for i := 0; i < len(args); i++ {
		switch {
		case !code && equalFold(args[i], "withcode"):
			code = true
		case pattern == nil && equalFold(args[i], "libraryname"):
			if i++; i == len(args) {
				return Error("ERR library name argument was not given")
			}
			pattern = args[i]
		default:
			return Error("ERR Unknown argument " + string(args[i]))
		}
	}
	var list []LibraryInfo
	for _, b := range c.Srv.Functions().List(c) {
		if pattern == nil || keyspace.Match(pattern, []byte(b.Name)) {
			list = append(list, b)
		}
	}
	r := &c.Reply
	r.Array(len(list))
	for _, b := range list {
		r.Map(3 + int(boolInt(code)))
		r.String("library_name")
		r.String(b.Name)
		r.String("engine")
		r.String("LUA")
		r.String("functions")
		r.Array(len(b.Functions))
		for _, f := range b.Functions {
			f.write(r)
		}
		if code {
			r.String("library_code")
			r.String(b.Source)
		}
	}
	return nil
}

func (f *FunctionInfo) write(r *Reply) {
	r.Map(3)
	r.String("name")
	r.String(f.Name)
	r.String("description")
	r.BulkOrNull([]byte(f.Description), f.Described)
	r.String("flags")
	r.Set(len(f.Flags))
	for _, name := range f.Flags {
		r.Simple(name)
	}
}

func functionStats(c *Ctx) error {
	s := c.Srv.Functions().Stats()
	r := &c.Reply
	r.Map(2)
	r.String("running_script")
	if s.Running {
		r.Map(3)
		r.String("name")
		r.String(s.Name)
		r.String("command")
		r.Array(len(s.Command))
		for _, a := range s.Command {
			r.Bulk(a)
		}
		r.String("duration_ms")
		r.Int(s.Took.Milliseconds())
	} else {
		r.Null()
	}
	r.String("engines")
	r.Map(1)
	r.String("LUA")
	r.Map(2)
	r.String("libraries_count")
	r.Int(int64(s.Libraries))
	r.String("functions_count")
	r.Int(int64(s.Functions))
	return nil
}
