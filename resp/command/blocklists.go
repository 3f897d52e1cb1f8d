package command

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// Commands that wait for a list or a sorted set.

func blockingCommands() []Command {
	const list, zset = "list", "sorted-set"
	const w = Write | NoScript | Blocking
	return []Command{
		{Name: "blpop", Arity: -3, Flags: w, Group: list, First: 1, Last: -2, Step: 1, Since: "2.0.0", Summary: "Removes the first element of the first of several lists that has one, and waits for it.", Handler: cmdBPop},
		{Name: "brpop", Arity: -3, Flags: w, Group: list, First: 1, Last: -2, Step: 1, Since: "2.0.0", Summary: "Removes the last element of the first of several lists that has one, and waits for it.", Handler: cmdBPop},
		{Name: "blmove", Arity: 6, Flags: w | DenyOOM, Group: list, First: 1, Last: 2, Step: 1, Since: "6.2.0", Summary: "Moves an element from one list to another, and waits for it.", Handler: cmdBLMove},
		{Name: "brpoplpush", Arity: 4, Flags: w | DenyOOM, Group: list, First: 1, Last: 2, Step: 1, Since: "2.2.0", Summary: "Moves the last element of a list to the front of another, and waits for it.", Handler: cmdBRPopLPush},
		{Name: "blmpop", Arity: -5, Flags: Write | Blocking, Group: list, Counted: 2, Since: "7.0.0", Summary: "Removes elements from the first of several lists that has any, and waits for them.", Handler: cmdBLMPop},
		{Name: "bzpopmin", Arity: -3, Flags: w | Fast, Group: zset, First: 1, Last: -2, Step: 1, Since: "5.0.0", Summary: "Removes the lowest member of the first of several sorted sets that has one, and waits for it.", Handler: cmdBZPop},
		{Name: "bzpopmax", Arity: -3, Flags: w | Fast, Group: zset, First: 1, Last: -2, Step: 1, Since: "5.0.0", Summary: "Removes the highest member of the first of several sorted sets that has one, and waits for it.", Handler: cmdBZPop},
		{Name: "bzmpop", Arity: -5, Flags: Write | Blocking, Group: zset, Counted: 2, Since: "7.0.0", Summary: "Removes members from the first of several sorted sets that has any, and waits for them.", Handler: cmdBZMPop},
	}
}

func cmdBPop(c *Ctx) error {
	last := len(c.Args) - 1
	timeout, err := blockTimeout(c.Args[last])
	if err != nil {
		return err
	}
	left := c.Cmd.Name == "blpop"
	return c.Block(Wait{
		Keys: c.Args[1:last], Type: keyspace.TypeList, Timeout: timeout, None: c.Reply.NullArray,
		Try: func(key []byte) (bool, error) {
			vals, _, err := kvs.Pop(c.Tx, key, left, 1)
			if err != nil || len(vals) == 0 {
				return false, err
			}
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			c.Reply.Bulk(vals[0])
			return true, nil
		},
	})
}

func cmdBLMove(c *Ctx) error {
	from, err := listEnd(c.Args[3])
	if err != nil {
		return err
	}
	to, err := listEnd(c.Args[4])
	if err != nil {
		return err
	}
	return blockingMove(c, c.Args[5], from, to)
}

func cmdBRPopLPush(c *Ctx) error { return blockingMove(c, c.Args[3], false, true) }

func blockingMove(c *Ctx, timeoutArg []byte, fromLeft, toLeft bool) error {
	timeout, err := blockTimeout(timeoutArg)
	if err != nil {
		return err
	}
	return c.Block(Wait{
		Keys: c.Args[1:2], Type: keyspace.TypeList, Timeout: timeout,
		None: func() {
			if c.Multi {
				c.Reply.Null()
			} else {
				c.Reply.NullArray()
			}
		},
		Try: func(key []byte) (bool, error) {
			it, err := c.Tx.Find(key)
			switch {
			case err != nil || !it.Exists():
				return false, err
			case it.Type != keyspace.TypeList:
				return false, keyspace.ErrWrongType
			}
			val, ok, err := kvs.LMove(c.Tx, key, c.Args[2], fromLeft, toLeft)
			if errors.Is(err, keyspace.ErrWrongType) { // of the destination: that ends a wait
				return false, Error(err.Error())
			}
			if err != nil || !ok {
				return false, err
			}
			c.Reply.Bulk(val)
			return true, nil
		},
	})
}

// blockingMany parses what BLMPOP and BZMPOP have in common: timeout, keys, which end, how many.
func blockingMany(c *Ctx, first, second string) (w Wait, isFirst bool, count int64, err error) {
	if w.Timeout, err = blockTimeout(c.Args[1]); err != nil {
		return w, false, 0, err
	}
	n, err := parseInt(c.Args[2])
	if err != nil || n < 1 {
		return w, false, 0, errNumKeys
	}
	if n > int64(len(c.Args)-3) {
		return w, false, 0, errSyntax
	}
	w.Keys, w.None = c.Args[3:3+n], c.Reply.NullArray
	isFirst, count, err = mpopOptions(c.Args[3+n:], first, second)
	return w, isFirst, count, err
}

func cmdBLMPop(c *Ctx) error {
	w, left, count, err := blockingMany(c, "left", "right")
	if err != nil {
		return err
	}
	w.Type = keyspace.TypeList
	w.Try = func(key []byte) (bool, error) {
		vals, _, err := kvs.Pop(c.Tx, key, left, count)
		if err != nil || len(vals) == 0 {
			return false, err
		}
		c.Reply.Array(2)
		c.Reply.Bulk(key)
		bulks(c, vals)
		return true, nil
	}
	return c.Block(w)
}

func cmdBZPop(c *Ctx) error {
	last := len(c.Args) - 1
	timeout, err := blockTimeout(c.Args[last])
	if err != nil {
		return err
	}
	highest := c.Cmd.Name == "bzpopmax"
	return c.Block(Wait{
		Keys: c.Args[1:last], Type: keyspace.TypeZSet, Timeout: timeout, None: c.Reply.NullArray,
		Try: func(key []byte) (bool, error) {
			out, err := kvs.ZPop(c.Tx, key, highest, 1)
			if err != nil || len(out) == 0 {
				return false, err
			}
			c.Reply.Array(3)
			c.Reply.Bulk(key)
			c.Reply.Bulk(out[0].Member)
			c.Reply.Double(out[0].Score)
			return true, nil
		},
	})
}

func cmdBZMPop(c *Ctx) error {
	w, lowest, count, err := blockingMany(c, "min", "max")
	if err != nil {
		return err
	}
	w.Type = keyspace.TypeZSet
	w.Try = func(key []byte) (bool, error) {
		out, err := kvs.ZPop(c.Tx, key, !lowest, count)
		if err != nil || len(out) == 0 {
			return false, err
		}
		c.Reply.Array(2)
		c.Reply.Bulk(key)
		c.Reply.Array(len(out))
		for i := range out {
			c.Reply.Array(2)
			c.Reply.Bulk(out[i].Member)
			c.Reply.Double(out[i].Score)
		}
		return true, nil
	}
	return c.Block(w)
}
