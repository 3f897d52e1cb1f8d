package resp

import (
	"fmt"
	"strings"
	"testing"
)

func TestSort(t *testing.T) {
	for _, o := range []rigOptions{{}, {cacheBytes: -1}, {blobs: true, cacheBytes: -1}} {
		r := newRig(t, o)
		c := r.dial()
		c.do("RPUSH", "l", "3", "1", "10", "2")
		c.want(array("*", "1", "2", "3", "10"), "SORT", "l")
		c.want(array("*", "10", "3"), "SORT_RO", "l", "DESC", "LIMIT", "0", "2")
		c.want(array("*", "1", "10", "2", "3"), "SORT", "l", "ALPHA")
		c.want(array("*", "2", "10"), "SORT", "l", "BY", "nosort", "DESC", "LIMIT", "0", "2")
		for i, w := range map[string]string{"1": "30", "2": "20", "3": "10"} {
			c.do("MSET", "w"+i, w, "name"+i, strings.Repeat("v"+i, 100))
			c.do("HSET", "h"+i, "f", "field"+i)
		}
		name := func(i int) string { return strings.Repeat(fmt.Sprint("v", i), 100) }
		c.want("*8\r\n"+bulk("10")+"$-1\r\n"+bulk("3")+bulk(name(3))+bulk("2")+bulk(name(2))+bulk("1")+bulk(name(1)),
			"SORT", "l", "BY", "w*", "GET", "#", "GET", "name*")
		c.want("*4\r\n$-1\r\n"+bulk("field3")+bulk("field2")+bulk("field1"), "SORT", "l", "BY", "w*", "GET", "h*->f")
		c.want(":8\r\n", "SORT", "l", "BY", "w*", "GET", "#", "GET", "h*->f", "STORE", "l") // over its own source
		c.want(array("*", "10", "", "3", "field3", "2", "field2", "1", "field1"), "LRANGE", "l", "0", "-1")
		c.want("-ERR One or more scores can't be converted into double\r\n", "SORT", "l")
		c.do("ZADD", "z", "1", "c", "2", "a", "3", "b")
		c.want(array("*", "b", "a"), "SORT", "z", "BY", "nosort", "DESC", "LIMIT", "0", "2")
		c.do("SADD", "s", "c", "a", "b")
		c.want(":3\r\n", "SORT", "s", "BY", "nosort", "STORE", "d")
		c.want(array("*", "a", "b", "c"), "LRANGE", "d", "0", "-1")
		c.want(":0\r\n", "SORT", "none", "STORE", "d")
		c.want(":0\r\n", "EXISTS", "d")
		c.want("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "SORT", "w1")
		c.want("-ERR syntax error\r\n", "SORT_RO", "s", "STORE", "d")
		// In one batch with others, and on keys that nothing in it names.
		got := c.transact(words("SET w1 5"), words("RPUSH m 1 2 3"), words("SORT m BY w* GET #"), words("SORT m BY w* STORE m"), words("LINDEX m 0"))
		if got != "*5\r\n+OK\r\n:3\r\n"+array("*", "1", "3", "2")+":3\r\n"+bulk("1") {
			t.Errorf("%q", got)
		}
		c.want(array("*", "m", "d"), "COMMAND", "GETKEYS", "SORT", "m", "GET", "store", "STORE", "x", "STORE", "d")
	}
}
