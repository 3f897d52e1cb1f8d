package difftest

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// generator makes commands. All it does follows from its seed and the payloads that it is given.
type generator struct {
	rng      *rand.Rand
	payloads []string // of DUMP, from the oracle
	queueing bool     // it has said MULTI
	entry    int      // of a stream: the newest ID
}

func (g *generator) one(of ...string) string { return of[g.rng.IntN(len(of))] }
func (g *generator) chance(n int) bool       { return g.rng.IntN(n) == 0 }
func (g *generator) num(n int) string        { return strconv.Itoa(g.rng.IntN(n)) }
func (g *generator) signed(n int) string     { return strconv.Itoa(g.rng.IntN(2*n) - n) }
func (g *generator) key() string             { return "k" + g.num(12) }
func (g *generator) db() string              { return g.num(databases) }

// odd are arguments that most commands refuse. None is a time that comes soon, or an offset that takes much memory.
var odd = []string{
	"", "0", "-1", "abc", " 1", "1 ", "+5", "007", "-0", "1e5", "0x10", "3.25", "nan", "inf", "-inf", "#3", "u8", "i64", "u64", "i0", "4294967296",
	"9223372036854775807", "-9223372036854775808", "9223372036854775808", "99999999999999999999999", "*", "NX", "XX", "GET", "REPLACE", "\x00\xff\r\n",
}

func (g *generator) value() string {
	switch g.rng.IntN(10) {
	case 0:
		return ""
	case 1, 2:
		return g.signed(12_000)
	case 3:
		return g.one("9223372036854775807", "-9223372036854775808", "9223372036854775800", "2147483648", "3.0e3", "1.5", "-0.1", "0010", " 11")
	case 4:
		return strings.Repeat(g.one("a", "ab", "\x00", "\xff", "xyz"), g.rng.IntN(400))
	case 5:
		return strings.Repeat("e", 43+g.rng.IntN(3))
	}
	b := make([]byte, g.rng.IntN(40))
	for i := range b {
		b[i] = byte(g.rng.IntN(256))
	}
	return string(b)
}

func (g *generator) float() string {
	switch g.rng.IntN(6) {
	case 0:
		return g.one("1e300", "1e4931", "-1.5e4931", "1e-30", "5e-20", "0x1.8p3", "-0x10", "1e5000", "1e-5000", ".5", "5.", ".", "e5", "+3.5", "1e", "infinity", "0.1")
	case 1:
		return g.signed(1000)
	}
	return strconv.FormatFloat((g.rng.Float64()-0.5)*float64(int64(1)<<g.rng.IntN(60)), "efg"[g.rng.IntN(3)], g.rng.IntN(18), 64)
}

// far is a distance in seconds of a time that does not come during the test, hardly ever the same one twice: which of two equal
// ones is later would depend on the milliseconds between the commands.
func (g *generator) far() string {
	if g.chance(3) {
		return g.one("-5", "0")
	}
	return strconv.Itoa(100_000 + 1000*g.rng.IntN(1_000_000))
}

// farAt is one since 1970.
func (g *generator) farAt() string {
	return g.one("3000000000", "4000000000", "5000000000", "1000", "-7")
}

func (g *generator) next() []string {
	cmd := g.plain()
	// Of a SCAN, the cursor and where it stops are each server's own; a pop or pick without its count takes a random one; large
	// scores have 17 digits in some of the oracle's replies and the shortest form in others.
	own := strings.HasSuffix(cmd[0], "SCAN") || cmd[0] == "SPOP" || strings.Contains(cmd[0], "RAND") || cmd[0][0] == 'Z' || cmd[0][0] == 'X' && g.chance(2)
	for !own && !strings.HasPrefix(cmd[1%len(cmd)], "y") && g.chance(25) {
		i := 1 + g.rng.IntN(len(cmd))
		switch {
		case i == len(cmd):
			cmd = append(cmd, g.one(odd...))
		case g.chance(4):
			cmd = append(cmd[:i:i], cmd[i+1:]...)
		default:
			if cmd[i] = g.one(odd...); cmd[i] == "*" && cmd[0] == "XADD" {
				cmd[i] = "-"
			}
		}
	}
	if g.chance(10) {
		cmd[0] = strings.ToLower(cmd[0])
	}
	return cmd
}

func (g *generator) plain() []string {
	switch {
	case g.chance(25), g.queueing && g.chance(4):
		return g.sessionCommand()
	case g.chance(10):
		return g.hllCommand()
	case *streamed && g.chance(2):
		return g.streamCommand()
	case *collections && g.chance(2):
		return g.collectionCommand()
	}
	switch n := g.rng.IntN(100); {
	case n < 30:
		return g.stringCommand()
	case n < 55:
		return g.bitCommand()
	case n < 75:
		return g.keyCommand()
	case n < 85:
		return g.expiryCommand()
	case n < 95:
		return g.objectCommand()
	}
	return g.databaseCommand()
}

func (g *generator) stringCommand() []string {
	k := g.key()
	switch g.rng.IntN(20) {
	case 0:
		return []string{"GET", k}
	case 1, 2:
		return g.set(k)
	case 3:
		return []string{g.one("SETNX", "GETSET", "APPEND"), k, g.value()}
	case 4:
		return []string{g.one("SETEX", "PSETEX"), k, g.one(g.far()+"000", "0", "-1", "9223372036854775"), g.value()}
	case 5:
		return []string{"MGET", k, g.key(), g.key()}
	case 6:
		return []string{g.one("MSET", "MSETNX"), k, g.value(), g.key(), g.value()}
	case 7:
		return []string{g.one("GETDEL", "STRLEN", "GET"), k}
	case 8:
		return append([]string{"GETEX", k}, g.expiry(false)...)
	case 9, 10:
		return []string{g.one("GETRANGE", "SUBSTR"), k, g.signed(60), g.signed(60)}
	case 11, 12:
		return []string{"SETRANGE", k, g.one(g.num(100), g.num(600), "-1", "536870912"), g.value()}
	case 13:
		return []string{g.one("INCR", "DECR"), k}
	case 14:
		return []string{g.one("INCRBY", "DECRBY"), k, g.one(g.signed(1000), "9223372036854775807", "-9223372036854775808")}
	case 15, 16, 17:
		return []string{"INCRBYFLOAT", k, g.float()}
	}
	cmd := []string{"LCS", k, g.key()}
	for _, o := range []string{"IDX", "LEN", "WITHMATCHLEN", "MINMATCHLEN"} {
		if g.chance(3) {
			cmd = append(cmd, o)
			if o == "MINMATCHLEN" {
				cmd = append(cmd, g.signed(6))
			}
		}
	}
	return cmd
}

// expiry is none, or an option that sets one.
func (g *generator) expiry(keep bool) []string {
	switch g.rng.IntN(8) {
	case 0:
		return []string{"EX", g.far()}
	case 1:
		return []string{"PX", g.far() + "000"}
	case 2:
		return []string{"EXAT", g.one("3000000000", "4000000000", "0", "-7")} // past ones go when the server looks
	case 3:
		return []string{"PXAT", g.one("3000000000", "4000000000") + "000"}
	case 4:
		if keep {
			return []string{"KEEPTTL"}
		}
		return []string{"PERSIST"}
	}
	return nil
}

func (g *generator) set(k string) []string {
	cmd := append([]string{"SET", k, g.value()}, g.expiry(true)...)
	for g.chance(3) {
		cmd = append(cmd, g.one("NX", "XX", "GET"))
	}
	return cmd
}

func (g *generator) bitCommand() []string {
	k := g.key()
	switch g.rng.IntN(8) {
	case 0:
		return []string{"SETBIT", k, g.num(3000), g.one("0", "1", "1", "2")}
	case 1:
		return []string{"GETBIT", k, g.num(3000)}
	case 2:
		cmd := []string{"BITCOUNT", k}
		if !g.chance(3) {
			cmd = append(cmd, g.signed(300), g.signed(300))
			if g.chance(2) {
				cmd = append(cmd, g.one("BYTE", "BIT", "bit", "bits"))
			}
		}
		return cmd
	case 3, 4:
		cmd := []string{"BITPOS", k, g.one("0", "1", "0", "1", "2")}
		for i := range g.rng.IntN(4) {
			cmd = append(cmd, g.one(g.signed(80), g.signed(300)))
			if i == 2 {
				cmd[len(cmd)-1] = g.one("BYTE", "BIT", "bit", "7")
			}
		}
		return cmd
	case 5:
		cmd := []string{"BITOP", g.one("AND", "OR", "XOR", "not", "NAND"), k, g.key()}
		for g.chance(2) {
			cmd = append(cmd, g.key())
		}
		return cmd
	}
	cmd := []string{g.one("BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO"), k}
	for range g.rng.IntN(5) {
		cmd = append(cmd, g.fieldOp()...)
	}
	return cmd
}

func (g *generator) fieldOp() []string {
	kind := g.one("u", "i") + strconv.Itoa(1+g.rng.IntN(64))
	offset := g.one(g.num(300), "#"+g.num(20))
	arg := g.one(g.signed(100), g.signed(1<<40), "9223372036854775807", "-9223372036854775808", "1", "-1")
	switch g.rng.IntN(4) {
	case 0:
		return []string{"GET", kind, offset}
	case 1:
		return []string{"SET", kind, offset, arg}
	case 2:
		return []string{"INCRBY", kind, offset, arg}
	}
	return []string{"OVERFLOW", g.one("WRAP", "SAT", "FAIL", "sat", "none")}
}

func (g *generator) keyCommand() []string {
	k := g.key()
	switch g.rng.IntN(12) {
	case 0:
		return []string{g.one("DEL", "UNLINK"), k, g.key()}
	case 1:
		return []string{g.one("EXISTS", "TOUCH"), k, g.key(), k}
	case 2:
		return []string{"TYPE", k}
	case 3, 4:
		return []string{g.one("RENAME", "RENAMENX"), k, g.one(g.key(), k)}
	case 5, 6:
		return []string{"MOVE", k, g.one(g.db(), g.db(), "99", "-1", "2147483648")}
	case 7, 8, 9:
		cmd := []string{"COPY", k, g.one(g.key(), k)}
		if g.chance(2) {
			cmd = append(cmd, "DB", g.one(g.db(), g.db(), "99"))
		}
		if g.chance(2) {
			cmd = append(cmd, "REPLACE")
		}
		return cmd
	case 10:
		return []string{"KEYS", g.one("*", "k1*", "k?", "k[0-5]", "none", "k[^1]", "\\k2")}
	}
	cmd := []string{"SCAN", "0", "COUNT", "100000"}
	if g.chance(2) {
		cmd = append(cmd, "MATCH", g.one("*", "k1*", "k[3-6]"))
	}
	if g.chance(3) {
		cmd = append(cmd, "TYPE", g.one("string", "STRING", "list", ""))
	}
	return cmd
}

func (g *generator) expiryCommand() []string {
	k := g.key()
	var cmd []string
	switch g.rng.IntN(8) {
	case 0:
		return []string{g.one("TTL", "PTTL"), k}
	case 1, 2:
		return []string{g.one("EXPIRETIME", "PEXPIRETIME"), k}
	case 3:
		return []string{"PERSIST", k}
	case 4:
		cmd = []string{"EXPIRE", k, g.one(g.far(), "9223372036854775", "-9223372036854776")}
	case 5:
		cmd = []string{"PEXPIRE", k, g.one(g.far()+"000", "9223372036854775807")}
	case 6:
		cmd = []string{"EXPIREAT", k, g.farAt()}
	case 7:
		cmd = []string{"PEXPIREAT", k, g.farAt() + "000"}
	}
	for g.chance(2) {
		cmd = append(cmd, g.one("NX", "XX", "GT", "LT", "lt"))
	}
	return cmd
}

func (g *generator) objectCommand() []string {
	k := g.key()
	switch g.rng.IntN(6) {
	case 0:
		return []string{"DUMP", k}
	case 1, 2:
		return g.restore(k)
	case 3, 4:
		return []string{"OBJECT", "ENCODING", k}
	}
	return []string{"OBJECT", g.one("FREQ", "IDLETIME", "REFCOUNT", "SIZE"), k}
}

func (g *generator) restore(k string) []string {
	p := "nothing like a payload"
	if len(g.payloads) > 0 {
		p = g.one(g.payloads...)
	}
	if g.chance(6) && len(p) > 0 {
		b := []byte(p)
		b[g.rng.IntN(len(b))] ^= 1 << g.rng.IntN(8)
		p = string(b)
	}
	cmd := []string{"RESTORE", k, g.one("0", "0", strconv.Itoa(100_000_000+g.rng.IntN(1_000_000)*1000)), p}
	for g.chance(2) {
		cmd = append(cmd, g.one("REPLACE", "REPLACE", "ABSTTL"))
	}
	switch g.rng.IntN(8) {
	case 0:
		cmd = append(cmd, "IDLETIME", g.one("1000", "0", "-1"))
	case 1:
		cmd = append(cmd, "FREQ", g.one("0", "255", "256", "-1"))
	}
	return cmd
}

func (g *generator) databaseCommand() []string {
	switch g.rng.IntN(12) {
	case 0, 1, 2, 3:
		return []string{"SELECT", g.db()}
	case 4, 5, 6:
		return []string{"SWAPDB", g.one(g.db(), "99"), g.db()}
	case 7, 8:
		return []string{"DBSIZE"}
	case 9, 10:
		return []string{"RANDOMKEY"}
	}
	if g.chance(4) {
		return []string{g.one("FLUSHALL", "FLUSHDB")}
	}
	return []string{"SELECT", "0"}
}
