package resp

import (
	"strings"
	"testing"

	"cvmstore/epoch/epochtest"
)

func TestKeyspaceNotifications(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, sub := r.dial(), r.dial()
	sub.do("PSUBSCRIBE", "*")
	for _, tc := range []struct{ classes, commands, want string }{
		{"", "SET k v;DEL k", ""},
		{"K", "SET k v;DEL k", ""},
		{"A", "SET k v;DEL k", ""},
		{"KEA", "SET k v;SET k w", "K:k set;E:set k;K:k set;E:set k"},
		{"Eg", "SET k v;DEL k;GET k", "E:del k"},
		{"E$", "SET k v;DEL k;APPEND k 1;INCR k;SETRANGE k 1 x;SETBIT k 1 1;MSET k 1 j 2;GETSET k 3", "E:set k;E:append k;E:incrby k;E:setrange k;E:setbit k;E:set k;E:set j;E:set k"},
		{"Eg", "SET k v EX 100;PERSIST k;EXPIRE k 10;RENAME k j;COPY j i;MOVE i 3;GETDEL j", "E:expire k;E:persist k;E:expire k;E:rename_from k;E:rename_to j;E:copy_to i;E:move_from i;3:move_to i;E:del j"},
		{"En", "SET k v;SET k v;DEL k;SETNX k v;SETNX k v", "E:new k;E:new k"},
		{"Em", "DEL k;GET k;MGET k j;EXISTS k;TYPE k;OBJECT ENCODING k;SET k v;GET k;STRLEN j", "E:keymiss k;E:keymiss k;E:keymiss j;E:keymiss k;E:keymiss k;E:keymiss j"},
		{"E$m", "MULTI;GET j;SET k v;DISCARD;MULTI;GET k;SET k v;EXEC", "E:keymiss k;E:set k"},
	} {
		c.do("FLUSHALL")
		c.want("+OK\r\n", "CONFIG", "SET", "notify-keyspace-events", tc.classes)
		for _, cmd := range strings.Split(tc.commands, ";") {
			c.do(words(cmd)...)
		}
		c.do("PUBLISH", "end", "end")
		var got []string
		for {
			msg := strings.Split(sub.reply(), "\r\n") // *4 $8 pmessage $1 * $n channel $n payload
			if msg[6] == "end" {
				break
			}
			channel := strings.NewReplacer("__keyspace@0__:", "K:", "__keyevent@0__:", "E:", "__keyevent@3__:", "3:").Replace(msg[6])
			got = append(got, channel+" "+msg[8])
		}
		if g := strings.Join(got, ";"); g != tc.want {
			t.Errorf("%s: %s:\ngot  %s\nwant %s", tc.classes, tc.commands, g, tc.want)
		}
	}
	c.want("-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. Use 'Ag$lshzxeKEtmdn'.\r\n", "CONFIG", "SET", "notify-keyspace-events", "q")
	for in, want := range map[string]string{"KA": "AK", "gKE": "gKE", "$lshzxeKE": "$lshzxeKE", "g$lshzxetdKEmn": "AKEm", "n": "n", "": ""} {
		c.do("CONFIG", "SET", "notify-keyspace-events", in)
		c.want(array("*", "notify-keyspace-events", want), "CONFIG", "GET", "notify-keyspace-events")
	}
	c.do("CONFIG", "SET", "notify-keyspace-events", "Ex")
	c.do("SET", "gone", "v", "PX", "1") // in the background, with nobody who looks
	sub.expect(array("*", "pmessage", "*", "__keyevent@0__:expired", "gone"))
}

// TestNotificationsWaitLikeReplies: a subscriber hears of a change when the change has reached its level (DESIGN.md 4.3).
func TestNotificationsWaitLikeReplies(t *testing.T) {
	r := newRig(t, rigOptions{counter: epochtest.Options{Async: true}, config: func(c *Config) { _ = c.Set("notify-keyspace-events", "KA") }})
	fresh, eager := r.dial(), r.dial()
	eager.want("+OK\r\n", "CVM.DURABILITY", "everysec")
	for _, c := range []*client{fresh, eager} {
		c.do("PSUBSCRIBE", "*")
	}
	r.dial().send(wire("SET", "k", "v"))
	told := array("*", "pmessage", "*", "__keyspace@0__:k", "set")
	eager.expect(told)
	fresh.quiet()
	delivered := make(chan struct{})
	go func() { r.deliver(); close(delivered) }()
	fresh.expect(told)
	<-delivered
}
