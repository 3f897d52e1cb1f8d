package command

import "strings"

func commandGetKeys(c *Ctx) error {
	_, keys, err := keysOf(c)
	if err != nil {
		return err
	}
	c.Reply.Array(len(keys))
	for _, k := range keys {
		c.Reply.Bulk(k)
	}
	return nil
}

func commandGetKeysAndFlags(c *Ctx) error {
	cmd, keys, err := keysOf(c)
	if err != nil {
		return err
	}
	c.Reply.Array(len(keys))
	for i, k := range keys {
		c.Reply.Array(2)
		c.Reply.Bulk(k)
		flags := strings.TrimSuffix(cmd.keyFlags(i), " variable_flags") // these are the flags of this very call
		if cmd.Name == "set" && !hasWord(c.Args[4:], "get") {
			flags = "OW update"
		}
		writeKeyFlags(&c.Reply, flags)
	}
	return nil
}

func hasWord(args [][]byte, word string) bool {
	for _, a := range args {
		if equalFold(a, word) {
			return true
		}
	}
	return false
}

// keysOf returns the command that COMMAND GETKEYS asks about, and its keys.
func keysOf(c *Ctx) (*Command, [][]byte, error) {
	args := c.Args[2:]
	if find(args[0]) == nil {
		return nil, nil, Error("ERR Invalid command specified")
	}
	cmd, err := Lookup(args)
	if err != nil {
		return nil, nil, Error("ERR Invalid number of arguments specified for command")
	}
	keys := appendKeys(nil, cmd, args)
	if len(keys) == 0 {
		return nil, nil, Error("ERR The command has no key arguments")
	}
	return cmd, keys, nil
}

func writeKeyFlags(r *Reply, flags string) {
	words := strings.Fields(flags)
	r.Set(len(words))
	for _, w := range words {
		r.Simple(w)
	}
}

// keyUses says what commands do to their keys, where it is not "RO access" or "RW access update", in the words of COMMAND INFO.
// After a comma stands what they do to the keys after the first.
var keyUses = map[string]string{
	"append": "RW insert", "bitfield": "RW update access variable_flags", "bitop": "OW update,RO access", "copy": "RO access,OW update",
	"del": "RM delete", "unlink": "RM delete", "exists": "RO", "expire": "RW update", "expireat": "RW update", "pexpire": "RW update",
	"pexpireat": "RW update", "getdel": "RW access delete", "move": "RW access delete", "mset": "OW update", "msetnx": "OW update",
	"persist": "RW update", "psetex": "OW update", "setex": "OW update", "rename": "RW access delete,OW update",
	"renamenx": "RW access delete,OW insert", "restore": "OW update", "set": "RW access update variable_flags", "setnx": "OW insert",
	"setrange": "RW update", "strlen": "RO", "touch": "RO", "type": "RO", "object|encoding": "RO", "object|freq": "RO",
	"object|idletime": "RO", "object|refcount": "RO", "memory|usage": "RO", "debug|object": "RO",
}

// keyFlags returns what the command does to its key number i.
func (c *Command) keyFlags(i int) string {
	use, ok := keyUses[c.Full()]
	switch {
	case ok:
		first, rest, two := strings.Cut(use, ",")
		if two && i > 0 {
			return rest
		}
		return first
	case c.Flags&ReadOnly != 0:
		return "RO access"
	}
	return "RW access update"
}
