package resp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFilesComeAndGo(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	for i, n := range []int{0, 1, 50, 99, 100, 4096, 70_000, 1_000_000, 5_000_000} {
		v, name := long(uint64(i), n), fmt.Sprint("f", n)
		c.want("+OK\r\n", "FPUT", name, v)
		c.want(bulkOf(v), "FGET", name)
		c.want(fmt.Sprintf(":%d\r\n", n), "FLEN", name)
		c.want(bulkOf(v[n/3:n/2]), "FGET", name, fmt.Sprint(n/3), fmt.Sprint(n/2-n/3))
		c.want(bulkOf(v[n/2:]), "FGET", name, fmt.Sprint(n/2))
		c.want(bulkOf(v), "FGET", name, "0", fmt.Sprint(n+10))
		c.want(bulkOf(""), "FGET", name, fmt.Sprint(n))
		c.want("-ERR the offset is past the end of the file\r\n", "FGET", name, fmt.Sprint(n+1))
		c.want(fmt.Sprintf(":%d\r\n", n), "FVERIFY", name)
	}
	c.want(":2\r\n", "FEXISTS", "f0", "nope", "f99")
	c.want(":2\r\n", "FDEL", "f0", "f1", "f0", "nope")
	c.want("$-1\r\n", "FGET", "f0")
	c.want("$-1\r\n", "FLEN", "f0")
	c.want("$-1\r\n", "FSTAT", "f0")
	c.want("*-1\r\n", "FROOT", "f0")
	c.want("-ERR no such file\r\n", "FVERIFY", "f0")
	v, w := long(1, 70_000), long(2, 80)
	c.want("+OK\r\n", "FPUT", "a", v, "NX", "META", "k", "v", "k2", "")
	c.want("$-1\r\n", "FPUT", "a", w, "NX")
	c.want("$-1\r\n", "FPUT", "b", v, "XX")
	c.want(bulkOf(v), "FGET", "a")
	if got := c.do("FSTAT", "a"); !strings.HasPrefix(got, "*12\r\n$4\r\nsize\r\n:70000\r\n") || !strings.HasSuffix(got, "*4\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nk2\r\n$0\r\n\r\n") {
		t.Errorf("FSTAT: %q", got)
	}
	c.want("+OK\r\n", "FRENAME", "a", "b")
	c.want("$-1\r\n", "FGET", "a")
	c.want(bulkOf(v), "FGET", "b")
	c.want("+OK\r\n", "FPUT", "a", w)
	c.want("$-1\r\n", "FRENAME", "a", "b", "NX")
	c.want("-ERR no such file\r\n", "FRENAME", "x", "b")
	one := c.do("FROOT", "b")
	c.want("+OK\r\n", "FRENAME", "a", "b")
	if two := c.do("FROOT", "b"); one == two || !strings.HasPrefix(two, "*2\r\n$64\r\n") || !strings.HasSuffix(two, "\r\n:80\r\n") {
		t.Errorf("roots of two files: %q and %q", one, two)
	}
	c.want("+PONG\r\n", "PING")
}

// Files live beside the databases: no command on keys sees them, and none on files sees keys.
func TestFilesAreNoKeys(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	v := long(1, 30_000)
	c.want("+OK\r\n", "FPUT", "x", v)
	c.want("+OK\r\n", "FPUT", "small", "s")
	c.want("$-1\r\n", "GET", "x")
	c.want("+none\r\n", "TYPE", "x")
	c.want(":0\r\n", "DBSIZE")
	c.want("*0\r\n", "KEYS", "*")
	c.want("*2\r\n$1\r\n0\r\n*0\r\n", "SCAN", "0")
	c.want("+OK\r\n", "SET", "x", "key")
	c.want("-ERR DB index is out of range\r\n", "SELECT", "16")
	for _, flush := range []string{"FLUSHDB", "FLUSHALL"} {
		c.want("+OK\r\n", flush)
		c.want(bulkOf(v), "FGET", "x")
		c.want(bulkOf("s"), "FGET", "small")
	}
	c.want("+OK\r\n", "SELECT", "3")
	c.want(bulkOf(v), "FGET", "x")
	c.want(":1\r\n", "FDEL", "x")
	c.want("*2\r\n$1\r\n0\r\n*1\r\n$5\r\nsmall\r\n", "FSCAN", "0", "COUNT", "100")
	c.want("*2\r\n$1\r\n0\r\n*0\r\n", "FSCAN", "0", "MATCH", "x*", "COUNT", "100")
	if got := c.do("INFO", "files"); !strings.Contains(got, "\r\nfiles:1\r\nuploads_open:0\r\n") {
		t.Errorf("INFO files: %q", got)
	}
}

func TestFileErrors(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	long5k := strings.Repeat("n", 4097)
	c.want("+OK\r\n", "FPUT", long5k[:4096], "v")
	c.want("+OK\r\n", "FPUT", "\x00\r\n\xff", "any bytes")
	c.want(bulkOf("any bytes"), "FGET", "\x00\r\n\xff")
	for _, cmd := range [][]string{{"FPUT", "", "v"}, {"FGET", ""}, {"FDEL", ""}, {"FRENAME", "a", ""}, {"FBEGIN", ""}, {"FSTAT", ""}} {
		c.want("-ERR the name of a file must not be empty\r\n", cmd...)
	}
	for _, cmd := range [][]string{{"FPUT", long5k, "v"}, {"FGET", long5k}, {"FDEL", "a", long5k}, {"FRENAME", long5k, "b"}, {"FBEGIN", long5k}, {"FPUT", long5k, long(1, 5000)}} {
		c.want("-ERR the name of a file exceeds the limit of 4096 bytes\r\n", cmd...)
	}
	c.want("+OK\r\n", "FPUT", "f", "0123456789")
	for _, row := range [][]string{
		{"-ERR the offset is negative", "FGET", "f", "-1"},
		{"-ERR the length is negative", "FGET", "f", "1", "-1"},
		{"-ERR value is not an integer or out of range", "FGET", "f", "x"},
		{"-ERR value is not an integer or out of range", "FGET", "f", "0", "99999999999999999999"},
		{"-ERR the offset is past the end of the file", "FGET", "f", "9223372036854775807"},
		{"-ERR syntax error", "FGET", "f", "1", "2", "3"},
		{"-ERR syntax error", "FPUT", "f", "v", "NX", "XX"},
		{"-ERR syntax error", "FPUT", "f", "v", "META", "k"},
		{"-ERR syntax error", "FPUT", "f", "v", "META"},
		{"-ERR the size of a file is from 0 to 2^50 bytes", "FBEGIN", "f", "SIZE", "-1"},
		{"-ERR the size of a file is from 0 to 2^50 bytes", "FBEGIN", "f", "SIZE", "1125899906842625"},
		{"-ERR the chunk size is a power of two from 4096 to 1048576", "FBEGIN", "f", "CHUNK", "5000"},
		{"-ERR invalid expire time in 'fbegin' command", "FBEGIN", "f", "EX", "0"},
		{"-ERR the id of an upload has 16 hexadecimal digits", "FWRITE", "x", "0", "data"},
		{"-ERR no such upload: it was committed or aborted, has expired, or never was", "FWRITE", "00000000000000ff", "0", "data"},
		{"-ERR no such upload: it was committed or aborted, has expired, or never was", "FCOMMIT", "00000000000000ff"},
		{"-ERR no such upload: it was committed or aborted, has expired, or never was", "FABORT", "00000000000000ff"},
		{"-ERR no such upload: it was committed or aborted, has expired, or never was", "FUPLOADS", "00000000000000ff"},
	} {
		c.want(row[0]+"\r\n", row[1:]...)
	}
	c.want(bulkOf("34"), "FGET", "f", "3", "2")
}

// upload begins one and returns its id.
func (c *client) upload(args ...string) string {
	c.t.Helper()
	got := c.do(append([]string{"FBEGIN"}, args...)...)
	if !strings.HasPrefix(got, "$16\r\n") {
		c.t.Fatalf("FBEGIN: %q", got)
	}
	return got[5:21]
}

func TestUploads(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true, config: func(c *Config) { c.DebugCommand = "yes" }})
	c := r.dial()
	v := long(1, 300_000)
	c.want("+OK\r\n", "FPUT", "f", "old")
	id := c.upload("f", "SIZE", "300000", "CHUNK", "4096")
	c.want("-ERR the upload is not complete: the bytes from 0 up to 300000 are missing\r\n", "FCOMMIT", id)
	c.want("+OK\r\n", "FWRITE", id, "200000", v[200_000:])
	c.want("+OK\r\n", "FWRITE", id, "50", v[50:1000])
	c.want("+OK\r\n", "FWRITE", id, "0", v[:50])
	c.want("+OK\r\n", "FWRITE", id, "7", "")
	c.want("-ERR the piece does not lie within the upload's size\r\n", "FWRITE", id, "299999", "xx")
	c.want("-ERR the offset is negative\r\n", "FWRITE", id, "-1", "xx")
	c.want("-ERR the upload is not complete: the bytes from 1000 up to 200000 are missing\r\n", "FCOMMIT", id)
	c.want(bulkOf("old"), "FGET", "f") // invisible
	c.want(":1\r\n", "FEXISTS", "f")
	ranges := "ranges\r\n*2\r\n*2\r\n:0\r\n:1000\r\n*2\r\n:200000\r\n:300000\r\n"
	if got := c.do("FUPLOADS", id); !strings.HasSuffix(got, ranges) {
		t.Errorf("FUPLOADS: %q", got)
	}
	c.want("+OK\r\n", "DEBUG", "RELOAD") // it survives a restart, and goes on
	if got := c.do("FUPLOADS", id); !strings.HasSuffix(got, ranges) {
		t.Errorf("FUPLOADS after a restart: %q", got)
	}
	c.want("+OK\r\n", "FWRITE", id, "900", long(9, 5000)) // over what is there
	c.want("+OK\r\n", "FWRITE", id, "900", v[900:200_500])
	c.want("$-1\r\n", "FCOMMIT", id, "NX")
	c.want("+OK\r\n", "FCOMMIT", id, "XX", "META", "a", "b")
	for range 2 {
		c.want(bulkOf(v), "FGET", "f")
		c.want(bulkOf(v[700:250_000]), "FGET", "f", "700", "249300")
		c.want(":300000\r\n", "FVERIFY", "f")
		c.want("*0\r\n", "FUPLOADS")
		c.want("+OK\r\n", "DEBUG", "RELOAD")
	}
	c.want("-ERR no such upload: it was committed or aborted, has expired, or never was\r\n", "FWRITE", id, "0", "x")

	id = c.upload("g") // of unknown size
	c.want("-ERR the upload is not complete: the bytes from 0 up to 10 are missing\r\n", append([]string{}, gap(c, id)...)...)
	c.want("+OK\r\n", "FWRITE", id, "0", "0123456789")
	c.want("+OK\r\n", "FCOMMIT", id)
	c.want(bulkOf("0123456789abc"), "FGET", "g")
	id = c.upload("empty")
	c.want("+OK\r\n", "FCOMMIT", id)
	c.want(bulkOf(""), "FGET", "empty")
	id = c.upload("h")
	c.want("+OK\r\n", "FWRITE", id, "0", v)
	c.want("+OK\r\n", "FABORT", id)
	c.want("$-1\r\n", "FGET", "h")
	c.want("*0\r\n", "FUPLOADS")
}

// gap writes a piece behind a gap, and returns the commit that is refused.
func gap(c *client, id string) []string {
	c.want("+OK\r\n", "FWRITE", id, "10", "abc")
	return []string{"FCOMMIT", id}
}

// An upload of any pieces in any order, over several connections, comes out as a plain array of bytes would.
func TestUploadsAgainstAnArray(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	rng := rand.New(rand.NewPCG(1, 2))
	conns := []*client{r.dial(), r.dial(), r.dial()}
	for round := range 10 {
		size := 1 + rng.IntN(100_000)
		want := make([]byte, size)
		id := conns[0].upload("f", "SIZE", fmt.Sprint(size), "CHUNK", "4096")
		base := long(uint64(round), size)
		conns[0].want("+OK\r\n", "FWRITE", id, "0", base)
		copy(want, base)
		for i := range 30 {
			at := rng.IntN(size)
			piece := long(uint64(round*100+i), 1+rng.IntN(min(20_000, size-at)))
			conns[i%3].want("+OK\r\n", "FWRITE", id, fmt.Sprint(at), piece)
			copy(want[at:], piece)
		}
		conns[1].want("+OK\r\n", "FCOMMIT", id)
		conns[2].want(bulkOf(string(want)), "FGET", "f")
	}
	// At once, each its own part.
	v := long(3, 900_000)
	id := conns[0].upload("p", "SIZE", "900000")
	var all sync.WaitGroup
	for i, c := range conns {
		all.Add(1)
		go func() {
			defer all.Done()
			for at := i * 10_000; at < len(v); at += 30_000 {
				c.want("+OK\r\n", "FWRITE", id, fmt.Sprint(at), v[at:at+10_000])
			}
		}()
	}
	all.Wait()
	conns[0].want("+OK\r\n", "FCOMMIT", id)
	conns[0].want(bulkOf(v), "FGET", "p")
}

// A reader of the old version finishes on it while the name is replaced and deleted.
func TestReadersFinishOnTheOldVersion(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c, slow := r.dial(), r.dial()
	_ = slow.SetDeadline(time.Now().Add(time.Minute))
	v := long(1, 10_000_000) // more than the sockets hold
	c.want("+OK\r\n", "FPUT", "f", v)
	slow.send(wire("FGET", "f"))
	if _, err := slow.r.Peek(10); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		c.want("+OK\r\n", "FPUT", "f", long(uint64(i+2), 700_000))
	}
	c.want(":1\r\n", "FDEL", "f")
	if got := slow.reply(); got != bulkOf(v) {
		t.Errorf("%d bytes of the old version, or others", len(got))
	}
}

func TestFilesInTransactions(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	v := long(1, 40_000)
	c.want("+OK\r\n", "MULTI")
	for _, cmd := range [][]string{{"FPUT", "f", v}, {"SET", "k", "1"}, {"FGET", "f", "0", "10"}, {"FRENAME", "f", "g"}, {"FEXISTS", "f", "g"}} {
		c.want("+QUEUED\r\n", cmd...)
	}
	c.want("-ERR Command not allowed inside a transaction\r\n", "FBEGIN", "x")
	c.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	c.want("*0\r\n", "KEYS", "*")
	c.want("+OK\r\n", "MULTI")
	for _, cmd := range [][]string{{"FPUT", "f", v}, {"SET", "k", "1"}, {"FPUT", "s", "small"}, {"FEXISTS", "f", "s"}} {
		c.want("+QUEUED\r\n", cmd...)
	}
	c.want("*4\r\n+OK\r\n+OK\r\n+OK\r\n:2\r\n", "EXEC")
	c.want(bulkOf(v), "FGET", "f")
	c.want(bulkOf("1"), "GET", "k")
}

// An upload whose time has come is gone, and its space with it.
func TestUploadsExpire(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	id := c.upload("f", "EX", "1")
	c.want("+OK\r\n", "FWRITE", id, "0", long(1, 50_000))
	for end := time.Now().Add(15 * time.Second); r.space.Count(r.space.Private(1)) > 0; {
		if time.Now().After(end) {
			t.Fatal("the upload's keys are still there")
		}
		c.do("PING")
	}
	c.want("-ERR no such upload: it was committed or aborted, has expired, or never was\r\n", "FCOMMIT", id)
	c.want("*0\r\n", "FUPLOADS")
}
