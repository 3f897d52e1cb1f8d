package resp

import (
	"fmt"
	"testing"
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
