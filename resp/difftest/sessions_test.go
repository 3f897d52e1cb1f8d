package difftest

import (
	"bufio"
	"fmt"
	"strings"
)

// Transactions and HyperLogLogs.

// sessionCommand is one of a connection's own: about a transaction in five is wanted, and it should come to an end.
func (g *generator) sessionCommand() []string {
	if g.queueing {
		if g.queueing = !g.chance(3); !g.queueing {
			return []string{g.one("EXEC", "EXEC", "EXEC", "EXEC", "DISCARD")}
		}
		return g.line("PING", "ECHO x", "WATCH "+g.key(), "MULTI", "NOSUCH", "SELECT "+g.db())
	}
	switch g.rng.IntN(6) {
	case 0:
		return []string{"WATCH", g.key(), g.key()}
	case 1:
		return []string{g.one("UNWATCH", "EXEC", "DISCARD")}
	}
	g.queueing = true
	return []string{"MULTI"}
}

func (g *generator) line(lines ...string) []string { return strings.Fields(g.one(lines...)) }

// hllKeys are those that hold HyperLogLogs. Other commands leave them alone: where Redis adds some elements before it finds that
// the registers are not right, this server adds none.
const hllKeys = 3

func (g *generator) hllKey() string { return "hll" + g.num(hllKeys) }

func (g *generator) hllCommand() []string {
	k := g.hllKey()
	switch g.rng.IntN(12) {
	case 0, 1, 2, 3, 4:
		cmd := []string{"PFADD", k}
		for range g.rng.IntN(12) {
			cmd = append(cmd, g.one(g.num(60), g.value(), fmt.Sprint("e", g.rng.IntN(5000))))
		}
		return cmd
	case 5:
		cmd := []string{"PFADD", k}
		for range g.rng.IntN(g.pick(20, 2000)) {
			cmd = append(cmd, fmt.Sprint("many", g.rng.Uint64()))
		}
		return cmd
	case 6, 7:
		return []string{"PFCOUNT", k}
	case 8:
		return []string{"PFCOUNT", k, g.hllKey(), g.one(g.hllKey(), g.key())}
	case 9:
		return []string{"PFMERGE", k, g.hllKey(), g.one(g.hllKey(), g.key())}
	case 10:
		return []string{g.one("GET", "GET", "GET", "DEL"), k}
	}
	return []string{"PFDEBUG", g.one("DECODE", "ENCODING", "TODENSE", "GETREG", "NOSUCH"), k}
}

func (g *generator) pick(of ...int) int { return of[g.rng.IntN(len(of))] }

// note keeps what stands in a transaction, so that each reply of EXEC is compared like one of its own.
func (r *round) note(cmd []string, theirs string) {
	switch {
	case theirs == "+QUEUED\r\n":
		r.queued = append(r.queued, cmd)
	case !strings.EqualFold(cmd[0], "MULTI") && !strings.EqualFold(cmd[0], "WATCH"):
		r.queued = nil
	}
}

// same compares two replies: of EXEC one by one.
func (r *round) same(cmd []string, ours, theirs string) bool {
	if ours == theirs || !strings.EqualFold(cmd[0], "EXEC") {
		return same(cmd, ours, theirs)
	}
	a, b := elements(ours), elements(theirs)
	if len(a) != len(r.queued) || len(b) != len(r.queued) {
		return false
	}
	for i, q := range r.queued {
		if !same(q, a[i], b[i]) {
			return false
		}
	}
	return true
}

// elements returns the elements of an array as they came.
func elements(reply string) (out []string) {
	br := bufio.NewReader(strings.NewReader(reply))
	if line, err := br.ReadString('\n'); err != nil || line[0] != '*' {
		return nil
	}
	for {
		part, err := readReply(br)
		if err != nil {
			return out
		}
		out = append(out, part)
	}
}
