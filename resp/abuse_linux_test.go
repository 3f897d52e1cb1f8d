package resp

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestABulkOfAllTheAddressSpaceKillsNothing(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	c.send("*1\r\n$9223372036854775807\r\n")
	if got := c.closed(); got != "-ERR Protocol error: invalid bulk length\r\n" {
		t.Errorf("got %q", got)
	}
	r.dial().want("+PONG\r\n", "PING")
}

func TestAnnouncedBodiesTakeNoMemoryBeforeTheyArrive(t *testing.T) {
	r := newRig(t, rigOptions{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		c := r.dial()
		c.send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870912\r\nxxxxxxxx")
	}
	r.dial().want("+PONG\r\n", "PING") // the others have been read by then
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d bytes for 100 half commands", grown)
	}
}

func TestDrippedCommandsAreExecuted(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	value := strings.Repeat("v", 300)
	raw := wire("SET", "k", value) + "GET k\r\n" + wire("STRLEN", "k")
	for i := range len(raw) {
		c.send(raw[i : i+1])
	}
	for _, want := range []string{"+OK\r\n", bulk(value), ":300\r\n"} {
		if got := c.reply(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLargeValuesAndPipelinesOverSmallSockets(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	value := strings.Repeat("0123456789", 5000)
	const n = 200
	var raw strings.Builder
	for i := range n {
		raw.WriteString(wire("SET", fmt.Sprint("k", i%7), value))
		raw.WriteString(wire("GET", fmt.Sprint("k", i%7)))
	}
	go func() { _, _ = c.Write([]byte(raw.String())) }()
	for i := range n {
		if got := c.reply(); got != "+OK\r\n" {
			t.Fatalf("SET %d: %.60q", i, got)
		}
		if got := c.reply(); got != bulk(value) {
			t.Fatalf("GET %d: %.60q", i, got)
		}
	}
}

// TestAClientThatNeverReadsIsHeldBack: its commands stop being executed, and its memory stays bounded.
func TestAClientThatNeverReadsIsHeldBack(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.OutBufSoft = 1 << 16 }})
	c := r.dial()
	value := strings.Repeat("x", 10000)
	c.want("+OK\r\n", "SET", "k", value)
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(1 << 16)
	_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	get := strings.Repeat(wire("GET", "k"), 10000)
	sent := 0
	for sent < 1000 { // ends at the deadline, when the server has stopped to read
		if _, err := c.Write([]byte(get)); err != nil {
			break
		}
		sent++
	}
	if sent == 1000 {
		t.Fatal("the server read ten million commands of a client that takes no replies")
	}
	d := r.dial()
	list := d.do("CLIENT", "LIST")
	var omem int
	for line := range strings.SplitSeq(list, "\n") {
		if strings.Contains(line, "cmd=get") {
			_, rest, _ := strings.Cut(line, " omem=")
			_, _ = fmt.Sscanf(rest, "%d", &omem)
		}
	}
	if omem == 0 || omem > 1<<20 {
		t.Errorf("pending output of the client: %d bytes in %q", omem, list)
	}
	// Taking the replies sets it going again.
	for i := range 1000 {
		if got := c.reply(); got != bulk(value) {
			t.Fatalf("reply %d: %.40q", i, got)
		}
	}
}

func TestTheHardLimitClosesAClient(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.OutBufSoft, c.OutBuf[outNormal].hard = 1<<12, 1<<16 }})
	c := r.dial()
	c.want("+OK\r\n", "SET", "k", strings.Repeat("x", 60_000))
	// One reply above the limit; what the kernel takes at once does not count.
	c.send(strings.Repeat("MGET"+strings.Repeat(" k", 200)+"\r\n", 5))
	c.closed()
}

func TestTheQueryBufferLimitClosesAClient(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.QueryBufLimit = 1 << 20 }})
	c := r.dial()
	go func() { _, _ = c.Write([]byte("*2\r\n$4\r\nECHO\r\n$3000000\r\n" + strings.Repeat("x", 3000000))) }()
	c.closed()
}

func TestMaxClients(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.MaxClients = 2 }})
	a, b := r.dial(), r.dial()
	a.want("+PONG\r\n", "PING")
	b.want("+PONG\r\n", "PING")
	if got := r.dial().closed(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("the third client: %q", got)
	}
	a.want("+OK\r\n", "QUIT")
	a.closed()
}

func TestIdleClientsAreClosedAfterTimeout(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Timeout = 1 }})
	start := time.Now()
	r.dial().closed()
	if d := time.Since(start); d < time.Second || d > 10*time.Second {
		t.Errorf("closed after %v", d)
	}
}

func TestHTTPIsRefused(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a b\r\n")
	if got := c.closed(); strings.Contains(got, "OK") {
		t.Errorf("got %q", got)
	}
}

func TestRepliesComeAfterTheClientHasEndedItsSide(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	c.send(wire("SET", "a", "1") + wire("GET", "a"))
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	if got := c.closed(); got != "+OK\r\n"+bulk("1") {
		t.Errorf("got %q", got)
	}
}

// TestAParkedClientThatGoesIsNoticed: it waits for a second replica, which there never is.
func TestAParkedClientThatGoesIsNoticed(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	c.send(wire("WAIT", "2", "0"))
	_ = c.Close()
	d := r.dial()
	for start := time.Now(); ; {
		if info := d.do("INFO", "clients"); strings.Contains(info, "connected_clients:1\r") && strings.Contains(info, "blocked_clients:0\r") {
			return
		} else if time.Since(start) > 10*time.Second {
			t.Fatalf("still there: %q", info)
		}
	}
}

// TestManyClientsOnSeveralLoops is for the race detector: counters that many clients raise, with listings between.
func TestManyClientsOnSeveralLoops(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 3 }})
	const clients, rounds = 12, 40
	var all sync.WaitGroup
	var conns []*client
	for range clients {
		c := r.dial()
		c.want("+PONG\r\n", "PING") // every loop has its clients
		conns = append(conns, c)
	}
	for i, c := range conns {
		all.Go(func() {
			if i%3 == 0 {
				c.want("+OK\r\n", "CVM.DURABILITY", "durable")
			}
			for range rounds {
				c.do("INCR", "n")
				switch rand.IntN(8) {
				case 0:
					if got := c.do("CLIENT", "LIST"); strings.Count(got, "id=") != clients {
						t.Errorf("CLIENT LIST: %q", got)
						return
					}
				case 1:
					c.do("INFO")
				case 2:
					c.do("CONFIG", "SET", "hz", "20")
				case 3:
					c.want(":1\r\n", "WAIT", "1", "0")
				}
			}
		})
	}
	all.Wait()
	r.dial().want(bulk(fmt.Sprint(clients*rounds)), "GET", "n")
}
