package command

// Keys returns the key arguments that the table's specification names, in a slice that the next call overwrites. The number of
// arguments has been checked against the arity.
func (c *Ctx) Keys() [][]byte {
	c.keys = appendKeys(c.keys[:0], c.Cmd, c.Args)
	return c.keys
}

// KeysOf returns the keys of a command in a slice of its own. The number of arguments has been checked against the arity.
func KeysOf(cmd *Command, args [][]byte) [][]byte { return appendKeys(nil, cmd, args) }

func appendKeys(out [][]byte, cmd *Command, args [][]byte) [][]byte {
	if cmd.Movable != nil {
		return append(out, cmd.Movable(args)...)
	}
	last := cmd.Last
	if last < 0 {
		last += len(args)
	}
	for i := cmd.First; i > 0 && i <= last && i < len(args); i += cmd.Step {
		out = append(out, args[i])
	}
	if cmd.Counted > 0 {
		n, err := parseInt(args[cmd.Counted])
		for i := cmd.Counted + 1; err == nil && n > 0 && i < len(args); i++ {
			out = append(out, args[i])
			n--
		}
	}
	return out
}

// Forget lets go of the query buffer that the last command's arguments lie in.
func (c *Ctx) Forget() {
	c.Args = nil
	if cap(c.keys) > keysKeep {
		c.keys = nil
	}
	clear(c.keys[:cap(c.keys)])
}

// keysKeep bounds the scratch that one large command leaves behind.
const keysKeep = 256
