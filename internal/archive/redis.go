package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Redis is a running Redis. It is asked for a copy as a replica asks: the copy is of one moment, and comes as an RDB file. A load that
// was interrupted begins anew, since the next copy is another one.
type Redis struct {
	URL     string // redis://[user[:password]@]host[:port], rediss:// for TLS, unix:///path
	Timeout time.Duration
}

const (
	redisTimeout = 60 * time.Second // without a byte
	eofMark      = 40
)

// Load implements Source.
func (s Redis) Load(l *Loader) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // only read
	in := bufio.NewReaderSize(conn, wireBuffer)
	if _, err := io.WriteString(conn, "SYNC\r\n"); err != nil {
		return err
	}
	var line string
	for line == "" { // it sends empty lines while it prepares
		text, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("waiting for a copy: %w", err)
		}
		line = strings.TrimSpace(string(text))
	}
	size, ok := strings.CutPrefix(line, "$")
	if !ok {
		return fmt.Errorf("%w: SYNC: %.200s", ErrRefused, line)
	}
	if mark, streamed := strings.CutPrefix(size, "EOF:"); streamed {
		if len(mark) != eofMark {
			return fmt.Errorf("a copy of unknown form: %.80q", line)
		}
		return RDB{in}.Load(l) // the file says itself where it ends
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("a copy of unknown form: %.80q", line)
	}
	return RDB{bufio.NewReaderSize(io.LimitReader(in, n), wireBuffer)}.Load(l)
}

// dial connects and says who we are.
func (s Redis) dial() (net.Conn, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("the address of the Redis cannot be parsed") // it may hold a password
	}
	timeout := s.Timeout
	if timeout == 0 {
		timeout = redisTimeout
	}
	network, addr := "tcp", u.Host
	switch u.Scheme {
	case "redis", "rediss":
		if u.Port() == "" {
			addr = net.JoinHostPort(u.Hostname(), "6379")
		}
	case "unix":
		network, addr = "unix", u.Path
	default:
		return nil, fmt.Errorf("scheme %q: want redis, rediss or unix", u.Scheme)
	}
	ctx, done := context.WithTimeout(context.Background(), timeout)
	defer done()
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	var conn net.Conn = &patient{raw, timeout}
	if u.Scheme == "rediss" {
		t := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12})
		if err := t.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		conn = t
	}
	password, given := u.User.Password()
	if !given {
		return conn, nil
	}
	if err := authenticate(conn, u.User.Username(), password); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func authenticate(conn net.Conn, user, password string) error {
	args := []string{"AUTH", user, password}
	if user == "" {
		args = []string{"AUTH", password}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := conn.Write(b.Bytes()); err != nil {
		return err
	}
	// One byte at a time: nothing behind the line may be taken.
	var line []byte
	for one := make([]byte, 1); len(line) < 256; {
		if _, err := conn.Read(one); err != nil {
			return err
		}
		if line = append(line, one[0]); one[0] == '\n' {
			break
		}
	}
	if !bytes.Equal(line, []byte("+OK\r\n")) {
		return fmt.Errorf("%w: AUTH: %.100q", ErrRefused, line)
	}
	return nil
}

// patient is a connection on which every wait has a bound of its own.
type patient struct {
	net.Conn
	timeout time.Duration
}

// Read implements net.Conn.
func (p *patient) Read(b []byte) (int, error) {
	_ = p.SetReadDeadline(time.Now().Add(p.timeout))
	return p.Conn.Read(b)
}

// Write implements net.Conn.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(p.timeout))
	return p.Conn.Write(b)
}
