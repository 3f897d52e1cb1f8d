package resp

import (
	"fmt"
	"testing"
)

// Commands that answer with a large value and replace it, delete it or change its expiry send it while it is read, though the key
// does not have it any more; the blocks are used again only afterwards.
func TestLargeValuesThatGoWhileTheyAreSent(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c, other := r.dial(), r.dial()
	const n = 3_000_000
	v := long(1, n)
	for i := range 4 {
		c.want("+OK\r\n", "SET", "k", v)
		c.send(wire("GETDEL", "k")) // not read yet
		for j := range 4 {
			other.want("+OK\r\n", "SET", fmt.Sprint("o", j), long(uint64(10+4*i+j), n))
		}
		if got := c.reply(); got != bulkOf(v) {
			t.Fatalf("GETDEL: %d bytes, want those of a value of %d", len(got), n)
		}
		c.want("$-1\r\n", "GET", "k")
		c.want("$-1\r\n", "GETDEL", "k")
	}
	c.want("+OK\r\n", "SET", "k", v)
	c.want(bulkOf(v), "GETEX", "k", "EX", "100")
	c.want(":100\r\n", "TTL", "k")
	c.want(bulkOf(v), "GETEX", "k", "PERSIST")
	c.want(bulkOf(v), "GETEX", "k")
	c.want(":-1\r\n", "TTL", "k")
	c.want(bulkOf(v), "SET", "k", long(2, n), "XX", "GET")
	c.want(bulkOf(long(2, n)), "SET", "k", v, "NX", "GET")
	c.want(bulkOf(long(2, n)), "GETSET", "k", v)
	c.want("+OK\r\n", "MULTI")
	c.want("+QUEUED\r\n", "GETEX", "k", "EX", "100")
	c.want("+QUEUED\r\n", "GETDEL", "k")
	c.want("+QUEUED\r\n", "GETDEL", "k")
	c.want("*3\r\n"+bulkOf(v)+bulkOf(v)+"$-1\r\n", "EXEC")
	c.want("$-1\r\n", "GETSET", "k", v)
	c.want("+OK\r\n", "SET", "small", "x")
	c.want("-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n", "LCS", "k", "k")
	c.want(fmt.Sprintf(":%d\r\n", n), "BITOP", "NOT", "not", "k")
	c.want(fmt.Sprintf(":%d\r\n", n), "BITOP", "NOT", "back", "not")
	c.want(bulkOf(v), "GETDEL", "back")
}
