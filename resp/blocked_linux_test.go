package resp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/resp/command"
)

// withTake puts a blocking command in the place of UNLINK: UNLINK key [key ...] timeout takes the first of the keys that is a
// string, and waits for one.
func withTake(t *testing.T) {
	cmd, err := command.Lookup([][]byte{[]byte("unlink"), nil, nil})
	if err != nil {
		t.Fatal(err)
	}
	old := *cmd
	t.Cleanup(func() { *cmd = old })
	cmd.Flags |= command.Blocking
	cmd.Handler = func(c *command.Ctx) error {
		last := len(c.Args) - 1
		var ms int
		if _, err := fmt.Sscan(string(c.Args[last]), &ms); err != nil {
			return err
		}
		return c.Block(command.Wait{
			Keys: c.Args[1:last], Type: keyspace.TypeString, Timeout: time.Duration(ms) * time.Millisecond,
			Try: func(key []byte) (bool, error) {
				val, ok, err := kvs.GetDel(c.Tx, key)
				if ok {
					c.Reply.Array(2)
					c.Reply.Bulk(key)
					c.Reply.Bulk(val)
				}
				return ok, err
			},
			None: c.Reply.NullArray,
		})
	}
}

// blocked waits until so many clients wait.
func (c *client) blocked(n int) {
	c.t.Helper()
	for !strings.Contains(c.do("INFO", "clients"), fmt.Sprintf("\r\nblocked_clients:%d\r\n", n)) {
	}
}

func TestBlockedClientsAreServedInOrder(t *testing.T) {
	withTake(t)
	for _, o := range []rigOptions{
		{},
		{config: func(c *Config) { c.Loops = 3 }},
		{cacheBytes: -1, config: func(c *Config) { c.Loops = 2 }},
	} {
		r := newRig(t, o)
		push := r.dial()
		var waiting []*client
		for i := range 9 {
			c := r.dial()
			c.send(wire("UNLINK", "other", "k", "0"))
			push.blocked(i + 1)
			waiting = append(waiting, c)
		}
		for i, c := range waiting {
			push.want("+OK\r\n", "SET", "k", fmt.Sprint(i))
			c.expect(array("*", "k", fmt.Sprint(i)))
		}
		push.blocked(0)
		push.want(":0\r\n", "EXISTS", "k")
	}
}

func TestBlockedClientComesFirst(t *testing.T) {
	withTake(t)
	r := newRig(t, rigOptions{})
	push, c := r.dial(), r.dial()
	wait := func(args ...string) {
		t.Helper()
		c.send(wire(append([]string{"UNLINK"}, args...)...))
		push.blocked(1)
	}
	// Before the next command of a pipeline.
	wait("k", "0")
	push.send(wire("SET", "k", "v") + wire("EXISTS", "k"))
	push.expect("+OK\r\n")
	push.expect(":0\r\n")
	c.expect(array("*", "k", "v"))
	// After EXEC, not within it.
	wait("a", "b", "0")
	if got := push.transact(words("SET b 1"), words("EXISTS b"), words("SET a 2"), words("DEL b"), words("EXISTS a")); got != "*5\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n:1\r\n" {
		t.Errorf("%q", got)
	}
	c.expect(array("*", "a", "2"))
	push.want(":0\r\n", "EXISTS", "a", "b")
	// What is gone again when EXEC ends wakes nobody.
	wait("k", "0")
	push.transact(words("SET k v"), words("DEL k"))
	push.blocked(1)
	// Its pipeline goes on after it.
	c.send(wire("PING") + wire("GET", "x"))
	push.want("+OK\r\n", "SET", "k", "w")
	c.expect(array("*", "k", "w"))
	c.expect("+PONG\r\n")
	c.expect("$-1\r\n")
	// Other ways for a key to come into being.
	for _, way := range []string{"RENAME src k", "COPY src k", "SWAPDB 0 1", "MSET k new", "APPEND k new", "GETSET k new"} {
		push.do("SET", "src", "new")
		push.do("SELECT", "1")
		push.do("SET", "k", "new")
		push.do("SELECT", "0")
		wait("k", "0")
		push.do(words(way)...)
		c.expect(array("*", "k", "new"))
		push.do("FLUSHALL")
	}
	// Within MULTI nothing waits.
	if got := c.transact(words("UNLINK k 0"), words("SET k v"), words("UNLINK j k 0")); got != "*3\r\n*-1\r\n+OK\r\n"+array("*", "k", "v") {
		t.Errorf("%q", got)
	}
}

func TestBlockingEnds(t *testing.T) {
	withTake(t)
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 2 }})
	push, c := r.dial(), r.dial()
	var id int
	_, _ = fmt.Sscanf(c.do("CLIENT", "ID"), ":%d", &id)
	c.want("*-1\r\n", "UNLINK", "k", "1")
	for why, want := range map[string]string{"": "*-1\r\n", "TIMEOUT": "*-1\r\n", "ERROR": "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"} {
		c.send(wire("UNLINK", "k", "0"))
		push.blocked(1)
		push.want(":1\r\n", words(fmt.Sprintf("CLIENT UNBLOCK %d %s", id, why))...)
		c.expect(want)
		push.want(":0\r\n", "CLIENT", "UNBLOCK", fmt.Sprint(id))
	}
	// Nobody waits any more.
	push.want("+OK\r\n", "SET", "k", "v")
	push.want(":1\r\n", "EXISTS", "k")
	push.do("DEL", "k")
	c.send(wire("UNLINK", "k", "0"))
	push.blocked(1)
	_ = c.Close()
	push.blocked(0)
	push.want("+OK\r\n", "SET", "k", "v")
	push.want(":1\r\n", "EXISTS", "k")
	w := &r.srv.waits
	w.Lock()
	if n := w.some.Load(); n != 0 || len(w.keys) != 0 {
		t.Errorf("%d still wait, for %d keys", n, len(w.keys))
	}
	w.Unlock()
	other := r.dial()
	other.send(wire("UNLINK", "nosuch", "0")) // the server stops with it
	push.blocked(1)
}

// TestNothingIsLeftForWhoWaits: takers and givers on several loops. Each value is taken once, and all are.
func TestNothingIsLeftForWhoWaits(t *testing.T) {
	withTake(t)
	for _, o := range []rigOptions{
		{config: func(c *Config) { c.Loops = 3 }},
		{config: func(c *Config) { c.Loops = 3 }, cacheBytes: -1},
	} {
		r := newRig(t, o)
		const givers, takers, values = 3, 6, 150
		var taken sync.Map
		var left atomic.Int64
		left.Store(givers * values)
		var all sync.WaitGroup
		for range takers {
			c := r.dial()
			all.Go(func() {
				for left.Load() > 0 {
					got := c.do("UNLINK", "a", "b", "c", "50")
					if strings.HasPrefix(got, "*-1") {
						continue
					}
					val := strings.Split(got, "\r\n")[4]
					if _, twice := taken.LoadOrStore(val, true); twice {
						t.Errorf("%s was taken twice", val)
					}
					left.Add(-1)
				}
			})
		}
		for g := range givers {
			c := r.dial()
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			all.Go(func() {
				for i := range values {
					key := string(rune('a' + rng.IntN(3)))
					for c.do("SETNX", key, fmt.Sprint(g, ".", i)) != ":1\r\n" && left.Load() > 0 {
					}
				}
			})
		}
		all.Wait()
		if n := left.Load(); n != 0 {
			t.Errorf("%d values are left", n)
		}
	}
}
