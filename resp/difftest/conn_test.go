package difftest

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

// conn speaks bytes with a server.
type conn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

// dial connects, and waits for a server that is still starting.
func dial(t *testing.T, network, addr string, proto int) *conn {
	t.Helper()
	var nc net.Conn
	var err error
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		if nc, err = net.Dial(network, addr); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &conn{t, nc, bufio.NewReaderSize(nc, 1<<16), bufio.NewWriterSize(nc, 1<<16)}
	if got := c.do("HELLO", strconv.Itoa(proto)); strings.HasPrefix(got, "-") {
		t.Fatal(got)
	}
	return c
}

func (c *conn) send(args []string) {
	fmt.Fprintf(c.w, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(c.w, "$%d\r\n%s\r\n", len(a), a)
	}
}

// batch sends commands and reads their replies.
func (c *conn) batch(cmds [][]string) []string {
	c.t.Helper()
	_ = c.SetDeadline(time.Now().Add(deadline))
	for _, cmd := range cmds {
		c.send(cmd)
	}
	if err := c.w.Flush(); err != nil {
		c.t.Fatal(err)
	}
	out := make([]string, len(cmds))
	for i := range cmds {
		var err error
		if out[i], err = readReply(c.r); err != nil {
			c.t.Fatalf("%.200q: %v", cmds[i], err)
		}
	}
	return out
}

func (c *conn) do(args ...string) string {
	c.t.Helper()
	return c.batch([][]string{args})[0]
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return line, nil
		}
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return line + string(body), err
	case '*', '~', '>', '%':
		if line[0] == '%' {
			n *= 2
		}
		var b strings.Builder
		b.WriteString(line)
		for range max(n, 0) {
			part, err := readReply(r)
			b.WriteString(part)
			if err != nil {
				return b.String(), err
			}
		}
		return b.String(), nil
	case '+', '-', ':', ',', '_', '#', '(':
		return line, nil
	}
	return line, fmt.Errorf("not a reply: %q", line)
}

// bulk returns the string in a reply.
func bulk(reply string) (string, bool) {
	head, body, ok := strings.Cut(reply, "\r\n")
	if !ok || head[0] != '$' || head[1] == '-' {
		return "", false
	}
	return strings.TrimSuffix(body, "\r\n"), true
}

// integer returns the number in a reply.
func integer(reply string) (int64, bool) {
	if reply == "" || reply[0] != ':' {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(reply[1:]), 10, 64)
	return n, err == nil
}

// bulks returns the strings of an array of strings.
func bulks(reply string) []string {
	r := bufio.NewReader(strings.NewReader(reply))
	if line, err := r.ReadString('\n'); err != nil || line[0] != '*' && line[0] != '~' && line[0] != '%' {
		return nil
	}
	var out []string
	for {
		part, err := readReply(r)
		if err != nil {
			return out
		}
		out = append(out, part)
	}
}
