//go:build linux

package qemu

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	program = flag.String("server.program", "", "the cvmstore binary; empty: skip")
	dir     = flag.String("server.dir", "", "the directory of key and counter")
	image   = flag.String("server.image", "", "on the host: the image of the device that the guest's server wrote")
)

// patience bounds every wait for the server: the guest is emulated, and slow.
const patience = 90 * time.Second

// server is a cvmstore process and a connection to it.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *bytes.Buffer
	conn net.Conn
	r    *bufio.Reader
}

const serverAddress = "127.0.0.1:7411"

func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, log: &bytes.Buffer{}}
	s.cmd = exec.Command(*program, append([]string{"serve", "--dir", *dir, "--port", "7411", "--segment-size", "1mb"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	s.t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var err error
		if s.conn, err = net.Dial("tcp", serverAddress); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the server ended: %v\n%s", err, s.log)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %v", err)
		}
	}
	s.cmd.Cancel = func() error { return <-ended }
	s.r = bufio.NewReader(s.conn)
	return s
}

// end sends a signal and waits for the process.
func (s *server) end(sig syscall.Signal) {
	s.t.Helper()
	_ = s.cmd.Process.Signal(sig)
	err := s.cmd.Cancel()
	_ = s.conn.Close()
	if sig != syscall.SIGKILL && err != nil {
		s.t.Fatalf("the server ended with %v", err)
	}
}

// send writes one command; reply reads one reply: a simple string, an error, a number or a bulk string.
func (s *server) send(args ...string) error {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	_ = s.conn.SetDeadline(time.Now().Add(patience))
	_, err := s.conn.Write(b)
	return err
}

func (s *server) reply() (string, error) {
	line, err := s.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch line[0] {
	case '-':
		return "", errors.New(line)
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return "", fmt.Errorf("reply %q", line)
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(s.r, b)
		return string(b[:n]), err
	}
	return line[1:], nil
}

func (s *server) do(args ...string) string {
	s.t.Helper()
	err := s.send(args...)
	if err == nil {
		var r string
		if r, err = s.reply(); err == nil {
			return r
		}
	}
	s.t.Fatalf("%s: %v", args[0], err)
	return ""
}

// value is what key i holds: of all sizes up to some blocks.
func value(i int) string {
	return strings.Repeat(fmt.Sprintf("%08d", i*2654435761), 1+i*i%1500)
}

// write sets keys from first on until one fails or there are n, and returns how many were acknowledged.
func (s *server) write(first, n int) int {
	for i := range n {
		if s.send("SET", fmt.Sprint("key:", first+i), value(first+i)) != nil {
			return i
		}
		if r, err := s.reply(); err != nil || r != "OK" {
			return i
		}
	}
	return n
}

func (s *server) verify(n int) {
	s.t.Helper()
	for i := range n {
		if got := s.do("GET", fmt.Sprint("key:", i)); got != value(i) {
			s.t.Fatalf("key %d: %d bytes, not the %d that were acknowledged", i, len(got), len(value(i)))
		}
	}
}

func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(*program, args...).CombinedOutput()
	t.Logf("cvmstore %s:\n%s", strings.Join(args, " "), out)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The whole server on a controller behind VFIO: write, kill -9 in the middle of writes, start again, verify, stop.
func TestServerInGuest(t *testing.T) {
	if *program == "" || *image != "" {
		t.Skip("runs in a guest: make test-vfio")
	}
	address := controllers(t)[0]
	command(t, "nvme", "bind", address)
	command(t, "nvme", "identify", address)
	if out := command(t, "nvme", "format-check", address); !strings.Contains(out, "blank") {
		t.Fatal("the new disk is not blank")
	}
	const device = "vfio:"
	s := startServer(t, "--device", device+address)
	info := s.do("INFO", "everything")
	for _, want := range []string{"device:vfio:" + address, "dma_memory:huge pages", "device_path:VFIO group"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO does not say %q", want)
		}
	}
	acked := s.write(0, 100)
	s.verify(acked)
	if out, err := exec.Command(*program, "serve", "--dir", filepath.Join(*dir, "other"), "--port", "0", "--device", device+address).CombinedOutput(); err == nil {
		t.Errorf("a second server started on the device:\n%s", out)
	}
	_ = os.RemoveAll(filepath.Join(*dir, "other"))

	kill := time.AfterFunc(3*time.Second, func() { _ = s.cmd.Process.Kill() })
	acked += s.write(acked, 1000000)
	kill.Stop()
	s.end(syscall.SIGKILL)
	t.Logf("%d writes were acknowledged before kill -9", acked)
	if acked == 100 {
		t.Fatal("nothing was written before the kill")
	}

	s = startServer(t, "--device", device+address)
	s.verify(acked)
	more := s.write(acked, 50)
	if more != 50 {
		t.Fatalf("only %d of 50 writes after the restart", more)
	}
	acked += more
	s.end(syscall.SIGTERM)
	if out := command(t, "nvme", "format-check", address); !strings.Contains(out, "looks like a volume of cvmstore") {
		t.Error("the volume is not recognised")
	}
	if err := os.WriteFile(filepath.Join(*dir, "acknowledged"), fmt.Append(nil, acked), 0o600); err != nil {
		t.Fatal(err)
	}
}

// On the host, after the guest is off: the image is a volume like any other, with all that was acknowledged.
func TestImageOnTheHost(t *testing.T) {
	if *image == "" {
		t.Skip("runs after the guest: make test-vfio")
	}
	text, err := os.ReadFile(filepath.Join(*dir, "acknowledged"))
	if err != nil {
		t.Fatal(err)
	}
	acked, err := strconv.Atoi(string(text))
	if err != nil || acked < 150 {
		t.Fatalf("%q writes acknowledged", text)
	}
	if help, _ := exec.Command(*program, "--help").CombinedOutput(); bytes.Contains(help, []byte("\n  check ")) {
		command(t, "check", "--dir", *dir, "--volume", *image)
	}
	s := startServer(t, "--volume", *image)
	s.verify(acked)
	s.end(syscall.SIGTERM)
	t.Logf("%d keys of the guest verified", acked)
}
