package resp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

const incrementMany = "for i = 1, tonumber(ARGV[1]) do redis.call('incr', KEYS[1]) end return redis.call('get', KEYS[1])"

// TestScriptReadsValuesFromTheDevice: cold values are fetched before the first change and after it, small ones and blobs.
func TestScriptReadsValuesFromTheDevice(t *testing.T) {
	for _, blobs := range []bool{false, true} {
		t.Run(fmt.Sprintf("blobs=%v", blobs), func(t *testing.T) {
			r := newRig(t, rigOptions{cacheBytes: -1, blobs: blobs, config: func(c *Config) { c.DebugCommand = "yes" }})
			c := r.dial()
			var keys []string
			for i := range 20 {
				k := fmt.Sprintf("cold%d", i)
				keys = append(keys, k)
				c.want("+OK\r\n", "SET", k, strings.Repeat(fmt.Sprint(i%10), 300))
			}
			c.want("+OK\r\n", "DEBUG", "RELOAD")
			read := "local n = 0 for _, k in ipairs(KEYS) do n = n + #redis.call('get', k) end "
			args := append([]string{"EVAL", read + "return n", "20"}, keys...)
			c.want(":6000\r\n", args...)
			c.want("+OK\r\n", "DEBUG", "RELOAD")
			args[1] = "redis.call('set', 'first', 1) " + read + "redis.call('append', KEYS[1], 'x') return n"
			c.want(":6000\r\n", args...)
			c.want(":301\r\n", "STRLEN", keys[0])
			c.want("+OK\r\n", "DEBUG", "RELOAD")
		})
	}
}

// TestScriptIsOneBatch: what a script changed is there whole or not at all, also when it fails in the middle (whole, as in Redis).
func TestScriptIsOneBatch(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.DebugCommand = "yes" }})
	c := r.dial()
	before, _, _ := r.vol.Watermarks()
	c.want("$4\r\n2000\r\n", "EVAL", incrementMany, "1", "n", "2000")
	after, _, _ := r.vol.Watermarks()
	if after-before < 2000 {
		t.Fatalf("%d changes of 2000", after-before)
	}
	r = newRig(t, rigOptions{config: func(c *Config) { c.DebugCommand = "yes" }}) // whose volume nobody has looked at before it is opened again
	c = r.dial()
	c.want("$4\r\n2000\r\n", "EVAL", incrementMany, "1", "n", "2000")
	if got := c.do("EVAL", "redis.call('set','half',1) redis.call('nosuch')", "0"); !strings.HasPrefix(got, "-ERR Unknown Redis command called from script script: ") {
		t.Errorf("%q", got)
	}
	c.want("$1\r\n1\r\n", "GET", "half")
	c.want("+OK\r\n", "DEBUG", "RELOAD")
	c.want("$4\r\n2000\r\n", "GET", "n")
	c.want("$1\r\n1\r\n", "GET", "half")
}

// TestScriptWithinMulti: it runs in its place, and publishes when all is known.
func TestScriptWithinMulti(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.DebugCommand = "yes" }})
	c := r.dial()
	got := c.transact(words("SET n 5"), []string{"EVAL", "return redis.call('incr', KEYS[1])", "1", "n"}, words("INCR n"),
		[]string{"EVAL", "return redis.pcall('lpush', KEYS[1], 'x')", "1", "n"})
	want := "*4\r\n+OK\r\n:6\r\n:7\r\n-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	if got != want {
		t.Errorf("%q", got)
	}
	c.want("+OK\r\n", "WATCH", "n")
	c.want(":8\r\n", "EVAL", "return redis.call('incr', KEYS[1])", "1", "n")
	c.want("+OK\r\n", "MULTI")
	c.want(queuedReply, "PING")
	c.want("*-1\r\n", "EXEC")
}

// TestFunctionsComeBack: libraries are part of the volume; FLUSHALL leaves them alone, and compaction too.
func TestFunctionsComeBack(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.DebugCommand = "yes" }})
	c := r.dial()
	code := "#!lua name=%s\nlocal calls = 0\nredis.register_function('%s', function(keys, args) calls = calls + 1 return {calls, keys[1], args[1]} end)"
	for i := range 30 {
		name := fmt.Sprintf("lib%d", i)
		c.want(bulk(name), "FUNCTION", "LOAD", fmt.Sprintf(code, name, "f"+name)+strings.Repeat("-- long\n", 500))
	}
	c.want("+OK\r\n", "FUNCTION", "DELETE", "lib7")
	c.want("+OK\r\n", "FLUSHALL")
	for range 2 {
		c.want("+OK\r\n", "DEBUG", "RELOAD")
		c.want("*3\r\n:1\r\n$1\r\nk\r\n$1\r\na\r\n", "FCALL", "flib3", "1", "k", "a")
		c.want("-ERR Function not found\r\n", "FCALL", "flib7", "0")
		if got := c.do("FUNCTION", "STATS"); !strings.Contains(got, "libraries_count\r\n:29\r\n") {
			t.Errorf("%q", got)
		}
	}
	c.want("+OK\r\n", "MULTI")
	c.want(queuedReply, "FUNCTION", "FLUSH")
	c.want(queuedReply, "FCALL", "flib3", "0")
	c.want("*2\r\n+OK\r\n-ERR Function not found\r\n", "EXEC")
	c.want("+OK\r\n", "DEBUG", "RELOAD")
	c.want("*0\r\n", "FUNCTION", "LIST")
}

// TestBusyScript: while a script runs for long, on whichever loop, every client is answered, and may end it.
func TestBusyScript(t *testing.T) {
	for _, loops := range []int64{1, 3} {
		t.Run(fmt.Sprintf("loops=%d", loops), func(t *testing.T) {
			r := newRig(t, rigOptions{config: func(c *Config) { c.Loops, c.LuaTimeLimit = loops, 5 }})
			busy, others := r.dial(), []*client{r.dial(), r.dial(), r.dial()}
			for _, c := range others {
				c.want("+PONG\r\n", "PING")
			}
			for round := range 3 {
				busy.send(wire("EVAL", "while true do pcall(redis.call, 'ping') end", "0"))
				for _, c := range others {
					c.until(func(got string) bool { return strings.HasPrefix(got, "-BUSY ") }, "GET", "x")
				}
				if got := others[0].do("FUNCTION", "KILL"); !strings.HasPrefix(got, "-BUSY ") {
					t.Errorf("%q", got)
				}
				others[round].want("+OK\r\n", "SCRIPT", "KILL")
				if got := busy.reply(); !strings.Contains(got, "Script killed by user") {
					t.Errorf("%q", got)
				}
				for _, c := range others {
					c.want("$-1\r\n", "GET", "x")
				}
				busy.want("+PONG\r\n", "PING")
			}
			if got := others[0].do("SCRIPT", "KILL"); !strings.HasPrefix(got, "-NOTBUSY ") {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestStopDuringAScriptThatHasWritten: nothing of it is on the volume afterwards.
func TestStopDuringAScriptThatHasWritten(t *testing.T) {
	r := newRig(t, rigOptions{keep: true, config: func(c *Config) { c.LuaTimeLimit = 5 }})
	c, other := r.dial(), r.dial()
	c.want("+OK\r\n", "SET", "before", "1")
	c.send(wire("EVAL", "redis.call('set', 'half', 1) while true do end", "0"))
	other.until(func(got string) bool { return strings.HasPrefix(got, "-BUSY ") }, "GET", "x")
	if got := other.do("SCRIPT", "KILL"); !strings.HasPrefix(got, "-UNKILLABLE ") {
		t.Errorf("%q", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if r.vol.Err() == nil {
		t.Error("the volume goes on")
	}
	_ = r.vol.Close(ctx)
	v, err := volume.Open(ctx, r.options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = v.Close(ctx) }()
	r.space.Attach(v)
	var tx keyspace.Tx
	r.space.BeginAll(&tx, 0)
	defer tx.End()
	for key, there := range map[string]bool{"before": true, "half": false} {
		if it, err := tx.Find([]byte(key)); err != nil || it.Exists() != there {
			t.Errorf("%s: %v %v", key, it, err)
		}
	}
}

// TestScriptMemoryIsBounded: whatever a script does, it holds no more than it may, and the server goes on.
func TestScriptMemoryIsBounded(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.LuaMemory = 1 << 20 }})
	c := r.dial()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	for _, body := range []string{
		"local s = 'x' while true do s = s .. s end",
		"local t = {} for i = 1, 1e9 do t[i] = tostring(i) end",
		"return string.rep('x', 1e12)",
		"local t = {string.rep('x', 1e6)} for i = 1, 14 do t = {t, t, t, t, t, t} end return cmsgpack.pack(t)",
		"return string.format(string.rep('%99d', 1e6), 1)",
		"local function f() return f() + 1 end return f()",
		"return loadstring(string.rep('(', 1e6) .. '1' .. string.rep(')', 1e6))()",
	} {
		if got := c.do("EVAL", body, "0"); got[0] != '-' {
			t.Errorf("%s: %.80q", body, got)
		}
	}
	c.want("+PONG\r\n", "PING")
}

// until sends a command again and again until the reply is the one that is waited for.
func (c *client) until(is func(string) bool, args ...string) {
	c.t.Helper()
	for range 1000000 {
		if is(c.do(args...)) {
			return
		}
	}
	c.t.Fatalf("%q: never answered so", args)
}
