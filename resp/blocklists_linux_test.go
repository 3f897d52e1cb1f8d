package resp

import (
	"fmt"
	"strings"
	"testing"

	"cvmstore/epoch/epochtest"
)

func TestBlockingCommandsOnLists(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 2 }})
	push, a, b := r.dial(), r.dial(), r.dial()
	wait := func(c *client, n int, args ...string) {
		t.Helper()
		c.send(wire(args...))
		push.blocked(n)
	}
	push.do("RPUSH", "l", "1", "2", "3")
	a.want(array("*", "l", "1"), "BLPOP", "none", "l", "0")
	a.want(array("*", "l", "3"), "BRPOP", "l", "0")
	a.want("*2\r\n$1\r\nl\r\n"+array("*", "2"), "BLMPOP", "0", "2", "none", "l", "LEFT", "COUNT", "5")
	a.want("*-1\r\n", "BLPOP", "l", "0.01")
	a.want("-ERR timeout is negative\r\n", "BLPOP", "l", "-1")
	// In order of arrival, one element each; the rest stays.
	wait(a, 1, "BLPOP", "x", "l", "0")
	wait(b, 2, "BRPOP", "l", "0")
	push.want(":3\r\n", "RPUSH", "l", "p", "q", "r")
	a.expect(array("*", "l", "p"))
	b.expect(array("*", "l", "r"))
	push.want(array("*", "q"), "LRANGE", "l", "0", "-1")
	push.do("DEL", "l")
	// A chain of moves; a destination of another type ends the wait, a source of another type does not.
	wait(a, 1, "BLMOVE", "s", "t", "LEFT", "RIGHT", "0")
	wait(b, 2, "BRPOPLPUSH", "t", "u", "0")
	push.want(":1\r\n", "LPUSH", "s", "e")
	a.expect("$1\r\ne\r\n")
	b.expect("$1\r\ne\r\n")
	push.want(array("*", "e"), "LRANGE", "u", "0", "-1")
	push.do("SET", "str", "x")
	a.want("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "BLPOP", "str", "0")
	wait(a, 1, "BLMOVE", "s", "str", "LEFT", "RIGHT", "0")
	push.want(":1\r\n", "LPUSH", "s", "e")
	a.expect("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
	push.want(array("*", "e"), "LRANGE", "s", "0", "-1")
	push.do("DEL", "s", "l")
	wait(a, 1, "BLPOP", "l", "0")
	push.do("SET", "l", "not a list")
	push.do("DEL", "l")
	push.transact(words("RPUSH l gone"), words("DEL l"), words("RPUSH l stays"))
	a.expect(array("*", "l", "stays"))
	if got := a.transact(words("BLPOP none 0"), words("BLMOVE none l LEFT LEFT 0")); got != "*2\r\n*-1\r\n$-1\r\n" {
		t.Errorf("%q", got)
	}
}

func TestBlockingCommandsOnSortedSets(t *testing.T) {
	r := newRig(t, rigOptions{})
	push := r.dial()
	var waiting []*client
	for i, cmd := range []string{"BZPOPMIN none z 0", "BZPOPMAX z 0", "BZMPOP 0 1 z MIN COUNT 2"} {
		c := r.dial()
		c.send(wire(words(cmd)...))
		push.blocked(i + 1)
		waiting = append(waiting, c)
	}
	other := r.dial() // it waits for another type
	other.send(wire("BLPOP", "z", "0"))
	push.blocked(4)
	push.want(":4\r\n", "ZADD", "z", "1", "a", "2", "b", "3", "c", "4", "d")
	waiting[0].expect(array("*", "z", "a", "1"))
	waiting[1].expect(array("*", "z", "d", "4"))
	waiting[2].expect("*2\r\n$1\r\nz\r\n*2\r\n" + array("*", "b", "2") + array("*", "c", "3"))
	push.want(":0\r\n", "EXISTS", "z")
	push.want(":1\r\n", "RPUSH", "z", "v")
	other.expect(array("*", "z", "v"))
	for _, c := range waiting {
		c.want("*-1\r\n", "BZPOPMIN", "z", fmt.Sprint(0.01))
	}
}

// TestBlockedPopWaitsForTheCommit: what a push has brought is handed on at once, but nobody hears of it before it is committed
// (DESIGN.md 4.3).
func TestBlockedPopWaitsForTheCommit(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}})
	push, a, b := r.dial(), r.dial(), r.dial()
	push.want("+OK\r\n", "CVM.DURABILITY", "durable")
	a.send(wire("BLPOP", "l", "0"))
	push.blocked(1)
	b.send(wire("BLMOVE", "l", "m", "LEFT", "LEFT", "0"))
	push.blocked(2)
	push.want(":2\r\n", "RPUSH", "l", "x", "y")
	push.blocked(0)
	push.want(array("*", "y"), "LRANGE", "m", "0", "-1")
	a.quiet()
	b.quiet()
	b.send(wire("LLEN", "l")) // nor that nothing is left
	b.quiet()
	r.deliver()
	a.expect(array("*", "l", "x"))
	b.expect("$1\r\ny\r\n")
	b.expect(":0\r\n")
}

// TestBlockedPopsEnd: a client that is killed, unblocked or out of time takes nothing with it, and the next one in the queue is
// served.
func TestBlockedPopsEnd(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 2 }})
	push := r.dial()
	for kind, cmd := range map[string]string{"list": "BLPOP k 0", "zset": "BZPOPMIN k 0", "many": "BLMPOP 0 2 j k LEFT COUNT 9"} {
		var ids [3]int
		var cs [3]*client
		for i := range cs {
			cs[i] = r.dial()
			_, _ = fmt.Sscanf(cs[i].do("CLIENT", "ID"), ":%d", &ids[i])
			cs[i].send(wire(words(cmd)...))
			push.blocked(i + 1)
		}
		push.want(":1\r\n", "CLIENT", "KILL", "ID", fmt.Sprint(ids[0]))
		cs[0].closed()
		push.want(":1\r\n", "CLIENT", "UNBLOCK", fmt.Sprint(ids[1]), "ERROR")
		cs[1].expect("-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")
		push.blocked(1)
		if kind == "zset" {
			push.do("ZADD", "k", "1", "v")
			cs[2].expect(array("*", "k", "v", "1"))
		} else {
			push.do("RPUSH", "k", "v")
			cs[2].expect(map[string]string{"list": array("*", "k", "v"), "many": "*2\r\n$1\r\nk\r\n" + array("*", "v")}[kind])
		}
		push.want(":0\r\n", "EXISTS", "k")
		cs[1].want("*-1\r\n", words(strings.Replace(strings.Replace(cmd, " 0", " 0.01", 1), "0.012", "0.01 2", 1))...)
	}
}
