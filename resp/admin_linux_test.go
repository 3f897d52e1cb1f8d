package resp

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// field returns the value of name= in a line of CLIENT LIST.
func field(line, name string) string {
	_, rest, _ := strings.Cut(line, name+"=")
	val, _, _ := strings.Cut(rest, " ")
	return val
}

func TestClientKill(t *testing.T) {
	for _, loops := range []int64{1, 3} {
		r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = loops }})
		c := r.dial()
		c.steps([]step{
			{"CLIENT KILL 000.123.321.567:0000", "-ERR No such client\r\n"},
			{"CLIENT KILL 127.0.0.1:", "-ERR No such client\r\n"},
			{"CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command\r\n"},
			{"CLIENT KILL ID 10 wrong", "-ERR syntax error\r\n"},
			{"CLIENT KILL ID str", "-ERR client-id should be greater than 0\r\n"},
			{"CLIENT KILL ID 0", "-ERR client-id should be greater than 0\r\n"},
			{"CLIENT KILL TYPE wrong_type", "-ERR Unknown client type 'wrong_type'\r\n"},
			{"CLIENT KILL USER wrong_user", "-ERR No such user 'wrong_user'\r\n"},
			{"CLIENT KILL SKIPME yes_or_no", "-ERR syntax error\r\n"},
			{"CLIENT KILL TYPE pubsub", ":0\r\n"},
		})
		victims := make([]*client, 4)
		for i := range victims {
			victims[i] = r.dial()
			victims[i].want("+PONG\r\n", "PING")
		}
		addr := victims[0].LocalAddr().String()
		c.want("+OK\r\n", "CLIENT", "KILL", addr)
		victims[0].closed()
		c.want(":1\r\n", "CLIENT", "KILL", "ID", field(victims[1].do("CLIENT", "INFO"), "id"))
		victims[1].closed()
		c.want(":2\r\n", "CLIENT", "KILL", "TYPE", "normal", "USER", "default")
		victims[2].closed()
		victims[3].closed()
		c.want(":1\r\n", "CLIENT", "KILL", "SKIPME", "no", "LADDR", r.srv.Addr().String())
		c.closed()
	}
}

func TestClientPauseHoldsWritesBack(t *testing.T) {
	for _, loops := range []int64{1, 2} {
		r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = loops }})
		c, d := r.dial(), r.dial()
		c.want("+OK\r\n", "CLIENT", "PAUSE", "100000", "WRITE")
		c.want("-ERR wrong number of arguments for 'set' command\r\n", "SET", "a")
		c.want("$-1\r\n", "GET", "a")
		d.send(wire("SET", "a", "1") + wire("GET", "a"))
		for !strings.Contains(c.do("INFO", "clients"), "blocked_clients:1\r") {
		}
		c.want("$-1\r\n", "GET", "a")
		c.want("+OK\r\n", "CLIENT", "UNPAUSE")
		for _, want := range []string{"+OK\r\n", bulk("1")} {
			if got := d.reply(); got != want {
				t.Errorf("after the pause: %q, want %q", got, want)
			}
		}
		c.want("+OK\r\n", "CLIENT", "PAUSE", "20")
		c.want("+PONG\r\n", "PING") // it ends by itself
		c.steps([]step{
			{"CLIENT PAUSE x", "-ERR timeout is not an integer or out of range\r\n"},
			{"CLIENT PAUSE -1", "-ERR timeout is negative\r\n"},
			{"CLIENT PAUSE 1 some", "-ERR syntax error\r\n"},
		})
	}
}

func TestClientUnblock(t *testing.T) {
	for _, loops := range []int64{1, 2} {
		r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = loops }})
		c, d := r.dial(), r.dial()
		id := field(d.do("CLIENT", "INFO"), "id")
		c.want(":0\r\n", "CLIENT", "UNBLOCK", id)
		for _, s := range []step{{"TIMEOUT", ":1\r\n"}, {"ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"}} {
			d.send(wire("WAIT", "2", "0"))
			for c.do("CLIENT", "UNBLOCK", id, s.cmd) == ":0\r\n" {
			}
			if got := d.reply(); got != s.reply {
				t.Errorf("%s: %q", s.cmd, got)
			}
		}
		c.want("-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n", "CLIENT", "UNBLOCK", id, "x")
	}
}

func TestCommandsAboutWhatIsNotThere(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.steps([]step{
		{"ROLE", "*3\r\n" + bulk("master") + ":0\r\n*0\r\n"},
		{"REPLICAOF NO ONE", "+OK\r\n"},
		{"SLAVEOF no one", "+OK\r\n"},
		{"SET a 1", "+OK\r\n"},
		{"SAVE", "+OK\r\n"},
		{"BGSAVE", "+Background saving started\r\n"},
		{"BGSAVE x", "-ERR syntax error\r\n"},
		{"BGREWRITEAOF", "+Background append only file rewriting started\r\n"},
		{"MODULE LIST", "*0\r\n"},
		{"FUNCTION LIST", "*0\r\n"},
		{"FUNCTION FLUSH", "+OK\r\n"},
		{"FUNCTION FLUSH now", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option\r\n"},
		{"CLUSTER SLOTS", "-ERR This instance has cluster support disabled\r\n"},
		{"CLUSTER INFO", "-ERR This instance has cluster support disabled\r\n"},
		{"CLIENT GETREDIR", ":-1\r\n"},
		{"CONFIG REWRITE", "-ERR The server is running without a config file\r\n"},
		{"COMMAND GETKEYSANDFLAGS set k v", "*1\r\n*2\r\n" + bulk("k") + "*2\r\n+OW\r\n+update\r\n"},
		{"COMMAND GETKEYSANDFLAGS set k v get", "*1\r\n*2\r\n" + bulk("k") + "*3\r\n+RW\r\n+access\r\n+update\r\n"},
		{"MEMORY USAGE none", "$-1\r\n"},
		{"MEMORY USAGE a", fmt.Sprintf(":%d\r\n", 64+2)},
		{"MEMORY PURGE", "+OK\r\n"},
	})
	for _, s := range []step{
		{"REPLICAOF localhost 6379", "-ERR this server cannot be a replica"},
		{"MEMORY DOCTOR", "$"},
		{"MEMORY STATS", "*18\r\n"},
		{"MEMORY MALLOC-STATS", "$"},
		{"DEBUG SLEEP 0", "-ERR DEBUG command not allowed."},
		{"LASTSAVE", ":17"},
		{"LATENCY HELP", "*"},
		{"CLIENT HELP", "*"},
	} {
		if got := c.do(strings.Fields(s.cmd)...); !strings.HasPrefix(got, s.reply) && s.cmd != "LASTSAVE" {
			t.Errorf("%s: %q", s.cmd, got)
		}
	}
}

func TestDebugForLocalClients(t *testing.T) {
	c := newRig(t, rigOptions{config: func(c *Config) { c.DebugCommand = "local" }}).dial()
	c.steps([]step{
		{"SET a 12", "+OK\r\n"},
		{"DEBUG OBJECT a", "+Value at:0x0 refcount:2147483647 encoding:int serializedlength:3 lru:0 lru_seconds_idle:0\r\n"},
		{"DEBUG OBJECT b", "-ERR no such key\r\n"},
		{"DEBUG STRINGMATCH-LEN 10 a*a", ":1\r\n"},
		{"DEBUG STRINGMATCH-LEN 10 b*", ":0\r\n"},
		{"DEBUG LOG hello", "+OK\r\n"},
		{"DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n"},
		{"DEBUG JMAP", "-ERR unknown subcommand 'JMAP'. Try DEBUG HELP.\r\n"},
	})
}

func TestSaveCountsTheChangesSince(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	changes := func(want string) {
		t.Helper()
		if got := c.do("INFO", "persistence"); !strings.Contains(got, "rdb_changes_since_last_save:"+want+"\r\n") {
			t.Errorf("want %s changes: %q", want, got)
		}
	}
	changes("0")
	c.want("+OK\r\n", "SET", "a", "1")
	changes("1")
	c.want(":0\r\n", "SETBIT", "b", "1", "1")
	c.want("*1\r\n:64\r\n", "BITFIELD", "b", "SET", "u8", "0", "255")
	changes("3")
	c.want("+OK\r\n", "SAVE")
	changes("0")
}

func TestParametersWithoutEffectAreKept(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	const failed = "-ERR CONFIG SET failed (possibly related to argument "
	c.want("+OK\r\n", "CONFIG", "SET", "save", "3000 5", "repl-backlog-size", "2mb")
	c.want("*2\r\n"+bulk("save")+bulk("3000 5"), "CONFIG", "GET", "save")
	c.want("*2\r\n"+bulk("repl-backlog-size")+bulk("2097152"), "CONFIG", "GET", "repl-backlog-size")
	c.want(failed+"'maxmemory-clients') - percentage argument must be less or equal to 100\r\n", "CONFIG", "SET", "maxmemory-clients", "101%")
	c.want(failed+"'save') - Invalid save parameters\r\n", "CONFIG", "SET", "save", "3000")
	c.want(failed+"'daemonize') - can't set immutable config\r\n", "CONFIG", "SET", "daemonize", "yes")
	c.want("*2\r\n"+bulk("key-load-delay")+bulk("0"), "CONFIG", "GET", "key-load-delay")
	c.want("*0\r\n", "CONFIG", "GET", "key-load-*")
	c.want("+OK\r\n", "CONFIG", "SET", "save", "")
	c.want("*2\r\n"+bulk("save")+bulk(""), "CONFIG", "GET", "save")
}

func TestMaxMemoryRefusesWhatNeedsMemory(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.steps([]step{
		{"SET a 1", "+OK\r\n"},
		{"CONFIG SET maxmemory 1", "+OK\r\n"},
		{"SET a 2", "-OOM command not allowed when used memory > 'maxmemory'.\r\n"},
		{"GET a", bulk("1")},
		{"DEL a", ":1\r\n"},
		{"CONFIG SET maxmemory 100gb", "+OK\r\n"},
		{"SET a 2", "+OK\r\n"},
	})
	if got := c.do("INFO", "memory"); !strings.Contains(got, "maxmemory:107374182400\r\n") || !strings.Contains(got, "maxmemory_human:100.00G\r\n") {
		t.Errorf("INFO memory: %q", got)
	}
	if got := c.do("INFO", "errorstats"); !strings.Contains(got, "errorstat_OOM:count=1\r\n") {
		t.Errorf("INFO errorstats: %q", got)
	}
}

func TestOutputLimitsHaveRedisSyntax(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	shown := "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
	c.want("+OK\r\n", "CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")
	c.want("*2\r\n"+bulk("client-output-buffer-limit")+bulk(shown), "CONFIG", "GET", "client-output-buffer-limit")
	c.want("+OK\r\n", "CONFIG", "SET", "client-output-buffer-limit", "replica 1mb 2kb 3 normal 40000 5000 6")
	c.want("*2\r\n"+bulk("client-output-buffer-limit")+bulk("normal 40000 5000 6 slave 1048576 2048 3 pubsub 33554432 8388608 60"), "CONFIG", "GET", "client-output-buffer-limit")
	const failed = "-ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - "
	c.want(failed+"Wrong number of arguments in buffer limit configuration.\r\n", "CONFIG", "SET", "client-output-buffer-limit", "normal 1 2")
	c.want(failed+"Invalid client class specified in buffer limit configuration.\r\n", "CONFIG", "SET", "client-output-buffer-limit", "wrong 1 2 3")
	c.want(failed+"Error in hard, soft or soft_seconds setting in buffer limit configuration.\r\n", "CONFIG", "SET", "client-output-buffer-limit", "normal 1 2 x")
}

func TestTheSoftLimitClosesAClientAfterItsTime(t *testing.T) {
	var since int64
	o := outputLimit{hard: 100, soft: 10, seconds: 2}
	const second = int64(1e9)
	for _, s := range []struct {
		n, now int64
		want   bool
	}{{5, second, false}, {50, 2 * second, false}, {50, 3 * second, false}, {5, 4 * second, false}, {50, 5 * second, false}, {50, 8 * second, true}, {101, 9 * second, true}} {
		if got := o.exceeded(s.n, s.now, &since); got != s.want {
			t.Errorf("%d bytes at %d: %v", s.n, s.now, got)
		}
	}
}

func TestEveryHandshakeOfTodaysClients(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, upper := range []bool{false, true} {
		c := r.dial()
		var raw strings.Builder
		commands := []string{
			"hello 3 setname n", "client setinfo lib-name redis-py", "client setinfo LIB-VER 8.0.0",
			"client maint_notifications on moving-endpoint-type internal-ip", "select 1", "info", "command docs get", "cluster slots",
			"config get save", "config get appendonly", "client id",
		}
		for _, s := range commands {
			args := strings.Fields(s)
			if upper {
				args[0] = strings.ToUpper(args[0])
			}
			raw.WriteString(wire(args...))
		}
		c.send(raw.String()) // in one packet
		for i, want := range []string{"%7", "+OK", "+OK", "-ERR unknown subcommand 'maint_notifications'", "+OK", "=", "%1", "-ERR This instance has cluster support disabled", "%1", "%1", ":"} {
			if got := c.reply(); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q", commands[i], got)
			}
		}
		c.send("echo \"\\x00\\x01\xff\"\r\n")
		if got := c.reply(); got != bulk("\x00\x01\xff") {
			t.Errorf("inline echo: %q", got)
		}
	}
	if _, err := exec.LookPath("redis-benchmark"); err == nil {
		_, port, _ := strings.Cut(r.srv.Addr().String(), ":")
		out, err := exec.Command("redis-benchmark", "-p", port, "-n", "1000", "-q", "-t", "ping,set,get,incr,mset").CombinedOutput()
		if err != nil || strings.Contains(string(out), "rror") {
			t.Errorf("redis-benchmark: %v %s", err, out)
		}
	}
}
