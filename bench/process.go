package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// server is one program under test, listening on loopback.
type server struct {
	name string
	port int
	tls  *certificates // of its listener; nil: plaintext
	cmd  *exec.Cmd
	log  bytes.Buffer
}

// startTimeout bounds how long a server may take until it answers.
const startTimeout = 20 * time.Second

// startServer runs a program whose arguments name its port and waits until it accepts connections.
func startServer(ctx context.Context, name string, command func(port int) *exec.Cmd) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{name: name, port: port, cmd: command(port)}
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = dieWithUs()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if c, err := net.DialTimeout("tcp", s.address(), time.Second); err == nil {
			_ = c.Close()
			return s, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("%s does not answer on port %d: %s", name, port, s.log.String())
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// stop ends the program: politely, then not.
func (s *server) stop() {
	done := make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(done)
	}()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(startTimeout):
		_ = s.cmd.Process.Kill()
		<-done
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// lookPath finds a program that the comparison needs, or says which package has it.
func lookPath(program, debian string) (string, error) {
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not installed: apt-get install %s", program, debian)
	}
	return path, err
}

// self is the program that runs, to be started again as the server.
func self() (string, error) { return os.Executable() }
