package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the path of the built binary.
var program string

func TestMain(m *testing.M) {
	if runtime.GOOS != "linux" {
		fmt.Println("the server runs on Linux: nothing to test here")
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "cvmstore-e2e-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	program = filepath.Join(dir, "cvmstore")
	build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", program, "cvmstore")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// deadline bounds every wait for the program.
const deadline = 60 * time.Second

// server is a running program.
type server struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd
	log  lockedBuffer
	done chan struct{} // closed when the process has ended
	code int
}

// lockedBuffer is a log that is written and read at the same time.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// launch starts "serve" on a free port with its data in dir, and waits until it is ready or has ended.
func launch(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	return launchProgram(t, dir, append([]string{"serve", "--port=-1", "--dir", dir, "--log-format", "json"}, args...))
}

// launchProgram starts any command that says "ready" with an address, and waits for that or its end.
func launchProgram(t *testing.T, dir string, args []string) *server {
	t.Helper()
	s := &server{t: t, dir: dir, done: make(chan struct{})}
	s.cmd = exec.Command(program, args...)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go s.follow(stderr, ready)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("log of the server on %s:\n%s", dir, s.log.String())
		}
	})
	select {
	case s.addr = <-ready:
	case <-s.done:
	case <-time.After(deadline):
		t.Fatalf("neither ready nor ended after %v", deadline)
	}
	return s
}

// follow reads the log to its end, then the exit code.
func (s *server) follow(stderr io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(io.TeeReader(stderr, &s.log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Message, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && strings.HasPrefix(line.Message, "ready") && line.Addr != "" {
			ready <- line.Addr
		}
	}
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		s.code = exit.ExitCode()
	}
	close(s.done)
}

// start launches a server that must become ready.
func start(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	s := launch(t, dir, args...)
	if s.addr == "" {
		t.Fatalf("the server did not start: exit code %d\n%s", s.code, s.log.String())
	}
	return s
}

// refused launches a server that must end by itself with this exit code and say all of these things.
func refused(t *testing.T, dir string, code int, says []string, args ...string) {
	t.Helper()
	s := launch(t, dir, args...)
	if s.addr != "" {
		t.Fatalf("the server started, but should have been refused with exit code %d", code)
	}
	if s.code != code {
		t.Errorf("exit code %d, want %d\n%s", s.code, code, s.log.String())
	}
	for _, text := range says {
		if !strings.Contains(s.log.String(), text) {
			t.Errorf("the log does not say %q:\n%s", text, s.log.String())
		}
	}
	if strings.Contains(s.log.String(), "goroutine ") {
		t.Errorf("the server crashed:\n%s", s.log.String())
	}
}

// kill is kill -9.
func (s *server) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	<-s.done
}

// pause stops the process where it is, or lets it go on.
func (s *server) pause(stopped bool) {
	s.t.Helper()
	sig := syscall.SIGCONT
	if stopped {
		sig = syscall.SIGSTOP
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// stop sends a signal and returns the exit code.
func (s *server) stop(sig syscall.Signal) int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	return s.wait()
}

func (s *server) wait() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(deadline):
		s.t.Fatalf("still running after %v", deadline)
	}
	return s.code
}
