package resp

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// step is a command as typed and the reply as it comes.
type step struct{ cmd, reply string }

func (c *client) steps(steps []step) {
	c.t.Helper()
	for _, s := range steps {
		c.want(s.reply, strings.Fields(s.cmd)...)
	}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func TestStringCommandsAnswerAsRedis(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.steps([]step{
		{"GET a", "$-1\r\n"},
		{"SET a 1", "+OK\r\n"},
		{"get a", bulk("1")},
		{"SET a 2 NX", "$-1\r\n"},
		{"SET a 2 XX GET", bulk("1")},
		{"SET b 2 XX", "$-1\r\n"},
		{"SET b 2 GET", "$-1\r\n"},
		{"SET a 2 NX XX", "-ERR syntax error\r\n"},
		{"SET a 2 EX 10 PX 10", "-ERR syntax error\r\n"},
		{"SET a 2 EX 10 KEEPTTL", "-ERR syntax error\r\n"},
		{"SET a 2 EX", "-ERR syntax error\r\n"},
		{"SET a 2 EX 0", "-ERR invalid expire time in 'set' command\r\n"},
		{"SET a 2 PX -1", "-ERR invalid expire time in 'set' command\r\n"},
		{"SET a 2 EX 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n"},
		{"SET a 2 EX x", "-ERR value is not an integer or out of range\r\n"},
		{"SET a 2 EX 100", "+OK\r\n"},
		{"TTL a", ":100\r\n"},
		{"SET a 3 KEEPTTL", "+OK\r\n"},
		{"TTL a", ":100\r\n"},
		{"SET a 3", "+OK\r\n"},
		{"TTL a", ":-1\r\n"},
		{"SETNX a 1", ":0\r\n"},
		{"SETNX c 1", ":1\r\n"},
		{"SETEX c 0 v", "-ERR invalid expire time in 'setex' command\r\n"},
		{"PSETEX c 0 v", "-ERR invalid expire time in 'psetex' command\r\n"},
		{"SETEX c 50 v", "+OK\r\n"},
		{"PSETEX c 50000 v", "+OK\r\n"},
		{"TTL c", ":50\r\n"},
		{"MSET k1 v1 k2 v2", "+OK\r\n"},
		{"MSET k1 v1 k2", "-ERR wrong number of arguments for 'mset' command\r\n"},
		{"MGET k1 none k2", "*3\r\n" + bulk("v1") + "$-1\r\n" + bulk("v2")},
		{"MSETNX k1 x k9 y", ":0\r\n"},
		{"MSETNX k8 x k9 y", ":1\r\n"},
		{"GETDEL k9", bulk("y")},
		{"GETDEL k9", "$-1\r\n"},
		{"GETEX k8 EX 100", bulk("x")},
		{"TTL k8", ":100\r\n"},
		{"GETEX k8 PERSIST", bulk("x")},
		{"TTL k8", ":-1\r\n"},
		{"GETEX k8 EX 0", "-ERR invalid expire time in 'getex' command\r\n"},
		{"GETEX k8 FOO", "-ERR syntax error\r\n"},
		{"GETSET k8 z", bulk("x")},
		{"STRLEN k8", ":1\r\n"},
		{"APPEND k8 zz", ":3\r\n"},
		{"GETRANGE k8 0 -2", bulk("zz")},
		{"SET n 10", "+OK\r\n"},
		{"INCR n", ":11\r\n"},
		{"DECR n", ":10\r\n"},
		{"INCRBY n 5", ":15\r\n"},
		{"DECRBY n 20", ":-5\r\n"},
		{"DECRBY n -9223372036854775808", "-ERR decrement would overflow\r\n"},
		{"INCRBY n x", "-ERR value is not an integer or out of range\r\n"},
		{"INCR k8", "-ERR value is not an integer or out of range\r\n"},
		{"SET n 9223372036854775807", "+OK\r\n"},
		{"INCR n", "-ERR increment or decrement would overflow\r\n"},
	})
}

func TestGenericCommandsAnswerAsRedis(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.steps([]step{
		{"SET a 1", "+OK\r\n"},
		{"EXISTS a a b", ":2\r\n"},
		{"TYPE a", "+string\r\n"},
		{"TYPE b", "+none\r\n"},
		{"TTL b", ":-2\r\n"},
		{"EXPIRE a 100", ":1\r\n"},
		{"EXPIRE b 100", ":0\r\n"},
		{"EXPIRE a 100 NX", ":0\r\n"},
		{"EXPIRE a 200 GT", ":1\r\n"},
		{"EXPIRE a 100 GT", ":0\r\n"},
		{"EXPIRE a 100 LT", ":1\r\n"},
		{"EXPIRE a 1 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"},
		{"EXPIRE a 1 GT LT", "-ERR GT and LT options at the same time are not compatible\r\n"},
		{"EXPIRE a 1 AB", "-ERR Unsupported option AB\r\n"},
		{"EXPIRE a x", "-ERR value is not an integer or out of range\r\n"},
		{"EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n"},
		{"PEXPIRE a 9223372036854775807", "-ERR invalid expire time in 'pexpire' command\r\n"},
		{"TTL a", ":100\r\n"},
		{"PERSIST a", ":1\r\n"},
		{"PERSIST a", ":0\r\n"},
		{"PEXPIREAT a 99999999999000", ":1\r\n"},
		{"EXPIRETIME a", ":99999999999\r\n"},
		{"PEXPIRETIME a", ":99999999999000\r\n"},
		{"EXPIRE a -1", ":1\r\n"},
		{"GET a", "$-1\r\n"},
		{"SET a 1", "+OK\r\n"},
		{"DBSIZE", ":1\r\n"},
		{"RANDOMKEY", bulk("a")},
		{"KEYS *", "*1\r\n" + bulk("a")},
		{"KEYS b*", "*0\r\n"},
		{"SCAN 0", "*2\r\n" + bulk("0") + "*1\r\n" + bulk("a")},
		{"SCAN 0 MATCH b TYPE string COUNT 5", "*2\r\n" + bulk("0") + "*0\r\n"},
		{"SCAN x", "-ERR invalid cursor\r\n"},
		{"SCAN 0 COUNT 0", "-ERR syntax error\r\n"},
		{"SCAN 0 COUNT", "-ERR syntax error\r\n"},
		{"DEL a b", ":1\r\n"},
		{"UNLINK a", ":0\r\n"},
		{"SELECT 1", "+OK\r\n"},
		{"SET x 1", "+OK\r\n"},
		{"SELECT 99", "-ERR DB index is out of range\r\n"},
		{"SELECT x", "-ERR value is not an integer or out of range\r\n"},
		{"FLUSHDB FOO", "-ERR syntax error\r\n"},
		{"FLUSHDB ASYNC", "+OK\r\n"},
		{"EXISTS x", ":0\r\n"},
		{"FLUSHALL", "+OK\r\n"},
		{"DBSIZE", ":0\r\n"},
	})
}

func TestErrorsAndConnectionCommandsAnswerAsRedis(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.steps([]step{
		{"PING", "+PONG\r\n"},
		{"PING hi", bulk("hi")},
		{"PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"},
		{"ECHO hi", bulk("hi")},
		{"FOO a b", "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' \r\n"},
		{"foo", "-ERR unknown command 'foo', with args beginning with: \r\n"},
		{"GET", "-ERR wrong number of arguments for 'get' command\r\n"},
		{"GeT a b", "-ERR wrong number of arguments for 'get' command\r\n"},
		{"CLIENT", "-ERR wrong number of arguments for 'client' command\r\n"},
		{"CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.\r\n"},
		{"CONFIG GET", "-ERR wrong number of arguments for 'config|get' command\r\n"},
		{"CLIENT GETNAME", "$-1\r\n"},
		{"CLIENT SETNAME me", "+OK\r\n"},
		{"CLIENT GETNAME", bulk("me")},
		{"CLIENT SETINFO LIB-NAME lib", "+OK\r\n"},
		{"CLIENT SETINFO lib-foo lib", "-ERR Unrecognized option 'lib-foo'\r\n"},
		{"CLIENT NO-EVICT on", "+OK\r\n"},
		{"CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n"},
		{"AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n"},
		{"AUTH default x", "+OK\r\n"},
		{"HELLO 4", "-NOPROTO unsupported protocol version\r\n"},
		{"HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"},
		{"HELLO 3 FOO", "-ERR Syntax error in HELLO option 'FOO'\r\n"},
		{"CONFIG GET save", "*2\r\n" + bulk("save") + bulk("")},
		{"CONFIG GET append*ly", "*2\r\n" + bulk("appendonly") + bulk("yes")},
		{"CONFIG SET maxclients 500", "+OK\r\n"},
		{"CONFIG GET maxclients", "*2\r\n" + bulk("maxclients") + bulk("500")},
		{"CONFIG SET maxclients x", "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer\r\n"},
		{"CONFIG SET databases 1", "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config\r\n"},
		{"CONFIG SET foo 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'\r\n"},
		{"COMMAND GETKEYS mset a 1 b 2", "*2\r\n" + bulk("a") + bulk("b")},
		{"COMMAND GETKEYS ping", "-ERR The command has no key arguments\r\n"},
		{"COMMAND INFO nosuch", "*1\r\n*-1\r\n"},
		{"CVM.DURABILITY", bulk("fresh")},
		{"CVM.DURABILITY durable", "+OK\r\n"},
		{"CVM.DURABILITY", bulk("durable")},
		{"CVM.DURABILITY never", "-ERR unknown durability level: choose fresh, durable or everysec\r\n"},
		{"WAIT 1 0", ":1\r\n"},
		{"WAITAOF 1 0 0", "*2\r\n:1\r\n:1\r\n"},
		{"WAIT x 0", "-ERR value is not an integer or out of range\r\n"},
		{"WAIT 1 -1", "-ERR timeout is negative\r\n"},
		{"RESET", "+RESET\r\n"},
		{"QUIT", "+OK\r\n"},
	})
	c.closed()
}

func TestRESP3(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	hello := c.do("HELLO", "3", "SETNAME", "me")
	if !strings.HasPrefix(hello, "%7\r\n$6\r\nserver\r\n") || !strings.Contains(hello, "proto\r\n:3\r\n") {
		t.Fatalf("HELLO 3: %q", hello)
	}
	c.want("_\r\n", "GET", "none")
	c.want("%1\r\n"+bulk("port")+bulk("-1"), "CONFIG", "GET", "port")
	if got := c.do("INFO", "server"); !strings.HasPrefix(got, "=") || !strings.Contains(got, "txt:# Server\r\n") {
		t.Errorf("INFO: %q", got)
	}
	if got := c.do("CVM.STATUS"); !strings.HasPrefix(got, "%") {
		t.Errorf("CVM.STATUS: %q", got)
	}
	if got := c.do("COMMAND", "INFO", "get"); !strings.Contains(got, "~2\r\n+readonly\r\n+fast\r\n") {
		t.Errorf("COMMAND INFO: %q", got)
	}
	if got := c.do("COMMAND", "DOCS", "config"); !strings.Contains(got, "config|get") {
		t.Errorf("COMMAND DOCS: %q", got)
	}
}

func TestAuthentication(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.RequirePass = "secret" }})
	c := r.dial()
	c.steps([]step{
		{"GET a", "-NOAUTH Authentication required.\r\n"},
		{"FOO", "-ERR unknown command 'FOO', with args beginning with: \r\n"},
		{"AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"AUTH other secret", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"PING", "-NOAUTH Authentication required.\r\n"},
		{"AUTH secret", "+OK\r\n"},
		{"PING", "+PONG\r\n"},
		{"RESET", "+RESET\r\n"},
		{"PING", "-NOAUTH Authentication required.\r\n"},
	})
	if got := c.do("HELLO", "3"); !strings.HasPrefix(got, "-NOAUTH HELLO must be called") {
		t.Errorf("HELLO 3: %q", got)
	}
	if got := c.do("hello", "3", "auth", "default", "secret", "setname", "n"); !strings.HasPrefix(got, "%7") {
		t.Errorf("HELLO 3 AUTH: %q", got)
	}
	d := r.dial()
	d.send("*11\r\n")
	if got := d.closed(); got != "-ERR Protocol error: unauthenticated multibulk length\r\n" {
		t.Errorf("too many arguments before login: %q", got)
	}
	d = r.dial()
	d.send("*1\r\n$16385\r\n")
	if got := d.closed(); got != "-ERR Protocol error: unauthenticated bulk length\r\n" {
		t.Errorf("too large an argument before login: %q", got)
	}
}

func TestInfoHasWhatExportersRead(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.want("+OK\r\n", "SET", "a", "1", "EX", "100")
	info := c.do("INFO", "everything")
	for _, field := range []string{
		"redis_version:", "tcp_port:", "uptime_in_seconds:", "connected_clients:1", "blocked_clients:0", "used_memory:", "used_memory_rss:",
		"maxmemory:0", "loading:0", "rdb_last_save_time:", "aof_enabled:1", "total_commands_processed:", "instantaneous_ops_per_sec:",
		"keyspace_hits:", "expired_keys:", "role:master", "connected_slaves:0", "used_cpu_sys:", "cluster_enabled:0",
		"db0:keys=1,expires=1,avg_ttl=", "generation:1", "default_level:fresh", "cmdstat_set:calls=1,",
	} {
		if !strings.Contains(info, "\n"+field) {
			t.Errorf("INFO lacks %s", field)
		}
	}
}

func TestRedisCLI(t *testing.T) {
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed")
	}
	r := newRig(t, rigOptions{})
	_, port, _ := strings.Cut(r.srv.Addr().String(), ":")
	cli := func(args ...string) string {
		out, err := exec.Command(path, append([]string{"-p", port}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, s := range []step{
		{"SET a hello", "OK"},
		{"GET a", "hello"},
		{"-3 GET a", "hello"},
		{"EXPIRE a 100", "1"},
		{"NOSUCH x", "ERR unknown command 'NOSUCH', with args beginning with: 'x'"},
		{"GET", "ERR wrong number of arguments for 'get' command"},
	} {
		if got := cli(strings.Fields(s.cmd)...); got != s.reply {
			t.Errorf("redis-cli %s: got %q, want %q", s.cmd, got, s.reply)
		}
	}
	cmd := exec.Command(path, "-p", port, "--pipe")
	cmd.Stdin = strings.NewReader(strings.Repeat(wire("SET", "p", "1"), 1000))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "errors: 0, replies: 1000") {
		t.Errorf("redis-cli --pipe: %v %s", err, out)
	}
}
