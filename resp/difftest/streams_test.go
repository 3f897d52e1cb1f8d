package difftest

import (
	"flag"
	"fmt"
	"strings"

	"cvmstore/kvs/rdb"
)

var streamed = flag.Bool("streams", true, "send the commands of streams as well")

func init() {
	allowed = append(
		allowed,
		difference{[]string{"XINFO", "XPENDING"}, "times, and what is in one only: 7.2 tells more of consumers, whose index is no radix tree", func(ours, theirs string) bool {
			return ours[0] == theirs[0]
		}},
		difference{[]string{"XREAD", "XREADGROUP"}, "7.2 names the command", func(ours, theirs string) bool {
			return strings.HasPrefix(ours, "-ERR Unbalanced") && strings.HasPrefix(theirs, "-ERR Unbalanced")
		}},
		difference{[]string{"XSETID"}, "7.2 does not go below the highest ID that was deleted", func(ours, theirs string) bool {
			return strings.HasPrefix(ours, "-ERR The ID specified in XSETID is smaller than current")
		}},
	)
}

// canonicalStream is what is in a stream's payload, but for times, and for consumers that never read anything: 7.2 makes them
// sooner.
func canonicalStream(p []byte) (string, bool) {
	s, err := rdb.ParseStream(p, 1<<30)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %v %v", s.Last, s.First, s.MaxDeleted, s.Added)
	for _, e := range s.Entries {
		fmt.Fprintf(&b, " %v %q", e.ID, e.Pairs)
	}
	for _, g := range s.Groups {
		fmt.Fprintf(&b, " group %s %v %d", g.Name, g.Last, g.Read)
		for _, p := range g.Pending {
			fmt.Fprintf(&b, " %v x%d", p.ID, p.Count)
		}
		for _, c := range g.Consumers {
			if len(c.Pending) > 0 {
				fmt.Fprintf(&b, " %s %v", c.Name, c.Pending)
			}
		}
	}
	return b.String(), true
}

func (g *generator) streamKey() string { return "x" + g.num(3) }

// streamID is an ID that may be in a stream, or may come next: IDs are small and rise with the round.
func (g *generator) streamID() string {
	switch g.rng.IntN(8) {
	case 0:
		return g.num(30)
	case 1:
		return g.num(g.entry+3) + "-" + g.num(3)
	}
	return fmt.Sprint(max(g.entry-g.rng.IntN(25), 0), "-", g.rng.IntN(2))
}

func (g *generator) streamBound() string {
	return g.one("", "", "", "(") + g.streamID()
}

func (g *generator) streamCommand() []string {
	k, group, who := g.streamKey(), "g"+g.num(2), "c"+g.num(3)
	switch n := g.rng.IntN(100); {
	case n < 30:
		g.entry++
		cmd := []string{"XADD", k}
		if g.chance(5) {
			cmd = append(cmd, g.trimming()...)
		}
		if g.chance(10) {
			cmd = append(cmd, "NOMKSTREAM")
		}
		cmd = append(cmd, g.one(fmt.Sprint(g.entry, "-0"), fmt.Sprint(g.entry, "-1"), fmt.Sprint(g.entry), fmt.Sprint(g.entry, "-*"), g.streamID()))
		for range 1 + g.rng.IntN(3) {
			cmd = append(cmd, "f"+g.num(3), g.value())
		}
		return cmd
	case n < 40:
		from, to := g.one("-", g.streamBound()), g.one("+", g.streamBound())
		if g.chance(2) {
			return append([]string{"XRANGE", k, from, to}, g.counted()...)
		}
		return append([]string{"XREVRANGE", k, to, from}, g.counted()...)
	case n < 48:
		return append([]string{"XDEL", k}, g.some(g.streamID)...)
	case n < 50:
		return append([]string{"XTRIM", k}, g.trimming()...)
	case n < 52:
		return []string{"XLEN", k}
	case n < 53:
		return []string{"XSETID", k, fmt.Sprint(g.entry + 1)}
	case n < 57:
		return append(append([]string{"XREAD"}, g.counted()...), "STREAMS", k, g.streamKey(), g.streamID(), g.one("0", "$", g.streamID()))
	case n < 62:
		return append([]string{"XGROUP", "CREATE", k, group, g.one("$", "0", g.streamID())}, g.one("MKSTREAM", "mkstream"))
	case n < 64:
		return []string{"XGROUP", "SETID", k, group, g.one("$", "0", g.streamID())}
	case n < 65:
		return []string{"XGROUP", g.one("DESTROY", "DESTROY", "nonsense"), k, group}
	case n < 67:
		return []string{"XGROUP", "DELCONSUMER", k, group, who}
	case n < 80:
		cmd := append([]string{"XREADGROUP", "GROUP", group, who}, g.counted()...)
		if g.chance(5) {
			cmd = append(cmd, "NOACK")
		}
		return append(cmd, "STREAMS", k, g.one(">", ">", ">", "0", g.streamID()))
	case n < 86:
		return append([]string{"XACK", k, group}, g.some(g.streamID)...)
	case n < 88:
		return []string{"XPENDING", k, group}
	case n < 90:
		return []string{"XPENDING", k, group, "-", "+", g.num(20), who}
	case n < 95:
		cmd := append([]string{"XCLAIM", k, group, who, g.one("0", "100000000")}, g.some(g.streamID)...)
		return append(cmd, strings.Fields(g.one("FORCE", "JUSTID", "RETRYCOUNT 3", "LASTID "+g.streamID()))...)
	case n < 98:
		return append([]string{"XAUTOCLAIM", k, group, who, g.one("0", "100000000"), g.streamBound()}, g.counted()...)
	}
	return []string{"XINFO", g.one("STREAM", "GROUPS"), k}
}

func (g *generator) counted() []string {
	if g.chance(2) {
		return nil
	}
	return []string{"COUNT", g.num(8)}
}

func (g *generator) trimming() []string {
	if g.chance(2) {
		return []string{"MAXLEN", "=", g.num(30)}
	}
	return []string{"MINID", g.streamID()}
}
