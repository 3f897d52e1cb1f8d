package command

// Keys returns the key arguments that the table's specification names, in a slice that the next call overwrites. The number of
// arguments has been checked against the arity.
func (c *Ctx) Keys() [][]byte {
	c.keys = appendKeys(c.keys[:0], c.Cmd, c.Args)
	return c.keys
}

func appendKeys(out [][]byte, cmd *Command, args [][]byte) [][]byte {
	if cmd.First == 0 {
		return out
	}
	last := cmd.Last
	if last < 0 {
		last += len(args)
	}
	for i := cmd.First; i <= last && i < len(args); i += cmd.Step {
		out = append(out, args[i])
	}
	return out
}
