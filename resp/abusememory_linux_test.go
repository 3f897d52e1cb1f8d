package resp

import (
	"crypto/tls"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMemoryIsBoundedUnderAbuse: clients that take nothing, that send a command byte by byte, that never end their handshake,
// and that are wrong before they have logged in, all at once. What they make the server hold has a bound, and others are served.
func TestMemoryIsBoundedUnderAbuse(t *testing.T) {
	const (
		readers, writers, halfOpen = 40, 100, handshakesMax + 50
		pause                      = 64 << 10
		eachReader                 = 4 * pause // its pending output, and what the collector leaves for later
		eachHandshake              = 32 << 10
		eachOther                  = 16 << 10
		base                       = 8 << 20
	)
	a := newAuthority(t)
	r := secureRig(t, a, func(c *Config) { c.RequirePass, c.OutBufSoft, c.MaxClients = "pw", pause, 5000 })
	login := func() *client {
		c := r.dial()
		c.want("+OK\r\n", "AUTH", "pw")
		return c
	}
	good := login()
	good.want("+OK\r\n", "SET", "k", strings.Repeat("x", 10_000))
	secured := r.secure(a.client(""))
	secured.want("+OK\r\n", "AUTH", "pw")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)

	ask := []byte(strings.Repeat(wire("GET", "k"), 1000))
	for range readers {
		c := login()
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(1 << 14)
		_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		for range 50 { // 500 MB, were they all answered
			if _, err := c.Write(ask); err != nil {
				break
			}
		}
	}
	for range writers {
		login().send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$400000000\r\n" + strings.Repeat("x", 100))
	}
	for range halfOpen {
		c, err := net.Dial("tcp", r.srv.TLSAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte{22, 3, 1, 1, 0, 1})
	}
	for _, bad := range []string{
		"*1000000000\r\n", "*2\r\n$4\r\nECHO\r\n$536870912\r\n" + strings.Repeat("x", 1000), "*1\r\n$99999999999999999999\r\n",
		strings.Repeat("y", 100_000), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "*100000\r\n" + strings.Repeat("$1\r\na\r\n", 100),
	} {
		for range 20 {
			c := r.dial()
			go func() { _, _ = c.Write([]byte(bad)) }()
			if got := c.closed(); !strings.HasPrefix(got, "-") && got != "" {
				t.Errorf("%.40q is answered with %q", bad, got)
			}
		}
	}

	// Everything above has been read by the time that these are answered.
	good.want("+PONG\r\n", "PING")
	secured.want("+PONG\r\n", "PING")
	if _, err := tls.Dial("tcp", r.srv.TLSAddr().String(), a.client("")); err != nil {
		t.Errorf("a handshake among half-open ones: %v", err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	bound := int64(base + readers*eachReader + handshakesMax*eachHandshake + (readers+writers+halfOpen)*eachOther)
	t.Logf("%d slow readers, %d slow writers, %d half-open handshakes: heap %d KiB before, %d KiB more after (bound %d KiB)",
		readers, writers, halfOpen, before.HeapAlloc>>10, grown>>10, bound>>10)
	if grown > bound {
		t.Errorf("%d bytes", grown)
	}
}
