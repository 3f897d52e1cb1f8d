package resp

import (
	"fmt"
	"strings"
	"testing"

	"cvmstore/epoch/epochtest"
)

func invalid(keys ...string) string { return ">2\r\n$10\r\ninvalidate\r\n" + array("*", keys...) }

// untold checks that a client has been sent nothing but a PONG.
func (c *client) untold(why string) {
	c.t.Helper()
	if got := c.do("PING"); got != "+PONG\r\n" {
		c.t.Errorf("%s: %q", why, got)
	}
}

func TestTracking(t *testing.T) {
	for _, loops := range []int64{1, 3} {
		r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = loops }})
		c, other := r.dial(), r.dial()
		c.do("HELLO", "3")
		on := func(args ...string) {
			t.Helper()
			c.want("+OK\r\n", "CLIENT", "TRACKING", "OFF")
			c.want("+OK\r\n", append([]string{"CLIENT", "TRACKING", "ON"}, args...)...)
		}
		on()
		c.do("MGET", "a", "b")
		other.do("SET", "a", "1")
		c.expect(invalid("a"))
		other.do("SET", "a", "2")
		c.untold("read once, told once")
		c.do("GET", "a")
		c.send(wire("SET", "a", "3")) // its own change, after the reply
		c.expect("+OK\r\n")
		c.expect(invalid("a"))
		c.do("GET", "a")
		c.do("EXISTS", "b")
		other.transact(words("SET b 1"), words("DEL a"))
		c.expect(invalid("b"))
		c.expect(invalid("a"))
		c.do("MULTI")
		c.do("GET", "k")
		c.do("SET", "k", "v")
		c.send(wire("EXEC"))
		c.expect("*2\r\n_\r\n+OK\r\n")
		c.expect(invalid("k"))
		// What the same transaction, or a pipeline, changed before it was read is in what was read.
		c.transact(words("SET k w"), words("GET k"))
		c.untold("changed before it was read")
		// What it had read before that, it is told of, and of what comes after.
		c.do("MULTI")
		c.do("SET", "k", "z")
		c.do("GET", "k")
		c.send(wire("EXEC"))
		c.expect("*2\r\n+OK\r\n$1\r\nz\r\n")
		c.expect(invalid("k"))
		other.do("SET", "k", "x")
		c.expect(invalid("k"))
		c.do("GET", "k")
		other.do("FLUSHALL")
		c.expect(">2\r\n$10\r\ninvalidate\r\n_\r\n")

		on("NOLOOP")
		c.do("MGET", "a", "b")
		c.do("SET", "a", "1")
		c.untold("its own change")
		other.do("SET", "b", "1")
		c.expect(invalid("b"))

		on("OPTIN")
		c.do("GET", "a")
		c.want("+OK\r\n", "CLIENT", "CACHING", "YES")
		c.do("GET", "b")
		c.do("GET", "c")
		for _, k := range []string{"a", "b", "c"} {
			other.do("SET", k, "x")
		}
		c.expect(invalid("b"))
		c.untold("only what was asked for")

		on("OPTOUT")
		c.want("+OK\r\n", "CLIENT", "CACHING", "NO")
		c.do("GET", "a")
		c.do("GET", "b")
		for _, k := range []string{"a", "b"} {
			other.do("SET", k, "y")
		}
		c.expect(invalid("b"))

		on("BCAST", "PREFIX", "user:", "PREFIX", "item:", "NOLOOP")
		other.transact(words("SET user:1 a"), words("SET user:2 a"), words("SET item:1 a"), words("SET none a"))
		c.expect(invalid("item:1"))
		c.expect(invalid("user:1", "user:2"))
		c.do("SET", "user:1", "b")
		c.untold("its own change")
		c.do("SET", "user:3", "v", "PX", "1")
		c.expect(invalid("user:3"))
		if got := other.do("INFO"); !strings.Contains(got, "\r\ntracking_clients:1\r\n") || !strings.Contains(got, "\r\ntracking_total_prefixes:2\r\n") {
			t.Error("INFO")
		}
		if got := c.do("CLIENT", "TRACKINGINFO"); got != "%3\r\n$5\r\nflags\r\n~3\r\n$2\r\non\r\n$5\r\nbcast\r\n$6\r\nnoloop\r\n$8\r\nredirect\r\n:0\r\n$8\r\nprefixes\r\n"+array("*", "item:", "user:") {
			t.Errorf("%q", got)
		}
		c.want("+OK\r\n", "CLIENT", "TRACKING", "OFF")
		other.do("SET", "user:1", "c")
		c.untold("off")
		if n, k, i, p := (&view{s: r.srv}).TrackedTotals(); n+p != 0 || k != i {
			t.Errorf("left: %d clients, %d keys, %d items, %d prefixes", n, k, i, p)
		}
	}
}

func TestTrackingRedirects(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 2 }})
	c, to, other := r.dial(), r.dial(), r.dial()
	var id int
	_, _ = fmt.Sscanf(to.do("CLIENT", "ID"), ":%d", &id)
	to.do("SUBSCRIBE", "__redis__:invalidate")
	c.want("+OK\r\n", "CLIENT", "TRACKING", "ON", "REDIRECT", fmt.Sprint(id))
	c.want(fmt.Sprintf(":%d\r\n", id), "CLIENT", "GETREDIR")
	c.do("GET", "a")
	other.do("SET", "a", "1")
	to.expect("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n" + array("*", "a"))
	other.do("FLUSHALL")
	to.expect("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n")
	c.do("HELLO", "3")
	c.do("GET", "a")
	_ = to.Close()
	for !strings.Contains(other.do("CLIENT", "LIST"), fmt.Sprint("redir=", id)) || strings.Contains(other.do("CLIENT", "LIST", "ID", fmt.Sprint(id)), "id=") {
	}
	other.do("SET", "a", "2")
	c.expect(fmt.Sprintf(">2\r\n$21\r\ntracking-redir-broken\r\n:%d\r\n", id))
	if got := c.do("CLIENT", "TRACKINGINFO"); !strings.Contains(got, "broken_redirect") {
		t.Errorf("%q", got)
	}
	c.want("-ERR The client ID you want redirect to does not exist\r\n", "CLIENT", "TRACKING", "ON", "REDIRECT", "9999")
}

func TestTrackingTableIsBounded(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { _ = c.Set("tracking-table-max-keys", "10") }})
	c := r.dial()
	c.do("HELLO", "3")
	c.do("CLIENT", "TRACKING", "ON")
	told := 0
	for i := range 100 {
		c.send(wire("GET", fmt.Sprint("k", i)))
		for c.reply() != "_\r\n" {
			told++
		}
	}
	for told < 90 {
		c.reply()
		told++
	}
	c.untold("90 of 100 are forgotten")
	if _, keys, items, _ := (&view{s: r.srv}).TrackedTotals(); keys != 10 || items != 10 {
		t.Errorf("%d keys, %d items", keys, items)
	}
}

// TestInvalidationsWaitAndAreNotLost: one leaves when the change is committed; and where that takes too long, or never happens,
// the client is told to forget everything, not which key it was.
func TestInvalidationsWaitAndAreNotLost(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}, config: func(c *Config) { c.ReplyTimeout = 2000 }})
	c, other := r.dial(), r.dial()
	c.do("HELLO", "3")
	c.do("CLIENT", "TRACKING", "ON")
	c.do("GET", "k")
	other.send(wire("SET", "k", "v"))
	c.quiet() // nothing is told of what is not committed
	delivered := make(chan struct{})
	go func() { r.deliver(); close(delivered) }()
	c.expect(invalid("k"))
	other.expect("+OK\r\n")
	<-delivered
	c.do("GET", "k")
	other.send(wire("SET", "k", "w"))
	if got := other.reply(); !strings.HasPrefix(got, "-UNCERTAIN") {
		t.Errorf("%q", got)
	}
	c.expect(">2\r\n$10\r\ninvalidate\r\n_\r\n")
}
