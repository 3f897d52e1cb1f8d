package difftest

import (
	"regexp"
	"strings"
	"testing"
)

// aclRules are arguments of ACL SETUSER u, one after the other, for the same user unless a line begins with "reset".
var aclRules = strings.Split(strings.TrimSpace(`
on
off
on >secret
>secret
>other
<other
<nosuch
#30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4
!30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4
!30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4
#zz
#30C952FAB122C3F9759F02A6D95C3758B246B4FEE239957B2D4FEE46E26170C4
!zz
nopass
>again
resetpass
reset
reset on nopass +@all ~* &*
+@all
-@all
allcommands
nocommands
+get
+get +set
-get
+GET
+@read
-@write
+@read -get
-get +@read
+@all -@dangerous
+@string -set +set
+@nosuch
-@nosuch
+nosuch
-nosuch
+config
+config|get
-config|get
+config -config|get
+config|get +config
+config|nosuch
+config|get|x
+select|0
+select|0 +select|1
+select|0 -select
+select +select|1
-select|0
+get|
+client|id +client|list -client
+|
+
-
~*
allkeys
resetkeys
~a
~a*
~a* ~b*
~a* ~a*
~*a
resetkeys ~a %R~a
resetkeys %R~a
resetkeys %R~a %W~a
resetkeys %W~a
resetkeys %RW~a
resetkeys %WR~a
resetkeys %rw~a
resetkeys %RR~a
resetkeys %X~a
resetkeys %~a
resetkeys %
~* ~x
%R~x
resetkeys ~
~x y
&*
allchannels
&x
resetchannels
&a
&a* &b*
&a &a
&a b
&
&* &x
(+get ~x)
(+get ~x) (+set ~y)
(+get
(+get ~x
+get ~x)
()
(on)
(>pw)
(+@read %R~r* &c)
(+nosuch)
clearselectors
((+get))
reset ~a* +@all -flushall -flushdb &ch:*
reset on >p ~app:* &app:* +@read +@write -@dangerous +ping
reset on nopass %R~ro:* %W~wo:* +@all
reset on +@all -@admin +acl|whoami
reset -@all +@fast -get
reset +@all -get -set -get
reset +@hash -hset +hset|x
reset +@scripting +@pubsub +@transaction
skip-sanitize-payload
foo
ON
OFF
Reset
ALLKEYS
RESETKEYS
AllChannels
resetPass
-@all +@connection
+@keyspace
-@slow
+@all +get
+@all -get +get
reset +multi +exec
reset +set +set|a
reset +set|a +set
`), "\n")

// aclUsers are what a user of these rules tries to do.
var aclUsers = []string{
	"on nopass +@all ~* &*",
	"on nopass +@read ~*",
	"on nopass +@write ~w*",
	"on nopass +get +set +mget +mset +ping ~a* ~b?",
	"on nopass +@all %R~ro* %W~wo* ~rw*",
	"on nopass +config|get +client|id +select|1",
	"on nopass +@all -config|set ~*",
	"on nopass +@pubsub &news.* &exact",
	"on nopass +get ~x (+set ~y) (+publish &z)",
	"on nopass +@all -@dangerous ~*",
	"on nopass +eval +get +set ~k*",
	"on nopass",
	"on nopass +@all -@scripting -multi ~*",
	"on nopass +@all ~a*",
	"on nopass +@all %R~* ~w*",
	"on nopass +@all (+@all ~*)",
	"on nopass +@all -@sortedset -@geo -@transaction ~*",
	"on nopass +@list +@transaction +@read ~*",
}

var aclCommands = strings.Split(strings.TrimSpace(`
PING
GET a1
GET x
GET ro1
GET wo1
SET ro1 v
SET wo1 v
SET a1 v
SET y v
SET w1 v
SET rw1 v GET
MGET a1 a2 ro1
MSET a1 v bx v
MSET a1 v zz v
DEL a1
DEL wo1
EXISTS ro1
EXISTS wo1
COPY ro1 wo2
COPY wo1 ro2
RENAME rw1 rw2
APPEND wo1 x
INCR rw9
HSET w9 f v
LPUSH wl 1
SADD ws 1
ZADD wz 1 m
ZUNIONSTORE wo9 1 ro9
KEYS *
SCAN 0
RANDOMKEY
DBSIZE
FLUSHALL
CONFIG GET maxmemory
CONFIG SET maxmemory 0
CLIENT ID
CLIENT GETNAME
SELECT 0
SELECT 1
ACL WHOAMI
ACL USERS
PUBLISH news.a m
PUBLISH exact m
PUBLISH z m
PUBLISH other m
SPUBLISH news.a m
COMMAND COUNT
EVAL return\ redis.call('get',KEYS[1]) 1 k1
EVAL return\ redis.call('get','zz') 1 k1
EVAL return\ redis.call('del',KEYS[1]) 1 k1
EVAL return\ 1 1 zz
MULTI
DISCARD
NOSUCH
GET
SORT a1
SORT a1 BY x_* GET #
SORT a1 BY nosort GET y_*
SORT ro1 STORE wo1
SORT wo1
GEOADD w1 1 1 m
GEORADIUS ro1 1 1 1 m STORE wo1
GEORADIUS ro1 1 1 1 m STORE ro2
TYPE a1
OBJECT ENCODING a1
TTL ro1
EXPIRE wo1 100
ECHO x
TIME
INFO server
`), "\n")

var userWord = regexp.MustCompile(`(?i)(this user|user [a-z]+) has no permissions`)

var (
	lengths      = regexp.MustCompile(`[$*~%]\d+\r\n`)
	commandRules = regexp.MustCompile(` ?[-+]@?[a-z_]+(\|[a-z0-9]+)?\b`)
)

// normal makes replies comparable: Redis 7.2, which is meant, names the user.
func normal(reply string) string {
	switch {
	case strings.HasPrefix(reply, "-NOPERM"):
		return "-NOPERM"
	case strings.HasPrefix(reply, "-ERR The user executing the script"), // 7.2 says NOPERM
		strings.HasSuffix(reply, "denied due to insufficient ACL permissions.\r\n"):
		return "-NOPERM"
	}
	whole := strings.Contains(reply, "passwords\r\n") || strings.Contains(reply, "\nuser ")
	if whole || userWord.MatchString(reply) {
		reply = lengths.ReplaceAllString(reply, "")
	}
	if whole {
		// Redis 7.2 keeps the rules of commands as they were given, the oracle finds shorter ones: what they allow is compared instead.
		reply = strings.ReplaceAll(strings.ReplaceAll(reply, "sanitize-payload\r\n", ""), "sanitize-payload ", "")
		reply = commandRules.ReplaceAllString(reply, "")
	}
	return userWord.ReplaceAllString(reply, "user has no permissions")
}

func fields(line string) []string {
	words := strings.Split(strings.ReplaceAll(line, `\ `, "\x00"), " ")
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\x00", " ")
	}
	return words
}

// TestUsersAgreeWithRedis compares rules as they are taken and shown, and what they allow.
func TestUsersAgreeWithRedis(t *testing.T) {
	cases := 0
	protos := []int{3}
	if *careful { // a minute more: failed logins are slowed down by then
		protos = []int{2, 3}
	}
	for _, proto := range protos {
		s, addr := newServer(t), oracle(t)
		ours, theirs := s.dial(proto), dial(t, "unix", addr, proto)
		theirs.do("ACL", "DELUSER", "u")
		both := func(why string, args ...string) {
			t.Helper()
			cases++
			if got, want := normal(ours.do(args...)), normal(theirs.do(args...)); got != want {
				t.Errorf("RESP%d %s%q:\n\tgot  %q\n\twant %q", proto, why, args, got, want)
			}
		}
		for _, rules := range aclRules {
			both("", append([]string{"ACL", "SETUSER", "u"}, strings.Split(rules, " ")...)...)
			both(rules+": ", "ACL", "GETUSER", "u")
			both(rules+": ", "ACL", "LIST")
			for _, cmd := range []string{"GET a", "SET x v", "CONFIG GET x", "CONFIG SET a b", "SELECT 0", "SELECT 1", "FLUSHALL", "PUBLISH c m", "CLIENT ID", "CLIENT LIST", "EVAL x 1 r1", "HSET ab x y"} {
				both(rules+": ", append([]string{"ACL", "DRYRUN", "u"}, fields(cmd)...)...)
			}
		}
		for _, args := range []string{
			"ACL WHOAMI", "ACL USERS", "ACL GETUSER nobody", "ACL DELUSER nobody", "ACL DELUSER default", "ACL DELUSER u nobody", "ACL USERS",
			"ACL CAT nosuch", "ACL CAT a b", "ACL GENPASS 0", "ACL GENPASS 4097", "ACL GENPASS x", "ACL GENPASS 1 2", "ACL LOG x", "ACL LOG RESET", "ACL LOG", "ACL LOG 1 2",
			"ACL SETUSER a\\ b", "ACL SETUSER", "ACL NOSUCH", "ACL", "ACL DRYRUN nobody get x", "ACL DRYRUN default nosuch", "ACL DRYRUN default get", "ACL DRYRUN default get x",
			"AUTH", "AUTH x", "AUTH nobody x", "AUTH default x", "HELLO 2 AUTH nobody x", "AUTH a b c",
		} {
			both("", fields(args)...)
		}
		for i, rules := range aclUsers {
			name := string(rune('a' + i))
			both("", append([]string{"ACL", "SETUSER", name, "reset"}, strings.Split(rules, " ")...)...)
			us, them := s.dial(2), dial(t, "unix", addr, 2)
			us.do("AUTH", name, "x")
			them.do("AUTH", name, "x")
			for _, cmd := range aclCommands {
				args := fields(cmd)
				cases++
				got, want := us.do(args...), them.do(args...)
				if denied, should := strings.HasPrefix(normal(got), "-NOPERM"), strings.HasPrefix(normal(want), "-NOPERM"); denied != should {
					t.Errorf("%s: %s: got %.80q, want %.80q", rules, cmd, got, want)
				}
				if cmd != "EVAL" && len(args) > 1 {
					both(rules+": ", append([]string{"ACL", "DRYRUN", name}, args...)...)
				}
			}
			both("", "ACL", "DELUSER", name)
		}
	}
	t.Logf("%d cases", cases)
	if cases < 150 {
		t.Errorf("only %d cases", cases)
	}
}
