package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// client is the smallest RESP2 client.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// missing is the reply to a GET of a key that is not there.
const missing = "(nil)"

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := connect(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

func connect(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, deadline)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn)}, nil
}

// send writes commands without waiting for replies.
func (c *client) send(commands ...[]string) error {
	var b strings.Builder
	for _, args := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	_, err := io.WriteString(c.conn, b.String())
	return err
}

// receive reads one reply: strings as they are, errors with their "-", arrays with spaces between.
func (c *client) receive() (string, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("an empty reply")
	}
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '-':
		return line, nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", fmt.Errorf("reply %q: %w", line, err)
	}
	if n < 0 {
		return missing, nil
	}
	if line[0] == '*' {
		parts := make([]string, n)
		for i := range parts {
			if parts[i], err = c.receive(); err != nil {
				return "", err
			}
		}
		return strings.Join(parts, " "), nil
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return "", err
	}
	return string(body[:n]), nil
}

// do sends a command and returns its reply.
func (c *client) do(t *testing.T, args ...string) string {
	t.Helper()
	if err := c.send(args); err != nil {
		t.Fatal(err)
	}
	reply, err := c.receive()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// expect is do with a check.
func (c *client) expect(t *testing.T, want string, args ...string) {
	t.Helper()
	if got := c.do(t, args...); got != want {
		t.Errorf("%s: got %q, want %q", strings.Join(args, " "), got, want)
	}
}
