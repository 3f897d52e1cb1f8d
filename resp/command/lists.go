package command

import (
	"math"

	"cvmstore/kvs"
)

func listCommands() []Command {
	const read, write = ReadOnly, Write | DenyOOM
	const g = "list"
	key := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, First: 1, Last: 1, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	two := func(c Command) Command { c.Last = 2; return c }
	return []Command{
		key("lpush", -3, write|Fast, "1.0.0", "Pushes elements at the front of a list.", cmdPush),
		key("rpush", -3, write|Fast, "1.0.0", "Pushes elements at the end of a list.", cmdPush),
		key("lpushx", -3, write|Fast, "2.2.0", "Pushes elements at the front of a list that exists.", cmdPush),
		key("rpushx", -3, write|Fast, "2.2.0", "Pushes elements at the end of a list that exists.", cmdPush),
		key("lpop", -2, Write|Fast, "1.0.0", "Removes elements from the front of a list and returns them.", cmdPop),
		key("rpop", -2, Write|Fast, "1.0.0", "Removes elements from the end of a list and returns them.", cmdPop),
		key("llen", 2, read|Fast, "1.0.0", "Returns the length of a list.", cmdLLen),
		key("lrange", 4, read, "1.0.0", "Returns a range of elements.", cmdLRange),
		key("lindex", 3, read, "1.0.0", "Returns the element at an index.", cmdLIndex),
		key("lset", 4, write, "1.0.0", "Replaces the element at an index.", cmdLSet),
		key("linsert", 5, write, "2.2.0", "Inserts an element before or after another one.", cmdLInsert),
		key("lrem", 4, Write, "1.0.0", "Removes elements that equal a value.", cmdLRem),
		key("ltrim", 4, Write, "1.0.0", "Removes all elements outside of a range.", cmdLTrim),
		key("lpos", -3, read, "6.0.6", "Returns the indexes of elements that equal a value.", cmdLPos),
		two(key("lmove", 5, write, "6.2.0", "Moves an element from an end of one list to an end of another.", cmdLMove)),
		two(key("rpoplpush", 3, write, "1.2.0", "Moves the last element of a list to the front of another.", cmdRPopLPush)),
		{Name: "lmpop", Arity: -4, Flags: Write, Group: g, Counted: 1, Since: "7.0.0", Summary: "Removes elements from the first of several lists that has any.", Handler: cmdLMPop},
	}
}

func cmdPush(c *Ctx) error {
	n, err := kvs.Push(c.Tx, c.Args[1], c.Args[2:], c.Cmd.Name[0] == 'l', c.Cmd.Name[len(c.Cmd.Name)-1] == 'x')
	return intReply(c, int64(n), err)
}

func cmdPop(c *Ctx) error {
	if len(c.Args) > 3 {
		return wrongArity(c.Cmd.Name)
	}
	count := int64(1)
	if len(c.Args) == 3 {
		var err error
		if count, err = positiveCount(c.Args[2]); err != nil {
			return err
		}
	}
	vals, exists, err := kvs.Pop(c.Tx, c.Args[1], c.Cmd.Name == "lpop", count)
	switch {
	case err != nil:
		return err
	case len(c.Args) == 2 && !exists:
		c.Reply.Null()
	case len(c.Args) == 2:
		c.Reply.Bulk(vals[0])
	case !exists:
		c.Reply.NullArray()
	default:
		bulks(c, vals)
	}
	return nil
}

func bulks(c *Ctx, vals [][]byte) {
	c.Reply.Array(len(vals))
	for _, v := range vals {
		c.Reply.Bulk(v)
	}
}

func cmdLLen(c *Ctx) error {
	n, err := kvs.LLen(c.Tx, c.Args[1])
	return intReply(c, int64(n), err)
}

// twoInts parses two numbers that stand one after the other.
func twoInts(args [][]byte) (a, b int64, err error) {
	if a, err = parseInt(args[0]); err == nil {
		b, err = parseInt(args[1])
	}
	return a, b, err
}

func cmdLRange(c *Ctx) error {
	start, stop, err := twoInts(c.Args[2:])
	if err != nil {
		return err
	}
	vals, err := kvs.LRange(c.Tx, c.Args[1], start, stop)
	if err != nil {
		return err
	}
	bulks(c, vals)
	return nil
}

func cmdLIndex(c *Ctx) error {
	rank, err := parseInt(c.Args[2])
	if err != nil {
		n, kerr := kvs.LLen(c.Tx, c.Args[1]) // an absent key comes before a wrong index
		switch {
		case kerr != nil:
			return kerr
		case n > 0:
			return err
		}
	}
	val, ok, err := kvs.LIndex(c.Tx, c.Args[1], rank)
	if err != nil {
		return err
	}
	c.Reply.BulkOrNull(val, ok)
	return nil
}

func cmdLSet(c *Ctx) error {
	rank, err := parseInt(c.Args[2])
	if err != nil {
		n, kerr := kvs.LLen(c.Tx, c.Args[1])
		switch {
		case kerr != nil:
			return kerr
		case n == 0:
			return kvs.ErrNoSuchKey
		}
		return err
	}
	if err := kvs.LSet(c.Tx, c.Args[1], rank, c.Args[3]); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdLInsert(c *Ctx) error {
	after := equalFold(c.Args[2], "after")
	if !after && !equalFold(c.Args[2], "before") {
		return errSyntax
	}
	n, err := kvs.LInsert(c.Tx, c.Args[1], after, c.Args[3], c.Args[4])
	return intReply(c, int64(n), err)
}

func cmdLRem(c *Ctx) error {
	count, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	n, err := kvs.LRem(c.Tx, c.Args[1], count, c.Args[3])
	return intReply(c, int64(n), err)
}

func cmdLTrim(c *Ctx) error {
	start, stop, err := twoInts(c.Args[2:])
	if err != nil {
		return err
	}
	if err := kvs.LTrim(c.Tx, c.Args[1], start, stop); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdLPos(c *Ctx) error {
	o := kvs.PosOptions{Rank: 1, Count: 1}
	counted := false
	for args := c.Args[3:]; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return errSyntax
		}
		n, err := parseInt(args[1])
		switch {
		case equalFold(args[0], "rank"):
			if err != nil {
				return err
			}
			if n == 0 {
				return Error("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
			}
			if n == math.MinInt64 {
				return Error("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
			}
			o.Rank = n
		case equalFold(args[0], "count"):
			if err != nil || n < 0 {
				return Error("ERR COUNT can't be negative")
			}
			o.Count, counted = n, true
		case equalFold(args[0], "maxlen"):
			if err != nil || n < 0 {
				return Error("ERR MAXLEN can't be negative")
			}
			o.MaxLen = n
		default:
			return errSyntax
		}
	}
	at, err := kvs.LPos(c.Tx, c.Args[1], c.Args[2], o)
	switch {
	case err != nil:
		return err
	case !counted && len(at) == 0:
		c.Reply.Null()
	case !counted:
		c.Reply.Int(int64(at[0]))
	default:
		c.Reply.Array(len(at))
		for _, i := range at {
			c.Reply.Int(int64(i))
		}
	}
	return nil
}

// listEnd parses LEFT or RIGHT.
func listEnd(arg []byte) (left bool, err error) {
	switch {
	case equalFold(arg, "left"):
		return true, nil
	case equalFold(arg, "right"):
		return false, nil
	}
	return false, errSyntax
}

func cmdLMove(c *Ctx) error {
	from, err := listEnd(c.Args[3])
	if err != nil {
		return err
	}
	to, err := listEnd(c.Args[4])
	if err != nil {
		return err
	}
	return moveElement(c, from, to)
}

func cmdRPopLPush(c *Ctx) error { return moveElement(c, false, true) }

func moveElement(c *Ctx, fromLeft, toLeft bool) error {
	val, ok, err := kvs.LMove(c.Tx, c.Args[1], c.Args[2], fromLeft, toLeft)
	if err != nil {
		return err
	}
	c.Reply.BulkOrNull(val, ok)
	return nil
}

// mpopOptions are what follows the keys of LMPOP and ZMPOP: which end, and how many.
func mpopOptions(rest [][]byte, first, second string) (isFirst bool, count int64, err error) {
	count = 1
	if len(rest) == 0 {
		return false, 0, errSyntax
	}
	isFirst = equalFold(rest[0], first)
	if !isFirst && !equalFold(rest[0], second) {
		return false, 0, errSyntax
	}
	if rest = rest[1:]; len(rest) == 0 {
		return isFirst, count, nil
	}
	if len(rest) != 2 || !equalFold(rest[0], "count") {
		return false, 0, errSyntax
	}
	if count, err = parseInt(rest[1]); err != nil || count < 1 {
		return false, 0, Error("ERR count should be greater than 0")
	}
	return isFirst, count, nil
}

func cmdLMPop(c *Ctx) error {
	n, err := parseInt(c.Args[1])
	if err != nil || n < 1 {
		return errNumKeys
	}
	if n > int64(len(c.Args)-2) {
		return errSyntax
	}
	keys := c.Args[2 : 2+n]
	left, count, err := mpopOptions(c.Args[2+n:], "left", "right")
	if err != nil {
		return err
	}
	for _, key := range keys {
		vals, exists, err := kvs.Pop(c.Tx, key, left, count)
		if err != nil {
			return err
		}
		if exists {
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			bulks(c, vals)
			return nil
		}
	}
	c.Reply.NullArray()
	return nil
}
