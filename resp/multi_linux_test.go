package resp

import (
	"fmt"
	"strings"
	"testing"

	"cvmstore/epoch/epochtest"
)

const queuedReply = "+QUEUED\r\n"

// transact runs commands in one MULTI and returns EXEC's reply.
func (c *client) transact(commands ...[]string) string {
	c.t.Helper()
	c.want("+OK\r\n", "MULTI")
	for _, cmd := range commands {
		c.want(queuedReply, cmd...)
	}
	return c.do("EXEC")
}

func words(s string) []string { return strings.Fields(s) }

func TestMultiExecutesInOrder(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	got := c.transact(words("SET a 1"), words("INCR a"), words("GET a"), words("HELLO 9"), words("APPEND a xyz"), words("INCR a"),
		words("SELECT 3"), words("SET a three"), words("SELECT 0"), words("GET a"), words("DEL a nosuch"), words("PING"))
	want := "*12\r\n+OK\r\n:2\r\n$1\r\n2\r\n-NOPROTO unsupported protocol version\r\n:4\r\n-ERR value is not an integer or out of range\r\n" +
		"+OK\r\n+OK\r\n+OK\r\n$4\r\n2xyz\r\n:1\r\n+PONG\r\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	c.want("$-1\r\n", "GET", "a")
	c.want("+OK\r\n", "SELECT", "3")
	c.want("$5\r\nthree\r\n", "GET", "a")
	if got := c.transact(); got != "*0\r\n" {
		t.Errorf("empty: %q", got)
	}
	// SELECT within stays in force.
	c.transact(words("SELECT 0"))
	c.want("$-1\r\n", "GET", "a")
}

func TestMultiIsRefusedWhole(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	aborted := "-EXECABORT Transaction discarded because of previous errors.\r\n"
	for _, bad := range [][]string{words("NOSUCH x"), words("GET"), words("CONFIG NOSUCH"), words("SHUTDOWN"), words("SAVE")} {
		c.want("+OK\r\n", "MULTI")
		c.want(queuedReply, "SET", "a", "1")
		if got := c.do(bad...); got[0] != '-' {
			t.Errorf("%v: %q", bad, got)
		}
		c.want(queuedReply, "SET", "a", "2")
		c.want(aborted, "EXEC")
		c.want("$-1\r\n", "GET", "a")
	}
	c.want("-ERR EXEC without MULTI\r\n", "EXEC")
	c.want("-ERR DISCARD without MULTI\r\n", "DISCARD")
	c.want("+OK\r\n", "MULTI")
	c.want("-ERR MULTI calls can not be nested\r\n", "MULTI")
	c.want("-ERR WATCH inside MULTI is not allowed\r\n", "WATCH", "a")
	c.want(queuedReply, "SET", "a", "1")
	c.want("*1\r\n+OK\r\n", "EXEC")
	c.want("+OK\r\n", "MULTI")
	c.want(queuedReply, "SET", "a", "2")
	c.want("+OK\r\n", "DISCARD")
	c.want("$1\r\n1\r\n", "GET", "a")
	c.want("+OK\r\n", "MULTI")
	c.want("-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n", "EXEC", "x")
	c.want("+OK\r\n", "MULTI")
	c.want("+RESET\r\n", "RESET")
	c.want("-ERR EXEC without MULTI\r\n", "EXEC")
}

func TestWatchSeesEveryKindOfChange(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, other := r.dial(), r.dial()
	const null, done = "*-1\r\n", "*1\r\n+PONG\r\n"
	for _, tc := range []struct {
		name   string
		before string // commands of the other client, separated by ;
		change string
		want   string
	}{
		{"nothing", "SET k 1", "GET k", done},
		{"another key", "SET k 1", "SET j 1", done},
		{"set", "SET k 1", "SET k 1", null},
		{"created and deleted", "DEL k", "SET k 1;DEL k", null},
		{"delete", "SET k 1", "DEL k", null},
		{"delete of an absent key", "DEL k", "DEL k", done},
		{"expiry set", "SET k 1", "EXPIRE k 100", null},
		{"expiry taken away", "SET k 1 EX 100", "PERSIST k", null},
		{"renamed to", "SET k 1;SET j 1", "RENAME j k", null},
		{"flushdb", "SET k 1", "FLUSHDB", null},
		{"flushall", "SET k 1", "FLUSHALL", null},
		{"flush of an absent key", "DEL k", "FLUSHALL", done},
		{"swapdb", "SET k 1", "SWAPDB 0 1", null},
		{"swapdb of nothing", "FLUSHALL", "SWAPDB 0 1", done},
		{"the same name in another database", "SET k 1", "SELECT 2;SET k 2;SELECT 0", done},
		{"a transaction", "SET k 1", "MULTI;INCR k;EXEC", null},
		{"a transaction that was discarded", "SET k 1", "MULTI;INCR k;DISCARD", done},
	} {
		for _, cmd := range strings.Split(tc.before, ";") {
			other.do(words(cmd)...)
		}
		c.want("+OK\r\n", "WATCH", "k", "k", "unrelated")
		for _, cmd := range strings.Split(tc.change, ";") {
			other.do(words(cmd)...)
		}
		if got := c.transact(words("PING")); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
		if got := c.transact(words("PING")); got != done {
			t.Errorf("%s: the watch outlived EXEC: %q", tc.name, got)
		}
		other.do("FLUSHALL")
	}
	// Its own change counts too; UNWATCH and DISCARD forget; an expired key is a change only if it expired since.
	c.do("WATCH", "k")
	c.do("SET", "k", "1")
	if got := c.transact(words("PING")); got != null {
		t.Errorf("own change: %q", got)
	}
	c.do("WATCH", "k")
	c.do("SET", "k", "2")
	c.want("+OK\r\n", "UNWATCH")
	if got := c.transact(words("PING")); got != done {
		t.Errorf("unwatch: %q", got)
	}
	c.do("WATCH", "k")
	c.do("MULTI")
	c.do("DISCARD")
	other.do("SET", "k", "3")
	if got := c.transact(words("PING")); got != done {
		t.Errorf("discard: %q", got)
	}
	c.do("SET", "k", "1", "PX", "1")
	c.do("WATCH", "k")
	for c.do("EXISTS", "k") == ":1\r\n" {
	}
	if got := c.transact(words("PING")); got != null && got != done { // it may have expired before WATCH
		t.Errorf("expiry: %q", got)
	}
}

// TestMultiIsOneBatch: with commits held back, all of a transaction's effects appear together, and its reply waits for them.
func TestMultiIsOneBatch(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}})
	c, eager := r.dial(), r.dial()
	go r.deliver()
	eager.want("+OK\r\n", "CVM.DURABILITY", "everysec")
	applied, _, _ := r.vol.Watermarks()
	c.do("MULTI")
	for i := range 50 {
		c.do("SET", fmt.Sprint("k", i), "v")
	}
	c.send(wire("EXEC"))
	go r.deliver()
	if got, want := c.reply(), "*50\r\n"+strings.Repeat("+OK\r\n", 50); got != want {
		t.Errorf("%q", got)
	}
	after, _, fresh := r.vol.Watermarks()
	if fresh < after || after-applied < 50 {
		t.Errorf("answered when %d of %d was committed (%d before)", fresh, after, applied)
	}
}

// TestMultiFetchesBeforeItsBatch: values that are on the device only are read while nothing is locked; and a value that only an
// earlier command of the same transaction makes necessary is read as well.
func TestMultiFetchesBeforeItsBatch(t *testing.T) {
	r := newRig(t, rigOptions{cacheBytes: -1})
	c := r.dial()
	big := strings.Repeat("b", 5000)
	for i := range 40 {
		c.do("SET", fmt.Sprint("k", i), fmt.Sprint(i, big))
	}
	cmds := [][]string{}
	want := "*84\r\n"
	for i := range 40 {
		val := fmt.Sprint(i, big)
		cmds = append(cmds, []string{"APPEND", fmt.Sprint("k", i), "!"}, []string{"GETRANGE", fmt.Sprint("k", i), "-3", "-1"})
		want += fmt.Sprintf(":%d\r\n$3\r\nbb!\r\n", len(val)+1)
	}
	// k41 is absent in the rehearsal, so nobody asks for it.
	cmds = append(cmds, words("RENAME k0 k41"), words("GETRANGE k41 0 2"), words("DEL k2"), words("RENAMENX k3 k2"))
	want += "+OK\r\n$3\r\n0bb\r\n:1\r\n:1\r\n"
	if got := c.transact(cmds...); got != want {
		t.Errorf("got %.3000q\nwant %.3000q", got, want)
	}
	c.want("$5\r\n3bbbb\r\n", "GETRANGE", "k2", "0", "4")
}

// TestMultiGrowsItsBatch: commands that need far more than in their rehearsal.
func TestMultiGrowsItsBatch(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	want := "*41\r\n:1001\r\n"
	cmds := [][]string{words("SETRANGE k 1000 x")}
	for i := range 40 {
		cmds = append(cmds, words("APPEND k y"))
		want += fmt.Sprintf(":%d\r\n", 1002+i)
	}
	if got := c.transact(cmds...); got != want {
		t.Errorf("%q", got)
	}
	c.want(":1041\r\n", "STRLEN", "k")
	// Several segments' worth (a segment has 64 blocks here): one batch all the same.
	val := strings.Repeat("v", 20_000)
	cmds, want = nil, "*40\r\n"
	for i := range 40 {
		cmds = append(cmds, []string{"SET", fmt.Sprint("big", i), val})
		want += "+OK\r\n"
	}
	if got := c.transact(cmds...); got != want {
		t.Errorf("%q", got)
	}
	for i := range 40 {
		c.want(":20000\r\n", "STRLEN", fmt.Sprint("big", i))
	}
}

// TestMultiThatCannotGrowFailsInPlace: the command that finds no room has changed nothing, the others stand.
func TestMultiThatCannotGrowFailsInPlace(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	cmds := [][]string{words("SETRANGE k 60000 x")}
	for range 40 {
		cmds = append(cmds, words("APPEND k y"))
	}
	got := c.transact(cmds...)
	ok, failed := strings.Count(got, "\r\n:"), strings.Count(got, "\r\n-ERR the values of this command are too large")
	if ok+failed != 41 || failed == 0 || ok < 2 {
		t.Fatalf("%d succeeded, %d failed: %q", ok, failed, got)
	}
	c.want(fmt.Sprintf(":%d\r\n", 60_000+ok), "STRLEN", "k")
}

func TestMultiWithoutParking(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 3 }})
	c := r.dial()
	got := c.transact(words("SET a 1"), words("CLIENT LIST"), words("WAIT 3 0"), words("INFO keyspace"), words("CVM.STATUS"), words("DBSIZE"), words("SCAN 0"), words("KEYS *"))
	if !strings.HasPrefix(got, "*8\r\n+OK\r\n$") || !strings.Contains(got, "multi=8") || !strings.HasSuffix(got, ":1\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n*1\r\n$1\r\na\r\n") {
		t.Errorf("%q", got)
	}
}
