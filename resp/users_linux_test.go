package resp

import (
	"strings"
	"testing"
)

// TestUsersComeBack: users are part of the volume; what was taken away stays away.
func TestUsersComeBack(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.DebugCommand = "yes" }})
	c := r.dial()
	c.want("+OK\r\n", "ACL", "SETUSER", "bob", "on", ">old", "~a*", "+@all", "-flushall", "(+get ~b*)")
	c.want("+OK\r\n", "ACL", "SETUSER", "bob", "resetpass", ">new")
	c.want("+OK\r\n", "ACL", "SETUSER", "gone", "on", "nopass")
	c.want(":1\r\n", "ACL", "DELUSER", "gone")
	before := c.do("ACL", "LIST")
	for range 2 {
		c.want("+OK\r\n", "DEBUG", "RELOAD")
		c.want(before, "ACL", "LIST")
		bob := r.dial()
		for _, pass := range []string{"old", "", "new2"} {
			if got := bob.do("AUTH", "bob", pass); !strings.HasPrefix(got, "-WRONGPASS") {
				t.Errorf("%s: %q", pass, got)
			}
		}
		bob.want("+OK\r\n", "AUTH", "bob", "new")
		bob.want("$3\r\nbob\r\n", "ACL", "WHOAMI")
		bob.want("+OK\r\n", "SET", "a1", "v")
		bob.want("$-1\r\n", "GET", "b1")
		bob.want("-NOPERM No permissions to access a key\r\n", "SET", "b1", "v")
		bob.want("-NOPERM User bob has no permissions to run the 'flushall' command\r\n", "FLUSHALL")
		if got := bob.do("EVAL", "return redis.call('set', 'b1', 'v')", "0"); !strings.HasPrefix(got, "-NOPERM ACL failure in script: ") {
			t.Errorf("%q", got)
		}
	}
	if got := c.do("ACL", "LOG"); !strings.Contains(got, "\r\nlua\r\n") || !strings.Contains(got, "\r\nauth\r\n") {
		t.Errorf("%q", got)
	}
}

// TestRightsAreTakenAway from those who are connected: within MULTI, while they listen, and with their user.
func TestRightsAreTakenAway(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 2 }})
	admin := r.dial()
	admin.want("+OK\r\n", "ACL", "SETUSER", "bob", "on", "nopass", "+@all", "~*", "&*")
	login := func() *client {
		c := r.dial()
		c.want("+OK\r\n", "AUTH", "bob", "x")
		return c
	}
	queueing, listening, idle := login(), login(), login()
	queueing.want("+OK\r\n", "MULTI")
	queueing.want(queuedReply, "SET", "k", "v")
	listening.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "SUBSCRIBE", "c")
	admin.want("+OK\r\n", "ACL", "SETUSER", "bob", "-set", "resetchannels")
	queueing.want("*1\r\n-NOPERM User bob has no permissions to run the 'set' command\r\n", "EXEC")
	if rest := listening.closed(); rest != "" {
		t.Errorf("%q", rest)
	}
	idle.want("$-1\r\n", "GET", "k")
	admin.want(":1\r\n", "ACL", "DELUSER", "bob")
	if rest := idle.closed(); rest != "" {
		t.Errorf("%q", rest)
	}
	admin.want("$-1\r\n", "GET", "k")
}

// TestFailedLoginsAreSlowedDown: who tries passwords has to wait, though one of them were right.
func TestFailedLoginsAreSlowedDown(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.RequirePass = "right" }})
	c := r.dial()
	refused := 0
	for range 3 * failedMax {
		if got := c.do("AUTH", "wrong"); got == "-"+string(errLoginRate)+"\r\n" {
			refused++
		} else if !strings.HasPrefix(got, "-WRONGPASS") {
			t.Fatalf("%q", got)
		}
	}
	if refused < failedMax {
		t.Errorf("%d refused", refused)
	}
	if got := c.do("GET", "x"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("%q", got)
	}
	c.until(func(got string) bool { return got == "+OK\r\n" }, "AUTH", "right")
	c.want("$-1\r\n", "GET", "x")
}

// TestDefaultUser: requirepass is its password, and it may be taken its rights.
func TestDefaultUser(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	c.want("+OK\r\n", "CONFIG", "SET", "requirepass", "pw")
	other := r.dial()
	if got := other.do("GET", "x"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("%q", got)
	}
	other.want("+OK\r\n", "AUTH", "pw")
	c.want("+OK\r\n", "CONFIG", "SET", "requirepass", "")
	r.dial().want("$-1\r\n", "GET", "x")
	c.want("+OK\r\n", "ACL", "SETUSER", "admin", "on", ">a", "+@all", "~*", "&*")
	c.want("+OK\r\n", "ACL", "SETUSER", "default", "off")
	third := r.dial()
	if got := third.do("GET", "x"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("%q", got)
	}
	third.want("+OK\r\n", "AUTH", "admin", "a")
	third.want("$-1\r\n", "GET", "x")
}
