package command

import (
	"math"
	"strconv"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

func hashCommands() []Command {
	const read, write = ReadOnly, Write | DenyOOM
	const g = "hash"
	key := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, First: 1, Last: 1, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	return []Command{
		key("hset", -4, write|Fast, "2.0.0", "Sets fields of a hash.", cmdHSet),
		key("hmset", -4, write|Fast, "2.0.0", "Sets fields of a hash (the old name of HSET).", cmdHSet),
		key("hsetnx", 4, write|Fast, "2.0.0", "Sets a field of a hash that does not exist.", cmdHSetNX),
		key("hget", 3, read|Fast, "2.0.0", "Returns the value of a field.", cmdHGet),
		key("hmget", -3, read|Fast, "2.0.0", "Returns the values of several fields.", cmdHMGet),
		key("hgetall", 2, read, "2.0.0", "Returns all fields and values.", cmdHGetAll),
		key("hkeys", 2, read, "2.0.0", "Returns all fields.", cmdHGetAll),
		key("hvals", 2, read, "2.0.0", "Returns all values.", cmdHGetAll),
		key("hdel", -3, Write|Fast, "2.0.0", "Removes fields.", cmdHDel),
		key("hlen", 2, read|Fast, "2.0.0", "Counts the fields.", cmdHLen),
		key("hexists", 3, read|Fast, "2.0.0", "Tells whether a field exists.", cmdHExists),
		key("hstrlen", 3, read|Fast, "3.2.0", "Returns the length of a field's value.", cmdHStrLen),
		key("hincrby", 4, write|Fast, "2.0.0", "Adds a number to the integer in a field.", cmdHIncrBy),
		key("hincrbyfloat", 4, write|Fast, "2.6.0", "Adds a number to the number in a field.", cmdHIncrByFloat),
		key("hrandfield", -2, read, "6.2.0", "Returns fields chosen at random.", cmdHRandField),
		key("hscan", -3, read, "2.8.0", "Goes through the fields and values in steps.", cmdMemberScan),
	}
}

func cmdHSet(c *Ctx) error {
	if len(c.Args)%2 != 0 {
		return wrongArity(c.Cmd.Name)
	}
	n, err := kvs.HSet(c.Tx, c.Args[1], c.Args[2:])
	if err != nil {
		return err
	}
	if c.Cmd.Name == "hmset" {
		c.Reply.OK()
	} else {
		c.Reply.Int(int64(n))
	}
	return nil
}

func cmdHSetNX(c *Ctx) error {
	set, err := kvs.HSetNX(c.Tx, c.Args[1], c.Args[2], c.Args[3])
	return intReply(c, boolInt(set), err)
}

func cmdHGet(c *Ctx) error {
	val, ok, err := kvs.HGet(c.Tx, c.Args[1], c.Args[2])
	if err != nil {
		return err
	}
	c.Reply.BulkOrNull(val, ok)
	return nil
}

func cmdHMGet(c *Ctx) error {
	out := make([]kvs.Value, len(c.Args)-2)
	if err := kvs.HMGet(c.Tx, c.Args[1], c.Args[2:], out); err != nil {
		return err
	}
	c.Reply.Array(len(out))
	for i := range out {
		c.Reply.BulkOrNull(out[i].Bytes, out[i].OK)
	}
	return nil
}

func cmdHGetAll(c *Ctx) error {
	keys, vals := c.Cmd.Name != "hvals", c.Cmd.Name != "hkeys"
	begin := c.Reply.Array
	if keys && vals {
		begin = c.Reply.Map
	}
	return kvs.HGetAll(c.Tx, c.Args[1], vals, begin, func(field, val []byte) {
		if keys {
			c.Reply.Bulk(field)
		}
		if vals {
			c.Reply.Bulk(val)
		}
	})
}

func cmdHDel(c *Ctx) error {
	n, err := kvs.HDel(c.Tx, c.Args[1], c.Args[2:])
	return intReply(c, int64(n), err)
}

func cmdHLen(c *Ctx) error {
	n, err := kvs.HLen(c.Tx, c.Args[1])
	return intReply(c, int64(n), err)
}

func cmdHExists(c *Ctx) error {
	ok, err := kvs.HExists(c.Tx, c.Args[1], c.Args[2])
	return intReply(c, boolInt(ok), err)
}

func cmdHStrLen(c *Ctx) error {
	n, err := kvs.HStrLen(c.Tx, c.Args[1], c.Args[2])
	return intReply(c, int64(n), err)
}

func cmdHIncrBy(c *Ctx) error {
	delta, err := parseInt(c.Args[3])
	if err != nil {
		return err
	}
	n, err := kvs.HIncrBy(c.Tx, c.Args[1], c.Args[2], delta)
	return intReply(c, n, err)
}

func cmdHIncrByFloat(c *Ctx) error {
	val, err := kvs.HIncrByFloat(c.Tx, c.Args[1], c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	c.Reply.Bulk(val)
	return nil
}

// randomCount parses the count of a random choice, and the option behind it, as Redis does.
func randomCount(c *Ctx, option string) (count int64, with bool, err error) {
	if count, err = parseInt(c.Args[2]); err != nil {
		return 0, false, err
	}
	if count < -math.MaxInt64 {
		return 0, false, Error("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
	}
	if len(c.Args) > 4 || len(c.Args) == 4 && !equalFold(c.Args[3], option) {
		return 0, false, errSyntax
	}
	with = len(c.Args) == 4
	if with && (count < -math.MaxInt64/2 || count > math.MaxInt64/2) || count < -countMax {
		return 0, false, Error("ERR value is out of range")
	}
	return count, with, nil
}

// countMax bounds how many times a random choice may be repeated: what is more does not fit into a reply.
const countMax = 1 << 27

func cmdHRandField(c *Ctx) error {
	if len(c.Args) == 2 {
		out, err := kvs.HRandField(c.Tx, c.Args[1], 1, false)
		return oneOrNull(c, out, err)
	}
	count, with, err := randomCount(c, "withvalues")
	if err != nil {
		return err
	}
	out, err := kvs.HRandField(c.Tx, c.Args[1], count, with)
	if err != nil {
		return err
	}
	beginPairs(c, len(out), with)
	for i := range out {
		if with && c.Reply.Proto == 3 {
			c.Reply.Array(2)
		}
		c.Reply.Bulk(out[i].Name)
		if with {
			c.Reply.Bulk(out[i].Val)
		}
	}
	return nil
}

// beginPairs begins an array of n elements, or of as many pairs: in RESP3 arrays of their own, which the caller begins.
func beginPairs(c *Ctx, n int, pairs bool) {
	if pairs && c.Reply.Proto != 3 {
		n *= 2
	}
	c.Reply.Array(n)
}

func oneOrNull(c *Ctx, out []kvs.Picked, err error) error {
	if err != nil {
		return err
	}
	if len(out) == 0 {
		c.Reply.Null()
	} else {
		c.Reply.Bulk(out[0].Name)
	}
	return nil
}

// cmdMemberScan is HSCAN, SSCAN and ZSCAN.
func cmdMemberScan(c *Ctx) error {
	cursor, err := parseCursor(string(c.Args[2]))
	if err != nil {
		return err
	}
	o, err := scanOptions(c.Args[3:])
	if err != nil {
		return err
	}
	if o.Type != "" {
		return errSyntax
	}
	if o.Count <= 0 {
		o.Count = 10
	}
	typ := map[string]keyspace.TypeID{"hscan": keyspace.TypeHash, "sscan": keyspace.TypeSet, "zscan": keyspace.TypeZSet}[c.Cmd.Name]
	start, n := len(c.Reply.Buf), 0
	next, err := kvs.ScanMembers(c.Tx, c.Args[1], typ, cursor, o.Count, o.Match, func(name, val []byte, score float64) {
		n++
		c.Reply.Bulk(name)
		switch typ {
		case keyspace.TypeHash:
			c.Reply.Bulk(val)
			n++
		case keyspace.TypeZSet:
			c.Reply.String(scoreText(score))
			n++
		}
	})
	if err != nil {
		return err
	}
	members := append([]byte(nil), c.Reply.Buf[start:]...)
	c.Reply.Buf = c.Reply.Buf[:start]
	c.Reply.Array(2)
	c.Reply.String(strconv.FormatUint(next, 10))
	c.Reply.Array(n)
	c.Reply.Buf = append(c.Reply.Buf, members...)
	return nil
}

// scoreText writes a score as a string, whatever the protocol.
func scoreText(s float64) string {
	switch {
	case math.IsInf(s, 1):
		return "inf"
	case math.IsInf(s, -1):
		return "-inf"
	case s == math.Trunc(s) && math.Abs(s) < 1<<53:
		return strconv.FormatInt(int64(s), 10)
	}
	long, short := strconv.FormatFloat(s, 'g', 17, 64), strconv.FormatFloat(s, 'g', -1, 64)
	if len(short) < len(long) {
		return short
	}
	return long
}
