package command

import (
	"cvmstore/kvs"
)

func setCommands() []Command {
	const read, write = ReadOnly, Write | DenyOOM
	const g = "set"
	key := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, First: 1, Last: 1, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	keys := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		c := key(name, arity, flags, since, summary, h)
		c.Last = -1
		return c
	}
	move := key("smove", 4, Write|Fast, "1.0.0", "Moves a member from one set to another.", cmdSMove)
	move.Last = 2
	return []Command{
		key("sadd", -3, write|Fast, "1.0.0", "Adds members to a set.", cmdSAdd),
		key("srem", -3, Write|Fast, "1.0.0", "Removes members from a set.", cmdSRem),
		key("sismember", 3, read|Fast, "1.0.0", "Tells whether a set has a member.", cmdSIsMember),
		key("smismember", -3, read|Fast, "6.2.0", "Tells of several members whether a set has them.", cmdSMIsMember),
		key("scard", 2, read|Fast, "1.0.0", "Counts the members of a set.", cmdSCard),
		key("smembers", 2, read, "1.0.0", "Returns all members of a set.", cmdSMembers),
		key("spop", -2, Write|Fast, "1.0.0", "Removes members chosen at random and returns them.", cmdSPop),
		key("srandmember", -2, read, "1.0.0", "Returns members chosen at random.", cmdSRandMember),
		move,
		keys("sinter", -2, read, "1.0.0", "Returns the members that all sets have.", cmdSetOperation),
		keys("sunion", -2, read, "1.0.0", "Returns the members that any set has.", cmdSetOperation),
		keys("sdiff", -2, read, "1.0.0", "Returns the members of the first set that no other has.", cmdSetOperation),
		keys("sinterstore", -3, write, "1.0.0", "Stores the members that all sets have.", cmdSetStore),
		keys("sunionstore", -3, write, "1.0.0", "Stores the members that any set has.", cmdSetStore),
		keys("sdiffstore", -3, write, "1.0.0", "Stores the members of the first set that no other has.", cmdSetStore),
		{Name: "sintercard", Arity: -3, Flags: read, Group: g, Counted: 1, Since: "7.0.0", Summary: "Counts the members that all sets have.", Handler: cmdSInterCard},
		key("sscan", -3, read, "2.8.0", "Goes through the members in steps.", cmdMemberScan),
	}
}

func cmdSAdd(c *Ctx) error {
	n, err := kvs.SAdd(c.Tx, c.Args[1], c.Args[2:])
	return intReply(c, int64(n), err)
}

func cmdSRem(c *Ctx) error {
	n, err := kvs.SRem(c.Tx, c.Args[1], c.Args[2:])
	return intReply(c, int64(n), err)
}

func cmdSIsMember(c *Ctx) error {
	var is [1]bool
	err := kvs.SIsMember(c.Tx, c.Args[1], c.Args[2:3], is[:])
	return intReply(c, boolInt(is[0]), err)
}

func cmdSMIsMember(c *Ctx) error {
	is := make([]bool, len(c.Args)-2)
	if err := kvs.SIsMember(c.Tx, c.Args[1], c.Args[2:], is); err != nil {
		return err
	}
	c.Reply.Array(len(is))
	for _, b := range is {
		c.Reply.Int(boolInt(b))
	}
	return nil
}

func cmdSCard(c *Ctx) error {
	n, err := kvs.SCard(c.Tx, c.Args[1])
	return intReply(c, int64(n), err)
}

func cmdSMembers(c *Ctx) error {
	return kvs.SMembers(c.Tx, c.Args[1], c.Reply.Set, c.Reply.Bulk)
}

func cmdSPop(c *Ctx) error {
	if len(c.Args) > 3 {
		return errSyntax
	}
	count := int64(1)
	if len(c.Args) == 3 {
		var err error
		if count, err = positiveCount(c.Args[2]); err != nil {
			return err
		}
	}
	out, err := kvs.SPop(c.Tx, c.Args[1], count)
	if err != nil {
		return err
	}
	if len(c.Args) == 3 {
		c.Reply.Set(len(out))
		for _, m := range out {
			c.Reply.Bulk(m)
		}
		return nil
	}
	if len(out) == 0 {
		c.Reply.Null()
	} else {
		c.Reply.Bulk(out[0])
	}
	return nil
}

const errPositive = Error("ERR value is out of range, must be positive")

// positiveCount parses a count that may be 0.
func positiveCount(arg []byte) (int64, error) {
	n, err := parseInt(arg)
	if err != nil || n < 0 {
		return 0, errPositive
	}
	return n, nil
}

func cmdSRandMember(c *Ctx) error {
	if len(c.Args) == 2 {
		out, err := kvs.SRandMember(c.Tx, c.Args[1], 1)
		return oneOrNull(c, out, err)
	}
	if len(c.Args) > 3 {
		return errSyntax
	}
	count, _, err := randomCount(c, "")
	if err != nil {
		return err
	}
	out, err := kvs.SRandMember(c.Tx, c.Args[1], count)
	if err != nil {
		return err
	}
	c.Reply.Array(len(out))
	for i := range out {
		c.Reply.Bulk(out[i].Name)
	}
	return nil
}

func cmdSMove(c *Ctx) error {
	moved, err := kvs.SMove(c.Tx, c.Args[1], c.Args[2], c.Args[3])
	return intReply(c, boolInt(moved), err)
}

// setOp is the operation that a command's name begins with, after its first letter.
func setOp(name string) kvs.SetOp {
	switch name[1] {
	case 'i':
		return kvs.SetInter
	case 'd':
		return kvs.SetDiff
	}
	return kvs.SetUnion
}

func cmdSetOperation(c *Ctx) error {
	start, n := len(c.Reply.Buf), 0
	err := kvs.SetOperation(c.Tx, setOp(c.Cmd.Name), c.Args[1:], func(member []byte) bool {
		n++
		c.Reply.Bulk(member)
		return true
	})
	if err != nil {
		return err
	}
	members := append([]byte(nil), c.Reply.Buf[start:]...)
	c.Reply.Buf = c.Reply.Buf[:start]
	c.Reply.Set(n)
	c.Reply.Buf = append(c.Reply.Buf, members...)
	return nil
}

func cmdSetStore(c *Ctx) error {
	n, err := kvs.SetStore(c.Tx, setOp(c.Cmd.Name), c.Args[1], c.Args[2:])
	return intReply(c, int64(n), err)
}

func cmdSInterCard(c *Ctx) error {
	keys, rest, err := countedKeys(c.Args, 1)
	if err != nil {
		return err
	}
	limit, err := limitOption(rest)
	if err != nil {
		return err
	}
	n := int64(0)
	err = kvs.SetOperation(c.Tx, kvs.SetInter, keys, func([]byte) bool {
		n++
		return limit == 0 || n < limit
	})
	return intReply(c, n, err)
}

const errNumKeys = Error("ERR numkeys should be greater than 0")

// countedKeys returns the keys that the number at args[at] counts, and what comes after them.
func countedKeys(args [][]byte, at int) (keys, rest [][]byte, err error) {
	n, err := parseInt(args[at])
	if err != nil || n < 1 {
		return nil, nil, errNumKeys
	}
	if n > int64(len(args)-at-1) {
		return nil, nil, Error("ERR Number of keys can't be greater than number of args")
	}
	return args[at+1 : at+1+int(n)], args[at+1+int(n):], nil
}

// limitOption parses what may follow the keys of SINTERCARD and ZINTERCARD.
func limitOption(rest [][]byte) (limit int64, err error) {
	for ; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 || !equalFold(rest[0], "limit") {
			return 0, errSyntax
		}
		if limit, err = parseInt(rest[1]); err != nil || limit < 0 {
			return 0, Error("ERR LIMIT can't be negative")
		}
	}
	return limit, nil
}
