package resp

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
)

func TestThePortChangesWithoutARestart(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Loops = 2 }})
	c, other := r.dial(), r.dial() // of different loops
	before := r.srv.Addr().String()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // a test's
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	const failed = "-ERR CONFIG SET failed (possibly related to argument 'port') - "
	c.want(failed+"Unable to listen on this port. Check server logs.\r\n", "CONFIG", "SET", "maxmemory", "10000001", "port", port)
	c.want("*2\r\n"+bulk("maxmemory")+bulk("0"), "CONFIG", "GET", "maxmemory")
	if r.srv.Addr().String() != before {
		t.Error("it listens elsewhere after a failure")
	}
	_ = taken.Close()
	c.want("+OK\r\n", "CONFIG", "SET", "port", port)
	c.want("*2\r\n"+bulk("port")+bulk(port), "CONFIG", "GET", "port")
	if n := c.info("server", "tcp_port"); strconv.FormatInt(n, 10) != port {
		t.Errorf("INFO says port %d, want %s", n, port)
	}
	r.dial().want("+PONG\r\n", "PING")
	eventually(t, "the old port is closed", func() bool {
		conn, err := net.Dial("tcp", before)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	other.want("+PONG\r\n", "PING")
	other.want("+OK\r\n", "CONFIG", "SET", "port", "0")
	other.want("+PONG\r\n", "PING")
	eventually(t, "no port is open", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

// A port that must not be opened in plaintext is not opened by CONFIG SET either.
func TestAnExposedPortIsRefused(t *testing.T) {
	r := newRig(t, rigOptions{exposed: func(Config) error { return errors.New("plaintext beyond this machine") }})
	before := r.srv.Addr().String()
	c := r.dial()
	if got := c.do("CONFIG", "SET", "port", "1"); !strings.HasSuffix(got, "plaintext beyond this machine\r\n") {
		t.Errorf("%q", got)
	}
	if r.srv.Addr().String() != before {
		t.Error("it listens elsewhere")
	}
}
