package command

import (
	"bytes"
	"sort"
	"strings"

	"cvmstore/files"
)

// Command is one row of the table, or a subcommand of one.
type Command struct {
	Name    string
	Arity   int // number of arguments with the name; negative: at least so many
	Flags   Flag
	Group   string // of the documentation, and the category "@group" (keyspace for generic)
	First   int    // the first key's position, 0: no keys
	Last    int    // the last key's position, negative: counted from the end
	Step    int
	Counted int // the position of the number of further keys, which follow it; 0: none
	Locks   Locks
	Body    int // position of the argument that may be a large value, 0: none; see TakesBody
	Since   string
	Summary string // our own words
	Syntax  string // of the arguments, where COMMAND DOCS is to tell it
	Subs    []Command
	Handler func(*Ctx) error
	// Movable returns the keys of a command whose specification cannot tell them (a number of keys among the arguments). The
	// arguments may be any: what does not parse has no keys.
	Movable func(args [][]byte) [][]byte
	// Roams reports whether a command with such arguments looks at keys that these do not name, so that all have to be locked.
	Roams func(args [][]byte) bool

	// Plan says what a command with LockPlan locks; the handler finds it in Ctx.Planned. It takes no locks itself.
	Plan func(*Ctx) (*files.Plan, error)

	Index  int // place in All, subcommands included: for counters
	parent *Command
}

// Flag is a set of a command's properties, named as COMMAND INFO shows them.
type Flag uint32

// The flags. Those from NoLevel on are ours and not shown.
const (
	Write Flag = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	NoScript
	Blocking
	Loading
	Stale
	Fast
	NoAuth
	NoMulti
	Dangerous // category only
	Keyspace  // category only, for commands of other groups
	PubSub    // shown as a flag, and the category
	NoLevel   // the reply depends on nothing stored
	Early     // within MULTI it is answered just before the batch: it asks other loops, or locks for itself
)

// Locks says how the dispatcher begins the transaction.
type Locks uint8

// With LockKeys the keys of the specification are locked, with LockAll everything. LockSelf: the handler calls a function of
// the keyspace that locks for itself.
const (
	LockNone Locks = iota
	LockKeys
	LockAll
	LockSelf
	LockPlan   // what Command.Plan says
	LockScript // everything, with no other loop at work: scripts and functions
)

var (
	table   = map[string]*Command{} // by lower-case name
	ordered []*Command              // by name, containers only
	all     []*Command              // with subcommands
)

func init() {
	for _, family := range [][]Command{
		connectionCommands(), genericCommands(), moveCommands(), objectCommands(), dumpCommands(),
		stringCommands(), hashCommands(), setCommands(), zsetCommands(), listCommands(), rangeCommands(), bitmapCommands(), serverCommands(), waitCommands(), cvmCommands(), epochCommands(), attestCommands(), holdCommands(),
		observingCommands(), savingCommands(), absentCommands(), memoryCommands(), debugCommands(),
		multiCommands(), fileCommands(), pubsubCommands(), hyperloglogCommands(), blockingCommands(),
		scriptCommands(), functionCommands(),
		streamCommands(), streamGroupCommands(),
		aclCommands(),
		geoCommands(), sortCommands(),
	} {
		for i := range family {
			register(&family[i], nil)
		}
	}
	sort.Slice(ordered, func(i, j int) bool { return ordered[i].Name < ordered[j].Name })
}

func register(c, parent *Command) {
	c.Index, c.parent = len(all), parent
	all = append(all, c)
	if (c.First > 0 || c.Counted > 0 || c.Movable != nil) && c.Locks == LockNone {
		c.Locks = LockKeys
	}
	if parent == nil {
		if table[c.Name] != nil {
			panic("internal error: command " + c.Name + " stands twice in the table")
		}
		table[c.Name] = c
		ordered = append(ordered, c)
	}
	if len(c.Subs) > 0 {
		c.Subs = append(c.Subs, Command{
			Name: "help", Arity: 2, Flags: Loading | Stale | NoLevel, Group: c.Group, Since: c.Since,
			Summary: "Lists the subcommands.", Handler: subcommandHelp,
		})
	}
	for i := range c.Subs {
		register(&c.Subs[i], c)
	}
}

// LocksFor says how the transaction of a command with these arguments begins.
func (c *Command) LocksFor(args [][]byte) Locks {
	if c.Roams != nil && c.Roams(args) {
		return LockAll
	}
	return c.Locks
}

// All returns every command, subcommands after their container; a command's Index is its place.
func All() []*Command { return all }

// Full is the command's name, with its container's: "config|get".
func (c *Command) Full() string {
	if c.parent != nil {
		return c.parent.Name + "|" + c.Name
	}
	return c.Name
}

// Container is the name of the command that this is a subcommand of, or its own.
func (c *Command) Container() string {
	if c.parent != nil {
		return c.parent.Name
	}
	return c.Name
}

// Lookup finds the command that args name, subcommands included, and checks the number of arguments.
// With an error that is about a known command the command is returned too.
func Lookup(args [][]byte) (*Command, error) {
	c := find(args[0])
	if c == nil {
		return nil, unknownCommand(args)
	}
	if len(c.Subs) > 0 && len(args) > 1 {
		sub := c.sub(args[1])
		if sub == nil {
			return nil, Error("ERR unknown subcommand '" + clip(args[1], 128) + "'. Try " + strings.ToUpper(c.Name) + " HELP.")
		}
		c = sub
	}
	if c.Arity > 0 && len(args) != c.Arity || len(args) < -c.Arity {
		return c, wrongArity(c.Full())
	}
	return c, nil
}

func find(name []byte) *Command {
	var lower [32]byte
	if len(name) > len(lower) {
		return nil
	}
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b |= 0x20
		}
		lower[i] = b
	}
	return table[string(lower[:len(name)])]
}

func (c *Command) sub(name []byte) *Command {
	for i := range c.Subs {
		if equalFold(name, c.Subs[i].Name) {
			return &c.Subs[i]
		}
	}
	return nil
}

func unknownCommand(args [][]byte) Error {
	var b strings.Builder
	b.WriteString("ERR unknown command '" + clip(args[0], 128) + "', with args beginning with: ")
	listed := 0
	for _, a := range args[1:] {
		if listed >= 128 {
			break
		}
		s := clip(a, 128-listed)
		b.WriteString("'" + s + "' ")
		listed += len(s) + 3
	}
	return Error(b.String())
}

// SecurityAttack reports whether a first line looks like HTTP: somebody makes a browser talk to this port.
func SecurityAttack(args [][]byte) bool {
	return equalFold(args[0], "post") || equalFold(args[0], "host:")
}

// clip is b as Redis prints it into an error: at most n bytes, up to the first NUL.
func clip(b []byte, n int) string {
	b = b[:min(len(b), n)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// equalFold compares with a lower-case ASCII word.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
