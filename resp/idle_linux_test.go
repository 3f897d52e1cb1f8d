package resp

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var idleConnections = flag.Int("idle", 2000, "connections of TestManyIdleConnections; a soak takes 10000")

// TestManyIdleConnections: their clients live in a process of their own, since both ends would need too many descriptors.
func TestManyIdleConnections(t *testing.T) {
	if addr := os.Getenv("CVMSTORE_TEST_IDLE"); addr != "" {
		idleClients(addr, *idleConnections)
		return
	}
	n := *idleConnections
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < uint64(n+200) {
		t.Skipf("%d descriptors are not enough for %d connections (%v)", limit.Cur, n, err)
	}
	r := newRig(t, rigOptions{config: func(c *Config) { c.MaxClients = int64(n) + 10 }})
	d := r.dial()
	d.want("+PONG\r\n", "PING")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cmd := exec.Command(os.Args[0], "-test.run=^TestManyIdleConnections$", "-idle="+strconv.Itoa(n))
	cmd.Env = append(os.Environ(), "CVMSTORE_TEST_IDLE="+r.srv.Addr().String())
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "connected\n" {
		t.Fatalf("the clients: %q %v", line, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if info := d.do("INFO", "clients"); !strings.Contains(info, fmt.Sprintf("connected_clients:%d\r", n+1)) {
		t.Errorf("INFO clients: %q", info)
	}
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(n)
	t.Logf("%d idle connections: heap %d KiB before, %d KiB after: %d bytes each", n, before.HeapAlloc>>10, after.HeapAlloc>>10, each)
	if each > 3<<10 {
		t.Errorf("%d bytes of heap for an idle connection", each)
	}
	_ = d.SetDeadline(time.Now().Add(20 * time.Second))
	d.want("+PONG\r\n", "PING")
	_ = stdin.Close()
	_ = cmd.Wait()
}

// idleClients opens connections, has each served once, and keeps them until its standard input ends.
func idleClients(addr string, n int) {
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_, err = c.Write([]byte("PING\r\n"))
		}
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 7))
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		conns[i] = c
	}
	fmt.Println("connected")
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(conns)
}
