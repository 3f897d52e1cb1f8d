package command

import (
	"cvmstore/kvs"
)

func zsetCommands() []Command {
	const read, write = ReadOnly, Write | DenyOOM
	const g = "sorted-set"
	key := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, First: 1, Last: 1, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	counted := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, Counted: 1, Since: since, Summary: summary, Handler: h}
	}
	store := func(name, since, summary string) Command {
		return Command{Name: name, Arity: -4, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Counted: 2, Since: since, Summary: summary, Handler: cmdZStoreOperation}
	}
	return []Command{
		key("zadd", -4, write|Fast, "1.2.0", "Sets the scores of members.", cmdZAdd),
		key("zincrby", 4, write|Fast, "1.2.0", "Adds to a member's score.", cmdZIncrBy),
		key("zrem", -3, Write|Fast, "1.2.0", "Removes members.", cmdZRem),
		key("zcard", 2, read|Fast, "1.2.0", "Counts the members.", cmdZCard),
		key("zscore", 3, read|Fast, "1.2.0", "Returns a member's score.", cmdZScore),
		key("zmscore", -3, read|Fast, "6.2.0", "Returns several members' scores.", cmdZMScore),
		key("zrank", -3, read|Fast, "2.0.0", "Returns how many members come before one.", cmdZRank),
		key("zrevrank", -3, read|Fast, "2.0.0", "Returns how many members come after one.", cmdZRank),
		key("zrange", -4, read, "1.2.0", "Returns a range of members, by rank, score or name.", cmdZRange),
		key("zrevrange", -4, read, "1.2.0", "Returns a range of members by rank, the highest first.", cmdZRange),
		key("zrangebyscore", -4, read, "1.0.5", "Returns the members with scores in a range.", cmdZRange),
		key("zrevrangebyscore", -4, read, "2.2.0", "Returns the members with scores in a range, the highest first.", cmdZRange),
		key("zrangebylex", -4, read, "2.8.9", "Returns the members between two names.", cmdZRange),
		key("zrevrangebylex", -4, read, "2.8.9", "Returns the members between two names, the last first.", cmdZRange),
		{Name: "zrangestore", Arity: -5, Flags: write, Group: g, First: 1, Last: 2, Step: 1, Since: "6.2.0", Summary: "Stores a range of members.", Handler: cmdZRange},
		key("zcount", 4, read|Fast, "2.0.0", "Counts the members with scores in a range.", cmdZCount),
		key("zlexcount", 4, read|Fast, "2.8.9", "Counts the members between two names.", cmdZCount),
		key("zremrangebyrank", 4, Write, "2.0.0", "Removes a range of members by rank.", cmdZRemRange),
		key("zremrangebyscore", 4, Write, "1.2.0", "Removes the members with scores in a range.", cmdZRemRange),
		key("zremrangebylex", 4, Write, "2.8.9", "Removes the members between two names.", cmdZRemRange),
		key("zpopmin", -2, Write|Fast, "5.0.0", "Removes the members with the lowest scores and returns them.", cmdZPop),
		key("zpopmax", -2, Write|Fast, "5.0.0", "Removes the members with the highest scores and returns them.", cmdZPop),
		counted("zmpop", -4, Write, "7.0.0", "Removes members from the first of several sorted sets that has any.", cmdZMPop),
		counted("zunion", -3, read, "6.2.0", "Returns the members that any sorted set has.", cmdZOperation),
		counted("zinter", -3, read, "6.2.0", "Returns the members that all sorted sets have.", cmdZOperation),
		counted("zdiff", -3, read, "6.2.0", "Returns the members of the first sorted set that no other has.", cmdZOperation),
		counted("zintercard", -3, read, "7.0.0", "Counts the members that all sorted sets have.", cmdZInterCard),
		store("zunionstore", "2.0.0", "Stores the members that any sorted set has."),
		store("zinterstore", "2.0.0", "Stores the members that all sorted sets have."),
		store("zdiffstore", "6.2.0", "Stores the members of the first sorted set that no other has."),
		key("zrandmember", -2, read, "6.2.0", "Returns members chosen at random.", cmdZRandMember),
		key("zscan", -3, read, "2.8.0", "Goes through the members and scores in steps.", cmdMemberScan),
	}
}

const errNotFloat = Error("ERR value is not a valid float")

func cmdZAdd(c *Ctx) error {
	var o kvs.ZAddOptions
	changed := false
	args := c.Args[2:]
options:
	for ; len(args) > 0; args = args[1:] {
		switch {
		case equalFold(args[0], "nx"):
			o.NX = true
		case equalFold(args[0], "xx"):
			o.XX = true
		case equalFold(args[0], "gt"):
			o.GT = true
		case equalFold(args[0], "lt"):
			o.LT = true
		case equalFold(args[0], "ch"):
			changed = true
		case equalFold(args[0], "incr"):
			o.Incr = true
		default:
			break options
		}
	}
	switch {
	case len(args) == 0 || len(args)%2 != 0:
		return errSyntax
	case o.NX && o.XX:
		return Error("ERR XX and NX options at the same time are not compatible")
	case o.GT && o.NX || o.LT && o.NX || o.GT && o.LT:
		return Error("ERR GT, LT, and/or NX options at the same time are not compatible")
	case o.Incr && len(args) > 2:
		return Error("ERR INCR option supports a single increment-element pair")
	}
	pairs := make([]kvs.Scored, 0, len(args)/2)
	for ; len(args) > 0; args = args[2:] {
		score, err := parseScore(args[0])
		if err != nil {
			return err
		}
		pairs = append(pairs, kvs.Scored{Member: args[1], Score: score})
	}
	res, err := kvs.ZAdd(c.Tx, c.Args[1], pairs, o)
	switch {
	case err != nil:
		return err
	case o.Incr && !res.Done:
		c.Reply.Null()
	case o.Incr:
		c.Reply.Double(res.Score)
	case changed:
		c.Reply.Int(int64(res.Added + res.Changed))
	default:
		c.Reply.Int(int64(res.Added))
	}
	return nil
}

// parseScore parses a number as C's strtod does, whole, without blanks.
func parseScore(b []byte) (float64, error) {
	f, ok := kvs.ParseDouble(b)
	if !ok {
		return 0, errNotFloat
	}
	return f, nil
}

func cmdZIncrBy(c *Ctx) error {
	by, err := parseScore(c.Args[2])
	if err != nil {
		return err
	}
	res, err := kvs.ZAdd(c.Tx, c.Args[1], []kvs.Scored{{Member: c.Args[3], Score: by}}, kvs.ZAddOptions{Incr: true})
	if err != nil {
		return err
	}
	c.Reply.Double(res.Score)
	return nil
}

func cmdZRem(c *Ctx) error {
	n, err := kvs.ZRem(c.Tx, c.Args[1], c.Args[2:])
	return intReply(c, int64(n), err)
}

func cmdZCard(c *Ctx) error {
	n, err := kvs.ZCard(c.Tx, c.Args[1])
	return intReply(c, int64(n), err)
}

func doubleOrNull(c *Ctx) func(score float64, ok bool) {
	return func(score float64, ok bool) {
		if ok {
			c.Reply.Double(score)
		} else {
			c.Reply.Null()
		}
	}
}

func cmdZScore(c *Ctx) error { return kvs.ZScore(c.Tx, c.Args[1], c.Args[2:3], doubleOrNull(c)) }

func cmdZMScore(c *Ctx) error {
	start := len(c.Reply.Buf)
	c.Reply.Array(len(c.Args) - 2)
	err := kvs.ZScore(c.Tx, c.Args[1], c.Args[2:], doubleOrNull(c))
	if err != nil {
		c.Reply.Buf = c.Reply.Buf[:start]
	}
	return err
}

func cmdZRank(c *Ctx) error {
	with := len(c.Args) == 4
	if len(c.Args) > 4 || with && !equalFold(c.Args[3], "withscore") {
		return errSyntax
	}
	rank, score, ok, err := kvs.ZRank(c.Tx, c.Args[1], c.Args[2], c.Cmd.Name == "zrevrank")
	switch {
	case err != nil:
		return err
	case !ok && with:
		c.Reply.NullArray()
	case !ok:
		c.Reply.Null()
	case with:
		c.Reply.Array(2)
		c.Reply.Int(int64(rank))
		c.Reply.Double(score)
	default:
		c.Reply.Int(int64(rank))
	}
	return nil
}

func cmdZCount(c *Ctx) error {
	r := kvs.ZRange{By: kvs.ByScore}
	if c.Cmd.Name == "zlexcount" {
		r.By = kvs.ByLex
	}
	if err := parseRange(&r, c.Args[2], c.Args[3]); err != nil {
		return err
	}
	n, err := kvs.ZCount(c.Tx, c.Args[1], r)
	return intReply(c, int64(n), err)
}

func cmdZRemRange(c *Ctx) error {
	r := kvs.ZRange{By: map[string]kvs.ZBy{"zremrangebyrank": kvs.ByRank, "zremrangebyscore": kvs.ByScore, "zremrangebylex": kvs.ByLex}[c.Cmd.Name]}
	if err := parseRange(&r, c.Args[2], c.Args[3]); err != nil {
		return err
	}
	n, err := kvs.ZRemRange(c.Tx, c.Args[1], r)
	return intReply(c, int64(n), err)
}

// writeScored appends members with their scores: in RESP3 each pair is an array of its own.
func writeScored(c *Ctx, members []kvs.Scored, scores bool) {
	beginPairs(c, len(members), scores)
	for i := range members {
		writePair(c, members[i].Member, members[i].Score, scores)
	}
}

func writePair(c *Ctx, member []byte, score float64, scores bool) {
	if scores && c.Reply.Proto == 3 {
		c.Reply.Array(2)
	}
	c.Reply.Bulk(member)
	if scores {
		c.Reply.Double(score)
	}
}

func cmdZPop(c *Ctx) error {
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
	out, err := kvs.ZPop(c.Tx, c.Args[1], c.Cmd.Name == "zpopmax", count)
	if err != nil {
		return err
	}
	if len(c.Args) == 2 && c.Reply.Proto == 3 { // one member: not wrapped again
		c.Reply.Array(2 * len(out))
		for i := range out {
			c.Reply.Bulk(out[i].Member)
			c.Reply.Double(out[i].Score)
		}
		return nil
	}
	writeScored(c, out, true)
	return nil
}

func cmdZMPop(c *Ctx) error {
	n, err := parseInt(c.Args[1])
	if err != nil || n < 1 {
		return errNumKeys
	}
	if n > int64(len(c.Args)-2) {
		return errSyntax
	}
	lowest, count, err := mpopOptions(c.Args[2+n:], "min", "max")
	if err != nil {
		return err
	}
	for _, key := range c.Args[2 : 2+n] {
		out, err := kvs.ZPop(c.Tx, key, !lowest, count)
		if err != nil {
			return err
		}
		if len(out) > 0 {
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			c.Reply.Array(len(out))
			for i := range out {
				c.Reply.Array(2)
				c.Reply.Bulk(out[i].Member)
				c.Reply.Double(out[i].Score)
			}
			return nil
		}
	}
	c.Reply.NullArray()
	return nil
}

func cmdZRandMember(c *Ctx) error {
	if len(c.Args) == 2 {
		out, err := kvs.ZRandMember(c.Tx, c.Args[1], 1)
		return oneOrNull(c, out, err)
	}
	count, with, err := randomCount(c, "withscores")
	if err != nil {
		return err
	}
	out, err := kvs.ZRandMember(c.Tx, c.Args[1], count)
	if err != nil {
		return err
	}
	beginPairs(c, len(out), with)
	for i := range out {
		writePair(c, out[i].Name, out[i].Score, with)
	}
	return nil
}
