package difftest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cvmstore/kvs/rdb"
)

// unordered are commands whose replies have the order of a hash table, or a random one. Within a transaction they are not used:
// EXEC's reply is compared as it is.
var unordered = []string{"HGETALL", "HKEYS", "HVALS", "SMEMBERS", "SINTER", "SUNION", "SDIFF", "HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER", "SPOP"}

var scans = []string{"HSCAN", "SSCAN", "ZSCAN"}

func init() {
	allowed = append(
		allowed,
		difference{unordered, "the order is that of a hash table", func(ours, theirs string) bool { return sameSet(bulks(ours), bulks(theirs)) }},
		difference{scans, "the order is that of a hash table", func(ours, theirs string) bool {
			a, b := bulks(ours), bulks(theirs)
			return len(a) == 2 && len(b) == 2 && a[0] == b[0] && sameSet(bulks(a[1]), bulks(b[1]))
		}},
		difference{[]string{"OBJECT ENCODING"}, "7.2 has listpacks for sets", func(ours, theirs string) bool {
			return ours == "$8\r\nlistpack\r\n" && theirs == "$9\r\nhashtable\r\n"
		}},
		difference{[]string{"ZRANK", "ZREVRANK"}, "WITHSCORE is new in 7.2", func(ours, theirs string) bool {
			return strings.HasPrefix(theirs, "-ERR wrong number of arguments")
		}},
	)
}

// canonical is what is in a payload, with no order where there is none.
func canonical(v *rdb.Value) string {
	var parts []string
	for i := 0; i < len(v.Items); i++ {
		part := fmt.Sprintf("%q", v.Items[i])
		switch v.Kind {
		case rdb.KindHash:
			i++
			part += fmt.Sprintf("=%q", v.Items[i])
		case rdb.KindZSet:
			part += fmt.Sprintf(":%v", v.Scores[i])
		}
		parts = append(parts, part)
	}
	if v.Kind == rdb.KindHash || v.Kind == rdb.KindSet {
		slices.Sort(parts)
	}
	return fmt.Sprint(v.Kind, parts)
}

func (g *generator) member() string {
	if g.chance(12) {
		return g.one("", strings.Repeat("long", 16+g.rng.IntN(2)), strings.Repeat("x", 70+g.rng.IntN(800)), "\x00\xff")
	}
	return g.one(g.num(30), "m"+g.num(20))
}

func (g *generator) score() string {
	return g.one(g.signed(20), g.signed(20), g.signed(20), "1.5", "-0.25", "1e20", "inf", "-inf", "+3", "0x10")
}

func (g *generator) collectionCommand() []string {
	var cmd []string
	for {
		switch g.rng.IntN(4) {
		case 0:
			cmd = g.hashCommand()
		case 1:
			cmd = g.setCommand()
		case 2:
			cmd = g.zsetCommand()
		default:
			cmd = g.listCommand()
		}
		if !g.queueing || !slices.Contains(unordered, cmd[0]) && !slices.Contains(scans, cmd[0]) && !strings.HasSuffix(cmd[0], "RANK") {
			return cmd
		}
	}
}

// some returns a few of what f makes.
func (g *generator) some(f func() string) (out []string) {
	for range 1 + g.rng.IntN(4) {
		out = append(out, f())
	}
	if g.chance(15) {
		for range g.rng.IntN(200) {
			out = append(out, f())
		}
	}
	return out
}

func (g *generator) collectionKey() string { return g.one("h", "s", "z", "l")[:1] + g.num(3) }

// of is mostly a key that holds that type.
func (g *generator) of(letter string) string {
	if g.chance(15) {
		return g.collectionKey()
	}
	return letter + g.num(4)
}

func (g *generator) hashCommand() []string {
	k := g.of("h")
	switch g.rng.IntN(12) {
	case 0, 1, 2:
		cmd := []string{g.one("HSET", "HMSET"), k}
		for _, f := range g.some(g.member) {
			cmd = append(cmd, f, g.value())
		}
		return cmd
	case 3:
		return []string{"HSETNX", k, g.member(), g.value()}
	case 4:
		return []string{g.one("HGET", "HEXISTS", "HSTRLEN"), k, g.member()}
	case 5:
		return append([]string{g.one("HMGET", "HDEL", "HDEL"), k}, g.some(g.member)...)
	case 6:
		return []string{g.one("HGETALL", "HKEYS", "HVALS"), k}
	case 7:
		return []string{"HLEN", k}
	case 8:
		return []string{"HINCRBY", k, g.member(), g.one(g.signed(100), "9223372036854775807")}
	case 9:
		return []string{"HINCRBYFLOAT", k, g.member(), g.one(g.float(), "inf")}
	case 10:
		cmd := []string{"HRANDFIELD", k, g.one("100000", "0", "abc")}
		if g.chance(2) {
			cmd = append(cmd, g.one("WITHVALUES", "WITHSCORES"))
		}
		return cmd
	}
	return []string{"HSCAN", k, "0", "COUNT", "100000"}
}

func (g *generator) setCommand() []string {
	k := g.of("s")
	switch g.rng.IntN(11) {
	case 0, 1, 2:
		return append([]string{"SADD", k}, g.some(g.member)...)
	case 3:
		return append([]string{g.one("SREM", "SMISMEMBER"), k}, g.some(g.member)...)
	case 4:
		return []string{"SISMEMBER", k, g.member()}
	case 5:
		return []string{g.one("SCARD", "SMEMBERS"), k}
	case 6:
		return []string{g.one("SPOP", "SRANDMEMBER"), k, g.one("100000", "0", "x")}
	case 7:
		return []string{"SMOVE", k, g.of("s"), g.member()}
	case 8:
		return []string{g.one("SINTER", "SUNION", "SDIFF"), k, g.of("s"), g.of("s")}
	case 9:
		return []string{g.one("SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"), k, g.of("s"), g.of("s")}
	}
	if g.chance(2) {
		return []string{"SSCAN", k, "0", "COUNT", "100000"}
	}
	return []string{"SINTERCARD", g.one("2", "2", "2", "0", "3", "9"), k, g.of("s"), "LIMIT", g.one("0", "1", "2", "-1")}
}

func (g *generator) listCommand() []string {
	k := g.of("l")
	end := g.one("LEFT", "RIGHT", "left", "up")
	switch g.rng.IntN(15) {
	case 0, 1, 2:
		return append([]string{g.one("LPUSH", "RPUSH", "LPUSHX", "RPUSHX"), k}, g.some(g.member)...)
	case 3:
		return []string{g.one("LPOP", "RPOP"), k}
	case 4:
		return []string{g.one("LPOP", "RPOP"), k, g.one("0", "1", "3", "100", "-1")}
	case 5:
		return []string{"LLEN", k}
	case 6:
		return []string{"LRANGE", k, g.signed(20), g.signed(20)}
	case 7:
		return []string{"LINDEX", k, g.signed(20)}
	case 8:
		return []string{"LSET", k, g.signed(12), g.member()}
	case 9:
		return []string{"LINSERT", k, g.one("BEFORE", "AFTER", "after", "NEAR"), g.member(), g.member()}
	case 10:
		return []string{"LREM", k, g.signed(3), g.member()}
	case 11:
		return []string{"LTRIM", k, g.signed(20), g.signed(20)}
	case 12:
		cmd := []string{"LPOS", k, g.member()}
		for _, o := range []string{"RANK", "COUNT", "MAXLEN"} {
			if g.chance(3) {
				cmd = append(cmd, o, g.signed(4))
			}
		}
		return cmd
	case 13:
		if g.chance(3) {
			return []string{"RPOPLPUSH", k, g.of("l")}
		}
		return []string{"LMOVE", k, g.of("l"), end, g.one("LEFT", "RIGHT")}
	}
	cmd := []string{"LMPOP", g.one("2", "2", "1", "0"), k, g.of("l"), end}
	if g.chance(2) {
		cmd = append(cmd, "COUNT", g.one("1", "2", "0", "100"))
	}
	return cmd
}

func (g *generator) scoreBound() string { return g.one("", "(") + g.score() }

func (g *generator) lexBound() string {
	return g.one("-", "+", "["+g.member(), "("+g.member(), g.member())
}

func (g *generator) zsetCommand() []string {
	k := g.of("z")
	with := func(cmd []string, word string) []string {
		if g.chance(2) {
			cmd = append(cmd, word)
		}
		return cmd
	}
	switch g.rng.IntN(20) {
	case 0, 1, 2, 3:
		cmd := []string{"ZADD", k}
		for g.chance(3) {
			cmd = append(cmd, g.one("NX", "XX", "GT", "LT", "CH", "CH", "INCR"))
		}
		for _, m := range g.some(g.member) {
			cmd = append(cmd, g.score(), m)
		}
		return cmd
	case 4:
		return []string{"ZINCRBY", k, g.score(), g.member()}
	case 5:
		return append([]string{g.one("ZREM", "ZMSCORE"), k}, g.some(g.member)...)
	case 6:
		return []string{g.one("ZSCORE", "ZRANK", "ZREVRANK"), k, g.member()}
	case 7:
		return []string{"ZCARD", k}
	case 8:
		return with([]string{g.one("ZRANGE", "ZREVRANGE"), k, g.signed(20), g.signed(20)}, "WITHSCORES")
	case 9, 10:
		cmd := with([]string{g.one("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), k, g.scoreBound(), g.scoreBound()}, "WITHSCORES")
		if g.chance(3) {
			cmd = append(cmd, "LIMIT", g.signed(3), g.signed(5))
		}
		return cmd
	case 11:
		return g.lexCommand()
	case 12:
		return []string{"ZCOUNT", k, g.scoreBound(), g.scoreBound()}
	case 13:
		if g.chance(2) {
			return []string{"ZREMRANGEBYRANK", k, g.signed(10), g.signed(10)}
		}
		return []string{"ZREMRANGEBYSCORE", k, g.scoreBound(), g.scoreBound()}
	case 14:
		return []string{g.one("ZPOPMIN", "ZPOPMAX"), k, g.one("1", "2", "0", "-1", "100")}
	case 15:
		return []string{"ZMPOP", g.one("2", "1", "0"), k, g.of("z"), g.one("MIN", "MAX", "MED"), "COUNT", g.one("1", "3", "0")}
	case 16, 17:
		return g.zsetOperation(k)
	case 18:
		cmd := []string{"ZRANGE", k, g.scoreBound(), g.scoreBound(), g.one("BYSCORE", "BYSCORE", "REV")}
		if g.chance(3) {
			cmd = []string{"ZRANGESTORE", g.of("z"), k, g.scoreBound(), g.scoreBound(), "BYSCORE"}
		}
		if g.chance(3) {
			cmd = append(cmd, "LIMIT", g.num(3), g.signed(5))
		}
		return with(cmd, "REV")
	}
	if g.chance(2) {
		return []string{"ZSCAN", k, "0", "COUNT", "100000"}
	}
	return with([]string{"ZRANDMEMBER", k, g.one("100000", "0", "y")}, "WITHSCORES")
}

// lexCommand is one on a sorted set all of whose scores are the same: on others, ranges of names have no meaning.
func (g *generator) lexCommand() []string {
	k := "y" + g.num(2)
	switch g.rng.IntN(4) {
	case 0:
		cmd := []string{"ZADD", k}
		for _, m := range g.some(g.member) {
			cmd = append(cmd, "0", m)
		}
		return cmd
	case 1:
		return []string{"ZRANGE", k, g.lexBound(), g.lexBound(), "BYLEX"}
	case 2:
		return []string{"ZREMRANGEBYLEX", k, g.lexBound(), g.lexBound()}
	}
	return []string{g.one("ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZLEXCOUNT"), k, g.lexBound(), g.lexBound()}
}

func (g *generator) zsetOperation(k string) []string {
	op := g.one("ZUNION", "ZINTER", "ZDIFF")
	cmd := []string{op}
	if g.chance(2) {
		cmd[0] += "STORE"
		cmd = append(cmd, g.of("z"))
	}
	n := 1 + g.rng.IntN(3)
	cmd = append(cmd, g.one(strconv.Itoa(n), strconv.Itoa(n), strconv.Itoa(n), "0", "7"), k)
	for range n - 1 {
		cmd = append(cmd, g.one(g.of("z"), g.of("s")))
	}
	if g.chance(3) {
		cmd = append(cmd, "WEIGHTS")
		for range n {
			cmd = append(cmd, g.one("1", "2", "-1", "0.5", "inf"))
		}
	}
	if g.chance(3) {
		cmd = append(cmd, "AGGREGATE", g.one("SUM", "MIN", "MAX", "AVG"))
	}
	if g.chance(3) {
		cmd = append(cmd, "WITHSCORES")
	}
	return cmd
}
