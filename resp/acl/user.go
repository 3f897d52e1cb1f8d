// Package acl knows users and what they may do: it parses the rules of ACL SETUSER, prints them, and checks commands, keys and
// channels against them. In come rules as text, and the table of commands (Table); it knows neither sessions nor the volume.
//
// A User is never changed once others see it: a change makes a new one.
package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
)

// Table is what rules say of commands.
type Table struct {
	// Commands in the order of their numbers.
	Commands []Command
	// Categories by name, without "@".
	Categories []string
	byName     map[string]int
}

// Command is one command, or a subcommand ("config|get"), of the table.
type Command struct {
	Name       string
	Parent     string // of a subcommand
	Subs       bool   // it has subcommands
	Always     bool   // everybody may: AUTH, HELLO ...
	Categories []string
}

// NewTable makes a table.
func NewTable(commands []Command, categories []string) *Table {
	t := &Table{Commands: commands, Categories: categories, byName: map[string]int{}}
	for i := range commands {
		t.byName[commands[i].Name] = i
	}
	return t
}

// User is a name and what goes with it.
type User struct {
	Name      string
	On        bool
	NoPass    bool
	Skip      bool // skip-sanitize-payload: kept and shown, without effect
	passwords []string
	root      *selector
	more      []*selector
	table     *Table
	all       bool // everything is allowed
}

// selector is one set of permissions; a command is allowed if one selector allows all of it.
type selector struct {
	commands    []uint64 // a bit each
	allCommands bool
	firstArgs   map[int][]string
	rules       []string // as they are shown
	keys        []keyPattern
	allKeys     bool
	channels    []string
	allChannels bool
}

type keyPattern struct {
	pattern     string
	read, write bool
}

// NewUser makes a user as ACL SETUSER finds it: off, without passwords or permissions.
func NewUser(t *Table, name string) *User {
	return &User{Name: name, root: newSelector(t), table: t}
}

// Default makes the default user of a new store: everything is allowed, without a password.
func Default(t *Table) *User {
	u, _ := NewUser(t, "default").With([]string{"on", "nopass", "~*", "&*", "+@all"})
	return u
}

func newSelector(t *Table) *selector {
	return &selector{commands: make([]uint64, (len(t.Commands)+63)/64), rules: []string{"-@all"}}
}

func (s *selector) clone() *selector {
	c := *s
	c.commands, c.rules = slices.Clone(s.commands), slices.Clone(s.rules)
	c.keys, c.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	c.firstArgs = make(map[int][]string, len(s.firstArgs))
	for k, v := range s.firstArgs {
		c.firstArgs[k] = slices.Clone(v)
	}
	return &c
}

func (u *User) clone() *User {
	c := *u
	c.passwords, c.root = slices.Clone(u.passwords), u.root.clone()
	c.more = nil
	for _, s := range u.more {
		c.more = append(c.more, s.clone())
	}
	return &c
}

// All says that the user may do everything.
func (u *User) All() bool { return u.all }

// Authenticate compares a password, in a time that depends only on how many the user has.
func (u *User) Authenticate(password []byte) bool {
	sum := sha256.Sum256(password)
	given := []byte(hex.EncodeToString(sum[:]))
	ok := 0
	for _, p := range u.passwords {
		ok |= subtle.ConstantTimeCompare(given, []byte(p))
	}
	return u.On && (u.NoPass || ok == 1)
}

// hash is how passwords are kept.
func hash(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// Flags lists what the user is.
func (u *User) Flags() []string {
	flags := []string{"off"}
	if u.On {
		flags[0] = "on"
	}
	if u.NoPass {
		flags = append(flags, "nopass")
	}
	if u.Skip {
		flags = append(flags, "skip-sanitize-payload")
	} else {
		flags = append(flags, "sanitize-payload")
	}
	return flags
}

// Passwords lists the hashes.
func (u *User) Passwords() []string { return u.passwords }

// Selectors returns the permissions, the user's own first.
func (u *User) Selectors() (list []Permissions) {
	for _, s := range append([]*selector{u.root}, u.more...) {
		list = append(list, Permissions{s.commandRules(), s.keyRules(), s.channelRules()})
	}
	return list
}

// Permissions are a selector's rules as text.
type Permissions struct{ Commands, Keys, Channels string }

func (s *selector) commandRules() string { return strings.Join(s.rules, " ") }

func (s *selector) keyRules() string {
	if s.allKeys {
		return "~*"
	}
	var list []string
	for _, k := range s.keys {
		switch {
		case k.read && k.write:
			list = append(list, "~"+k.pattern)
		case k.read:
			list = append(list, "%R~"+k.pattern)
		default:
			list = append(list, "%W~"+k.pattern)
		}
	}
	return strings.Join(list, " ")
}

func (s *selector) channelRules() string {
	if s.allChannels {
		return "&*"
	}
	var list []string
	for _, c := range s.channels {
		list = append(list, "&"+c)
	}
	return strings.Join(list, " ")
}

// describe is the selector as ACL LIST shows it.
func (s *selector) describe() string {
	var parts []string
	if k := s.keyRules(); k != "" {
		parts = append(parts, k)
	}
	if !s.allChannels {
		parts = append(parts, "resetchannels")
	}
	if c := s.channelRules(); c != "" {
		parts = append(parts, c)
	}
	return strings.Join(append(parts, s.commandRules()), " ")
}

// Describe is the user as ACL LIST shows it; With takes the words after the name.
func (u *User) Describe() string {
	parts := append([]string{"user", u.Name}, u.Flags()...)
	for _, p := range u.passwords {
		parts = append(parts, "#"+p)
	}
	parts = append(parts, u.root.describe())
	for _, s := range u.more {
		parts = append(parts, "("+s.describe()+")")
	}
	return strings.Join(parts, " ")
}
