package remote

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"cvmstore/epoch/wire"
)

// This file is as much of an HTTP/1.1 client as a commit needs, in the goroutine that asks: net/http's hands each request to two
// others, which at ten thousand commits a second costs more than sealing, signing and sending together.

// pool keeps connections that are not in use.
type pool struct {
	tls  *tls.Config
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// conn is one connection; it carries one request at a time.
type conn struct {
	*tls.Conn
	host string
	in   *bufio.Reader
	may  io.LimitedReader // below in: how much the service may still send
	out  []byte
	used time.Time
}

const (
	idleMax    = 4
	idleTime   = 30 * time.Second // the service's is longer, so it does not close what we are about to use
	headersMax = 16 << 10
)

// get returns a connection to the host of a URL.
func (p *pool) get(ctx context.Context, u string) (*conn, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(u, "https://"), "/")
	p.mu.Lock()
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if c.host == host && time.Since(c.used) < idleTime {
			p.mu.Unlock()
			return c, nil
		}
		_ = c.Close()
	}
	p.mu.Unlock()
	addr := host
	if parsed, err := url.Parse(u); err == nil && parsed.Port() == "" {
		addr = net.JoinHostPort(parsed.Hostname(), "443")
	}
	raw, err := p.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	config := p.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	c := &conn{Conn: tls.Client(raw, config), host: host}
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	c.may.R = c.Conn
	c.in = bufio.NewReaderSize(&c.may, 4<<10)
	return c, nil
}

func (p *pool) put(c *conn) {
	c.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) == idleMax {
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}

// exchange sends one request and returns the answer. The context bounds every wait of it.
func (p *pool) exchange(ctx context.Context, u, path, kind string, body []byte) (status int, answer []byte, err error) {
	c, err := p.get(ctx, u)
	if err != nil {
		return 0, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	status, answer, keep, err := c.exchange(path, kind, body)
	if !stop() && err == nil {
		keep = false // its deadline may have been spoilt just now
	}
	if err != nil || !keep {
		_ = c.Close()
	} else {
		p.put(c)
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return status, answer, err
}

func (c *conn) exchange(path, kind string, body []byte) (status int, answer []byte, keep bool, err error) {
	b := c.out[:0]
	if body == nil {
		b = append(b, "GET "...)
	} else {
		b = append(b, "POST "...)
	}
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.host...)
	if body != nil {
		b = append(b, "\r\nContent-Type: "...)
		b = append(b, kind...)
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(body)), 10)
	}
	b = append(b, "\r\n\r\n"...)
	b = append(b, body...)
	c.out = b
	if _, err := c.Write(b); err != nil {
		return 0, nil, false, err
	}
	c.may.N = headersMax + answerMax
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, false, err
	}
	answer, err = io.ReadAll(io.LimitReader(r.Body, answerMax+1))
	_ = r.Body.Close()
	if err == nil && len(answer) > answerMax {
		err = fmt.Errorf("%w: an endless answer", wire.ErrMalformed)
	}
	return r.StatusCode, answer, !r.Close && c.in.Buffered() == 0, err
}
