package resp

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 2 { // the second start finds the first one's socket gone or stale
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err == nil {
			ln.SetUnlinkOnClose(false)
			_ = ln.Close()
		}
		r := newRig(t, rigOptions{config: func(c *Config) { c.UnixSocket, c.UnixPerm, c.Port = path, 0o700, 0 }, keep: true})
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c := &client{t, conn, bufio.NewReader(conn)}
		c.want("+OK\r\n", "SET", "a", "1")
		if got := c.do("CLIENT", "INFO"); !strings.Contains(got, fmt.Sprintf(" addr=%s:0 laddr=%s:0 ", path, path)) || !strings.Contains(got, " flags=U ") {
			t.Errorf("CLIENT INFO: %q", got)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("mode: %v %v", st, err)
		}
		_ = conn.Close()
		if err := r.srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the socket stays: %v", err)
		}
	}
}
