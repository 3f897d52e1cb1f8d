package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cvmstore/ioengine/device"
)

// long is n bytes that a seed gives.
func long(seed uint64, n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(b)
	return string(b)
}

func bulkOf(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func TestLargeValuesComeAndGo(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	for i, n := range []int{99, 100, 101, 4095, 4096, 4097, 70_000, 1_000_000, 5_000_000} {
		v, key := long(uint64(i), n), fmt.Sprint("k", n)
		c.want("+OK\r\n", "SET", key, v)
		c.want(bulkOf(v), "GET", key)
		c.want(fmt.Sprintf(":%d\r\n", n), "STRLEN", key)
		c.want(bulkOf(v[n/3:n/2]), "GETRANGE", key, fmt.Sprint(n/3), fmt.Sprint(n/2-1))
	}
	v := long(1, 300_000)
	c.want("+OK\r\n", "SET", "k", v, "EX", "100")
	c.want(":100\r\n", "TTL", "k")
	c.want("$-1\r\n", "SET", "k", long(2, 50_000), "NX")
	c.want(":0\r\n", "SETNX", "k", long(2, 50_000))
	c.want(bulkOf(v), "SET", "k", long(3, 200_000), "GET")
	c.want(bulkOf(long(3, 200_000)), "GETSET", "k", v)
	c.want("+OK\r\n", "SETEX", "e", "100", v)
	c.want(":500000\r\n", "APPEND", "k", long(3, 200_000))
	c.want(bulkOf(v+long(3, 200_000)), "GET", "k")
	c.want(":500000\r\n", "SETRANGE", "k", "1000", long(4, 9000))
	want := v[:1000] + long(4, 9000) + (v + long(3, 200_000))[10_000:]
	c.want(bulkOf(want), "GET", "k")
	c.want(":1\r\n", "COPY", "k", "k2")
	c.want("+OK\r\n", "RENAME", "k", "k3")
	c.want("*4\r\n"+bulkOf(want)+"$-1\r\n"+bulkOf(want)+bulkOf(v), "MGET", "k2", "k", "k3", "e")
	c.want("$3\r\nraw\r\n", "OBJECT", "ENCODING", "k2")
	c.want("+OK\r\n", "MSET", "a", v, "b", "small", "c", want)
	c.want("*3\r\n"+bulkOf(v)+bulkOf("small")+bulkOf(want), "MGET", "a", "b", "c")
	c.want(":3\r\n", "DEL", "a", "b", "c")
	c.want("-ERR syntax error\r\n", "SET", "k", v, "WHAT")
	c.want("$-1\r\n", "GET", "k")
	c.want("+PONG\r\n", "PING")
}

// An exchange of the volume leaves large values as they are, and ends what was on its way.
func TestLargeValuesOverAReload(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true, config: func(c *Config) { c.DebugCommand = "yes" }})
	c, half := r.dial(), r.dial()
	v := long(1, 500_000)
	c.want("+OK\r\n", "SET", "k", v)
	w := wire("SET", "half", v)
	half.send(w[:len(w)/2])
	c.want(bulkOf(v), "GET", "k")
	c.want("+OK\r\n", "DEBUG", "RELOAD")
	c.want(bulkOf(v), "GET", "k")
	half.send(w[len(w)/2:])
	if got := half.reply(); got != "-"+errExchanged.Error()+"\r\n" && got != "+OK\r\n" {
		t.Errorf("the value that was on its way: %.100q", got)
	}
	half.want("+OK\r\n", "SET", "half", v)
	half.want(bulkOf(v), "GET", "half")
}

// A pipeline of large and small commands, in pieces of all sizes, is answered in order.
func TestLargeValuesInPipelines(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	var in, want strings.Builder
	for i := range 40 {
		v := long(uint64(i), 1+i*i*100)
		in.WriteString(wire("SET", fmt.Sprint(i), v) + wire("GET", fmt.Sprint(i)) + wire("APPEND", fmt.Sprint(i), v) + wire("GET", fmt.Sprint(i)) + wire("PING"))
		want.WriteString("+OK\r\n" + bulkOf(v) + fmt.Sprintf(":%d\r\n", 2*len(v)) + bulkOf(v+v) + "+PONG\r\n")
	}
	for _, piece := range []int{1 << 30, 70_000, 4096, 1500} {
		c := r.dial()
		go func() {
			for rest := []byte(in.String()); len(rest) > 0; {
				n := min(piece, len(rest))
				if _, err := c.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		got := make([]byte, want.Len())
		for at := 0; at < len(got); {
			n, err := c.r.Read(got[at:])
			if err != nil {
				t.Fatalf("pieces of %d: after %d bytes: %v", piece, at, err)
			}
			at += n
		}
		if string(got) != want.String() {
			t.Fatalf("pieces of %d: replies differ", piece)
		}
	}
}

// Within MULTI values are not sealed as they arrive, and large ones come out the same.
func TestLargeValuesInTransactions(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	v := long(1, 40_000)
	c.want("+OK\r\n", "SET", "old", v)
	c.want("+OK\r\n", "MULTI")
	for _, cmd := range [][]string{{"SET", "k", v}, {"APPEND", "k", "x"}, {"GET", "k"}, {"APPEND", "old", v}, {"GET", "old"}} {
		c.want("+QUEUED\r\n", cmd...)
	}
	c.want("*5\r\n+OK\r\n:40001\r\n"+bulkOf(v+"x")+":80000\r\n"+bulkOf(v+v), "EXEC")
	c.want(bulkOf(v+"x"), "GET", "k")
	c.want(bulkOf(v+v), "GET", "old")
}

// What a client stops in the middle of costs nothing: the blocks come back, and others are served.
func TestAClientThatStopsHalfWay(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	v := long(1, 3_000_000)
	c.want("+OK\r\n", "SET", "k", v)
	c.want("+OK\r\n", "SET", "other", "x")
	free := r.vol.Status().FreeBytes
	for i := range 6 {
		d := r.dial()
		w := wire("SET", "half", v)
		d.send(w[:len(w)/2])
		if i%2 == 0 { // not before the server has seen it
			c.want("+PONG\r\n", "PING")
		}
		_ = d.Close()
		d = r.dial()
		d.send(wire("GET", "k"))
		if _, err := d.r.ReadByte(); err != nil {
			t.Fatal(err)
		}
		_ = d.Close()
	}
	for tries := 0; r.vol.Status().FreeBytes < free; tries++ {
		if tries > 2000 {
			t.Fatalf("%d bytes are free, before %d", r.vol.Status().FreeBytes, free)
		}
		c.want(bulkOf("x"), "GET", "other")
		time.Sleep(time.Millisecond)
	}
	c.want("$-1\r\n", "GET", "half")
	c.want(":1\r\n", "DEL", "k")
	for tries := 0; r.vol.Status().FreeBytes < free+3_000_000; tries++ {
		if tries > 2000 {
			t.Fatalf("after the key is gone, %d bytes are free, before %d", r.vol.Status().FreeBytes, free)
		}
		c.want("+OK\r\n", "SET", "other", "x")
		time.Sleep(time.Millisecond)
	}
}

// A client that takes nothing does not hold up others, and gets its bytes when it does.
func TestASlowReader(t *testing.T) {
	r := newRig(t, rigOptions{blobs: true})
	c := r.dial()
	v := long(1, 8_000_000)
	c.want("+OK\r\n", "SET", "k", v)
	var slow []*client
	for range 5 {
		d := r.dial()
		_ = d.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		d.send(wire("GET", "k"))
		slow = append(slow, d)
	}
	for i := range 30 {
		c.want("+OK\r\n", "SET", "other", long(uint64(i), 20_000))
		c.want(bulkOf(long(uint64(i), 20_000)), "GET", "other")
	}
	c.want("+OK\r\n", "SET", "k", "gone") // what is being read stays
	for _, d := range slow {
		if got := d.reply(); got != bulkOf(v) {
			t.Fatalf("a slow reader got %d bytes, or others", len(got))
		}
	}
}

// Tampering with a chunk in the middle of a value ends the reply after what was verified, and the log says where.
func TestATamperedChunkEndsTheReply(t *testing.T) {
	var log syncBuffer
	r := newRig(t, rigOptions{blobs: true, log: &log})
	c := r.dial()
	v := long(1, 400_000)
	c.want("+OK\r\n", "SET", "secret-name", v)
	// Somewhere in the middle of what is written last: the blob has a hundred blocks, the journal a few.
	var lba device.LBA
	for try := r.dev.Info().Blocks - 1; try > 0; try-- {
		if b := r.dev.Peek(device.LBA(try)); !bytes.Equal(b, make([]byte, len(b))) {
			lba = device.LBA(try)
			break
		}
	}
	good := false
	for at := lba; at > 2 && !good; at -= 20 {
		r.dev.FlipBit(at, 5)
		d := r.dial()
		d.send(wire("GET", "secret-name"))
		got := make([]byte, 0, len(v)+100)
		buf := make([]byte, 64<<10)
		ended := false
		for !ended && len(got) < len(bulkOf(v)) {
			n, err := d.r.Read(buf)
			got = append(got, buf[:n]...)
			ended = err != nil
		}
		if !strings.HasPrefix(bulkOf(v), string(got)) {
			t.Fatalf("with block %d tampered with, a client got %d bytes that are not the value's", at, len(got))
		}
		head := len(bulkOf(v)) - len(v) - 2
		good = ended && len(got) > head && (len(got)-head)%4096 == 0
		r.dev.FlipBit(at, 5)
	}
	if !good {
		t.Fatal("no reply ended in the middle of the value")
	}
	c.want(bulkOf(v), "GET", "secret-name")
	text := log.String()
	if !strings.Contains(text, `"key":"`+r.vol.NameHash([]byte("secret-name"))) || !strings.Contains(text, `"offset":`) || strings.Contains(text, "secret-name") {
		t.Fatalf("log: %s", text)
	}
	// A value of one chunk is checked before the reply begins.
	c.want("+OK\r\n", "SET", "short", long(2, 3000))
}

// syncBuffer is a log that tests read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
