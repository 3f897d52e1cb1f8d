package difftest

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What the oracle cannot say, because Redis 7.2 differs from it, or because the reply is the server's own.
func TestRepliesThatAreNotTheOracles(t *testing.T) {
	c := newServer(t).dial(2)
	const notInt, syntax = "-ERR value is not an integer or out of range\r\n", "-ERR syntax error\r\n"
	for _, s := range []struct{ cmd, want string }{
		{"BITCOUNT none a b", notInt},
		{"BITCOUNT none 0 1 bits", syntax},
		{"BITCOUNT none 0", syntax},
		{"BITCOUNT none 0 1 BIT", ":0\r\n"},
		{"BITPOS none 1 a", notInt},
		{"BITPOS none 0 0 1 bits", syntax},
		{"BITPOS none 0 0 1 BIT x", syntax},
		{"BITPOS none 1 0 1 BIT", ":-1\r\n"},
		{"BITPOS none 0", ":0\r\n"},
		{"SET k 5", "+OK\r\n"},
		{"OBJECT IDLETIME k", ":0\r\n"},
		{"DUMP k", "$13\r\n\x00\xc0\x05\x0b\x00\n\xf0\xe2\x15~\xb0Z\xd8\r\n"},
		{"RESTORE k 0 x", "-BUSYKEY Target key name already exists.\r\n"},
		{"RESTORE k x x REPLACE", notInt},
		{"RESTORE k -1 x REPLACE", "-ERR Invalid TTL value, must be >= 0\r\n"},
		{"SWAPDB x 1", "-ERR invalid first DB index\r\n"},
		{"SWAPDB 1 x", "-ERR invalid second DB index\r\n"},
		{"SWAPDB 1 4", "-ERR DB index is out of range\r\n"},
	} {
		if got := c.do(strings.Fields(s.cmd)...); got != s.want {
			t.Errorf("%s: %q, want %q", s.cmd, got, s.want)
		}
	}
}

// Values that no cache holds are moved as they are, after a restart too, and other connections see the swap.
func TestLargeColdValuesAreMoved(t *testing.T) {
	s := newServer(t)
	c := s.dial(3)
	val := strings.Repeat("0123456789abcdef", 20_000)
	want := fmt.Sprintf("$%d\r\n%s\r\n", len(val), val)
	expect := func(want string, args ...string) {
		t.Helper()
		if got := c.do(args...); got != want {
			t.Fatalf("%q: %.100q, want %.100q", args, got, want)
		}
	}
	restart := func() {
		_ = c.Close()
		s.close()
		s.open()
		c = s.dial(3)
	}
	expect("+OK\r\n", "SET", "big", val, "PXAT", "4000000000000")
	restart()
	expect("+OK\r\n", "RENAME", "big", "renamed")
	expect(":1\r\n", "COPY", "renamed", "copied", "DB", "1")
	restart()
	expect(":1\r\n", "MOVE", "renamed", "2")
	expect("+OK\r\n", "SWAPDB", "1", "0")
	restart()
	expect(want, "GET", "copied")
	expect(":4000000000000\r\n", "PEXPIRETIME", "copied")
	expect("_\r\n", "GET", "renamed")
	other := s.dial(2)
	expect("+OK\r\n", "SWAPDB", "0", "2")
	if got := other.do("GET", "renamed"); got != want {
		t.Fatalf("another connection got %.100q", got)
	}
	expect(":0\r\n", "EXISTS", "big", "copied")
}

// The table's rows for these families are those of Redis: arity, flags, keys, categories.
func TestTheTableAgreesWithRedis(t *testing.T) {
	ours, theirs := newServer(t).dial(2), dial(t, "unix", oracle(t), 2)
	names := strings.Fields(`append bitcount dbsize flushall flushdb bitfield bitfield_ro bitop bitpos copy decr decrby del dump exists expire expireat
		expiretime get getbit getdel getex getrange getset incr incrby incrbyfloat keys lcs mget move mset msetnx object|encoding object|freq
		object|idletime object|refcount persist pexpire pexpireat pexpiretime psetex pttl randomkey rename renamenx restore scan set setbit
		setex setnx setrange strlen substr swapdb touch ttl type unlink`)
	for _, name := range names {
		a, b := rows(ours.do("COMMAND", "INFO", name)), rows(theirs.do("COMMAND", "INFO", name))
		if len(a) < 7 || len(b) < 7 {
			t.Errorf("%s: %q, %q", name, a, b)
			continue
		}
		for i, what := range []string{"name", "arity", "flags", "first key", "last key", "step", "categories"} {
			if what == "flags" || what == "categories" {
				a[i], b[i] = sorted(a[i]), sorted(b[i])
			}
			if a[i] != b[i] {
				t.Errorf("%s: %s is %q, in Redis %q", name, what, a[i], b[i])
			}
		}
	}
}

// rows are the fields of the one command that a COMMAND INFO describes.
func rows(reply string) []string {
	outer := bulks(reply)
	if len(outer) != 1 {
		return nil
	}
	return bulks(outer[0])
}

func sorted(list string) string {
	r := bufio.NewScanner(strings.NewReader(list))
	var words []string
	for r.Scan() {
		words = append(words, r.Text())
	}
	if len(words) == 0 {
		return list
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}
