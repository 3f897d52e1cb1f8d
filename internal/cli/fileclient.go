package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// fileServer says where the server is that `cvmstore file` talks to.
type fileServer struct {
	Addr     string        `help:"Address of the server." default:"127.0.0.1:6379" env:"CVMSTORE_ADDR"`
	User     string        `help:"User to log in as." default:"default"`
	Password string        `help:"Password; better given in the environment." env:"CVMSTORE_PASSWORD"`
	TLS      bool          `name:"tls" help:"Speak TLS."`
	CACert   string        `name:"cacert" help:"Certificates to trust, a PEM file; default: those of the system." type:"existingfile"`
	Timeout  time.Duration `help:"How long the server may be silent." default:"60s"`
}

// respConn is a connection that sends commands and reads replies, one at a time, with bodies that are streamed.
type respConn struct {
	net.Conn
	r       *bufio.Reader
	timeout time.Duration
}

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

const (
	replyBulkMax  = 64 << 20 // of a reply that is read into memory
	replyCountMax = 1 << 22
	replyDepthMax = 8
)

func (s *fileServer) dial(ctx context.Context) (*respConn, error) {
	d := net.Dialer{Timeout: s.Timeout}
	network := "tcp"
	if strings.HasPrefix(s.Addr, "/") {
		network = "unix"
	}
	c, err := d.DialContext(ctx, network, s.Addr)
	if err != nil {
		return nil, err
	}
	if s.TLS {
		host, _, _ := net.SplitHostPort(s.Addr)
		config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
		if s.CACert != "" {
			pem, err := os.ReadFile(s.CACert)
			if err != nil {
				_ = c.Close()
				return nil, err
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				_ = c.Close()
				return nil, fmt.Errorf("%s: no certificates in it", s.CACert)
			}
		}
		c = tls.Client(c, config)
	}
	r := &respConn{Conn: c, r: bufio.NewReaderSize(c, 64<<10), timeout: s.Timeout}
	if s.Password != "" {
		if _, err := r.do("AUTH", s.User, s.Password); err != nil {
			_ = r.Close()
			return nil, err
		}
	}
	return r, nil
}

// progress renews the deadline: bytes have moved.
func (c *respConn) alive() { _ = c.SetDeadline(time.Now().Add(c.timeout)) }

func appendBulk(b []byte, s string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)), 10)
	b = append(b, "\r\n"...)
	return append(append(b, s...), "\r\n"...)
}

// do sends a command and returns its reply: a string, an int64, nil, or a list of these.
func (c *respConn) do(args ...string) (any, error) {
	b := append(strconv.AppendInt([]byte{'*'}, int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		b = appendBulk(b, a)
	}
	c.alive()
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	return c.reply()
}

// doBody is do with a body of size bytes from src in place of an argument, followed by rest.
func (c *respConn) doBody(args []string, src io.Reader, size int64, rest []string, moved func(int)) (any, error) {
	b := append(strconv.AppendInt([]byte{'*'}, int64(len(args)+1+len(rest)), 10), "\r\n"...)
	for _, a := range args {
		b = appendBulk(b, a)
	}
	b = append(strconv.AppendInt(append(b, '$'), size, 10), "\r\n"...)
	c.alive()
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	buf := make([]byte, 256<<10)
	for left := size; left > 0; {
		n, err := io.ReadFull(src, buf[:min(left, int64(len(buf)))])
		if err != nil {
			return nil, fmt.Errorf("it became shorter while it was read: %w", err)
		}
		c.alive()
		if _, err := c.Write(buf[:n]); err != nil {
			return nil, err
		}
		left -= int64(n)
		moved(n)
	}
	b = append(b[:0], "\r\n"...)
	for _, a := range rest {
		b = appendBulk(b, a)
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	return c.reply()
}

func (c *respConn) line() (kind byte, text string, err error) {
	c.alive()
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, "", errors.New("the server does not speak RESP")
	}
	return line[0], string(line[1 : len(line)-2]), nil
}

func (c *respConn) reply() (any, error) { return c.replyAt(0) }

func (c *respConn) replyAt(depth int) (any, error) {
	kind, text, err := c.line()
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, replyError(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the server does not speak RESP: %q", text)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$' && n <= replyBulkMax:
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*' && n <= replyCountMax && depth < replyDepthMax:
		var list []any
		for range n {
			x, err := c.replyAt(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a reply of kind %q and length %d", kind, n)
}

// bodyTo sends a command whose reply is a bulk string of want bytes, which goes to dst piece by piece.
func (c *respConn) bodyTo(dst io.Writer, want int64, moved func(int), args ...string) error {
	b := append(strconv.AppendInt([]byte{'*'}, int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		b = appendBulk(b, a)
	}
	c.alive()
	if _, err := c.Write(b); err != nil {
		return err
	}
	kind, text, err := c.line()
	switch n, perr := strconv.ParseInt(text, 10, 64); {
	case err != nil:
		return err
	case kind == '-':
		return replyError(text)
	case kind != '$' || perr != nil || n < 0:
		return errGone
	case n != want:
		return errChangedFile
	}
	buf := make([]byte, 256<<10)
	for left := want; left > 0; {
		c.alive()
		n, err := c.r.Read(buf[:min(left, int64(len(buf)))])
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			left -= int64(n)
			moved(n)
		}
		if err != nil {
			return fmt.Errorf("the server ended the connection in the middle of the file, perhaps because what comes next does not verify (see cvmstore file verify, and its log): %w", err)
		}
	}
	_, err = c.r.Discard(2)
	return err
}

var (
	errGone        = errors.New("there is no such file")
	errChangedFile = errors.New("the file was replaced while it was read: try again")
)

func str(x any) string {
	s, _ := x.(string)
	return s
}

func num(x any) int64 {
	n, _ := x.(int64)
	return n
}

// fields makes a map of a reply that lists names and values.
func fields(x any) map[string]any {
	list, _ := x.([]any)
	m := make(map[string]any, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		m[str(list[i])] = list[i+1]
	}
	return m
}
