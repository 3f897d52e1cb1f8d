package resp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cvmstore/epoch/epochtest"
)

// array words a reply of bulk strings and integers: those that begin with ':' are integers.
func array(kind string, parts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d\r\n", kind, len(parts))
	for _, p := range parts {
		if strings.HasPrefix(p, ":") {
			b.WriteString(p + "\r\n")
		} else {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(p), p)
		}
	}
	return b.String()
}

func (c *client) expect(want string) {
	c.t.Helper()
	if got := c.reply(); got != want {
		c.t.Errorf("got %q, want %q", got, want)
	}
}

func TestSubscribersGetMessages(t *testing.T) {
	for _, loops := range []int64{1, 3} {
		r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = loops }})
		pub := r.dial()
		subs := []*client{r.dial(), r.dial(), r.dial(), r.dial()}
		for i, s := range subs {
			kind := "*"
			if i%2 == 1 {
				s.do("HELLO", "3")
				kind = ">"
			}
			s.want(array(kind, "subscribe", "news", ":1"), "SUBSCRIBE", "news")
			s.want(array(kind, "psubscribe", "n?w*", ":2"), "PSUBSCRIBE", "n?w*")
			s.want(array(kind, "ssubscribe", "news", ":1"), "SSUBSCRIBE", "news")
		}
		pub.want(":8\r\n", "PUBLISH", "news", "hello")
		pub.want(":4\r\n", "PUBLISH", "newer", "x")
		pub.want(":0\r\n", "PUBLISH", "other", "x")
		pub.want(":4\r\n", "SPUBLISH", "news", "shard")
		pub.want(array("*", "news"), "PUBSUB", "CHANNELS")
		pub.want("*0\r\n", "PUBSUB", "CHANNELS", "x*")
		pub.want(array("*", "news", ":4", "x", ":0"), "PUBSUB", "NUMSUB", "news", "x")
		pub.want(":1\r\n", "PUBSUB", "NUMPAT")
		pub.want(array("*", "news"), "PUBSUB", "SHARDCHANNELS")
		pub.want(array("*", "news", ":4"), "PUBSUB", "SHARDNUMSUB", "news")
		for i, s := range subs {
			kind := "*"
			if i%2 == 1 {
				kind = ">"
			}
			s.expect(array(kind, "message", "news", "hello"))
			s.expect(array(kind, "pmessage", "n?w*", "news", "hello"))
			s.expect(array(kind, "pmessage", "n?w*", "newer", "x"))
			s.expect(array(kind, "smessage", "news", "shard"))
			s.want(array(kind, "unsubscribe", "news", ":1"), "UNSUBSCRIBE")
			s.want(array(kind, "punsubscribe", "n?w*", ":0"), "PUNSUBSCRIBE", "n?w*")
			s.want(array(kind, "sunsubscribe", "news", ":0"), "SUNSUBSCRIBE")
		}
		pub.want(":0\r\n", "PUBLISH", "news", "nobody")
		subs[0].want("*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", "UNSUBSCRIBE")
		subs[1].want(">3\r\n$12\r\npunsubscribe\r\n_\r\n:0\r\n", "PUNSUBSCRIBE")
	}
}

func TestSubscriberMode(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, pub := r.dial(), r.dial()
	c.do("SUBSCRIBE", "a")
	c.want("-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n", "GET", "k")
	c.want("-ERR Can't execute 'config|get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n", "CONFIG", "GET", "x")
	c.want(array("*", "pong", ""), "PING")
	c.want(array("*", "pong", "hi"), "PING", "hi")
	if got := pub.do("CLIENT", "LIST", "TYPE", "pubsub"); !strings.Contains(got, "sub=1 psub=0") || !strings.Contains(got, "flags=P") || strings.Count(got, "id=") != 1 {
		t.Errorf("%q", got)
	}
	c.want("+RESET\r\n", "RESET")
	pub.want(":0\r\n", "PUBLISH", "a", "x")
	c.want("$-1\r\n", "GET", "k")
	// RESP3 has no such limits, and what a client sends to itself comes after the reply.
	c.do("HELLO", "3")
	c.do("SUBSCRIBE", "a")
	c.want("_\r\n", "GET", "k")
	c.send(wire("PUBLISH", "a", "x"))
	c.expect(":1\r\n")
	c.expect(array(">", "message", "a", "x"))
	c.do("MULTI")
	c.do("PING")
	c.do("PUBLISH", "a", "y")
	c.do("SET", "k", "v")
	c.send(wire("EXEC"))
	c.expect("*3\r\n+PONG\r\n:1\r\n+OK\r\n")
	c.expect(array(">", "message", "a", "y"))
	// Silence does not silence messages.
	c.send(wire("CLIENT", "REPLY", "OFF") + wire("SUBSCRIBE", "b") + wire("GET", "k"))
	c.expect(array(">", "subscribe", "b", ":2"))
	pub.want(":1\r\n", "PUBLISH", "b", "z")
	c.expect(array(">", "message", "b", "z"))
	// A client that goes takes its subscriptions along.
	_ = c.Close()
	for pub.do("PUBLISH", "a", "x") != ":0\r\n" {
	}
	pub.want("*0\r\n", "PUBSUB", "CHANNELS")
}

// TestMessagesWaitForWhatTheyTell: a message that follows a write, and one of a transaction that writes, reach a subscriber
// when the write has reached the subscriber's level (DESIGN.md 4.3).
func TestMessagesWaitForWhatTheyTell(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}})
	pub, fresh, eager := r.dial(), r.dial(), r.dial()
	eager.want("+OK\r\n", "CVM.DURABILITY", "everysec")
	for _, c := range []*client{fresh, eager} {
		c.do("SUBSCRIBE", "ch")
	}
	told := func(payload string) {
		t.Helper()
		eager.expect(array("*", "message", "ch", payload)) // so it is on its way
		_ = fresh.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if b, err := fresh.r.Peek(1); err == nil {
			t.Errorf("%q: a fresh subscriber was told %q of what is not committed", payload, b)
		}
		_ = fresh.SetReadDeadline(time.Now().Add(20 * time.Second))
		delivered := make(chan struct{})
		go func() { r.deliver(); close(delivered) }()
		fresh.expect(array("*", "message", "ch", payload))
		<-delivered
	}
	pub.send(wire("SET", "k", "1") + wire("PUBLISH", "ch", "after a write"))
	told("after a write")
	pub.expect("+OK\r\n")
	pub.expect(":2\r\n")
	pub.send(wire("MULTI") + wire("PUBLISH", "ch", "in a transaction") + wire("SET", "k", "2") + wire("EXEC"))
	told("in a transaction")
}

func TestSlowSubscriberIsClosed(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) {
		_ = c.Set("client-output-buffer-limit", "pubsub 1mb 0 0")
	}})
	slow, pub := r.dial(), r.dial()
	slow.do("SUBSCRIBE", "ch")
	payload := strings.Repeat("x", 100_000)
	for i := 0; pub.do("PUBLISH", "ch", payload) == ":1\r\n"; i++ {
		if i > 1000 {
			t.Fatal("100 MB for a client that reads nothing")
		}
	}
	if got := pub.do("INFO", "stats"); !strings.Contains(got, "client_output_buffer_limit_disconnections:1\r\n") {
		t.Errorf("%q", got)
	}
}
