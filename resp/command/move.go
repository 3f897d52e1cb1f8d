package command

import "math"

func moveCommands() []Command {
	const g = "generic"
	return []Command{
		{Name: "copy", Arity: -3, Flags: Write | DenyOOM, Group: g, First: 1, Last: 2, Step: 1, Since: "6.2.0", Summary: "Copies a key's value to another key.", Handler: cmdCopy},
		{Name: "rename", Arity: 3, Flags: Write, Group: g, First: 1, Last: 2, Step: 1, Since: "1.0.0", Summary: "Gives a key another name, over any key of that name.", Handler: cmdRename},
		{Name: "renamenx", Arity: 3, Flags: Write | Fast, Group: g, First: 1, Last: 2, Step: 1, Since: "1.0.0", Summary: "Gives a key another name that no key has.", Handler: cmdRename},
		{Name: "move", Arity: 3, Flags: Write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Moves a key to another database.", Handler: cmdMove},
		{Name: "swapdb", Arity: 3, Flags: Write | Fast | Dangerous | Keyspace, Group: "server", Locks: LockAll, Since: "4.0.0", Summary: "Exchanges two databases.", Handler: cmdSwapDB},
	}
}

const (
	errSameObject = Error("ERR source and destination objects are the same")
	errNoKey      = Error("ERR no such key")
	errIntRange   = Error("ERR value is out of range, value must between -2147483648 and 2147483647")
)

// parseDB parses the number of a database that exists.
func parseDB(c *Ctx, arg []byte) (int, error) {
	n, err := parseInt(arg)
	if err != nil {
		return 0, err
	}
	if n < math.MinInt32 || n > math.MaxInt32 {
		return 0, errIntRange
	}
	if n < 0 || n >= int64(c.Space.Databases()) {
		return 0, errDBRange
	}
	return int(n), nil
}

func cmdCopy(c *Ctx) (err error) {
	db, replace := c.S.DB, false
	for args := c.Args[3:]; len(args) > 0; args = args[1:] {
		switch {
		case equalFold(args[0], "replace"):
			replace = true
		case equalFold(args[0], "db") && len(args) > 1:
			args = args[1:]
			if db, err = parseDB(c, args[0]); err != nil {
				return err
			}
		default:
			return errSyntax
		}
	}
	if db == c.S.DB && string(c.Args[1]) == string(c.Args[2]) {
		return errSameObject
	}
	done, err := c.Tx.Copy(c.Args[1], c.Args[2], db, replace)
	return intReply(c, boolInt(done), err)
}

func cmdRename(c *Ctx) error {
	nx := c.Cmd.Name == "renamenx"
	done, found, err := c.Tx.Rename(c.Args[1], c.Args[2], nx)
	switch {
	case err != nil:
		return err
	case !found:
		return errNoKey
	case nx:
		c.Reply.Int(boolInt(done))
	default:
		c.Reply.OK()
	}
	return nil
}

func cmdMove(c *Ctx) error {
	db, err := parseDB(c, c.Args[2])
	if err != nil {
		return err
	}
	if db == c.S.DB {
		return errSameObject
	}
	done, err := c.Tx.Move(c.Args[1], db)
	return intReply(c, boolInt(done), err)
}

func cmdSwapDB(c *Ctx) error {
	var dbs [2]int64
	for i, which := range [...]string{"first", "second"} {
		var err error
		if dbs[i], err = parseInt(c.Args[1+i]); err != nil || dbs[i] < math.MinInt32 || dbs[i] > math.MaxInt32 {
			return Error("ERR invalid " + which + " DB index")
		}
	}
	for _, db := range dbs {
		if db < 0 || db >= int64(c.Space.Databases()) {
			return errDBRange
		}
	}
	if err := c.Tx.Swap(int(dbs[0]), int(dbs[1])); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}
