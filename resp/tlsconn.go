package resp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// secure is a connection under TLS, after its handshake. crypto/tls wants a net.Conn: tlsWire is one that never blocks. A read
// that finds the socket empty fails with a temporary error, which leaves the state of crypto/tls as it is, a partial record
// included; what the socket does not take of a write stays here, since a failed write would be the connection's end.
type secure struct {
	tls   *tls.Conn
	wire  *tlsWire
	key   []byte // public, of the certificate that this end showed
	more  bool   // the last read filled its buffer: crypto/tls may hold more
	ended bool   // the client has sent its last byte
}

// tlsWriteMax bounds what one write encrypts ahead of the socket, and so what a slow client makes a connection hold.
const tlsWriteMax = 64 << 10

func (c *secure) fd() int     { return c.wire.sock.fd() }
func (c *secure) held() bool  { return c.more || c.ended }
func (c *secure) unsent() int { return len(c.wire.out) }
func (c *secure) push() error { return c.wire.push() }

// close says goodbye, if the socket takes it at once.
func (c *secure) close() { _ = c.tls.Close() }

// read takes as many records as fit p.
func (c *secure) read(p []byte) (n int, err error) {
	c.more = false
	for n < len(p) && !c.ended {
		m, err := c.tls.Read(p[n:])
		n += m
		switch {
		case err == nil:
		case errors.Is(err, errWire):
			if n == 0 {
				return 0, errAgain
			}
			return n, nil
		case err == io.EOF:
			c.ended = true
		case n == 0:
			return 0, err
		default:
			c.more = true // the error comes again
			return n, nil
		}
	}
	c.more = n == len(p)
	return n, nil
}

func (c *secure) write(p []byte) (int, error) {
	if len(c.wire.out) > 0 {
		if err := c.wire.push(); err != nil {
			return 0, err
		}
	}
	return c.tls.Write(p[:min(len(p), tlsWriteMax)])
}

// tlsWire is the side of a TLS connection that faces the network. During the handshake, which a goroutine of its own waits
// for, it goes through early; afterwards the loop alone uses it.
type tlsWire struct {
	sock  conn
	early net.Conn // nil once the handshake is done
	out   []byte   // encrypted, not sent yet
}

// errWire is the temporary error of a socket that has nothing to read.
var errWire net.Error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "would block" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

func (w *tlsWire) Read(p []byte) (int, error) {
	if w.early != nil {
		return w.early.Read(p)
	}
	n, err := w.sock.read(p)
	switch {
	case err == errAgain:
		return 0, errWire
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

func (w *tlsWire) Write(p []byte) (int, error) {
	if w.early != nil {
		return w.early.Write(p)
	}
	rest := p
	for len(w.out) == 0 && len(rest) > 0 {
		n, err := w.sock.write(rest)
		if err == errAgain {
			break
		}
		if err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	w.out = append(w.out, rest...)
	return len(p), nil
}

// push sends what is left of earlier writes; errAgain: not all of it.
func (w *tlsWire) push() error {
	sent := 0
	for sent < len(w.out) {
		n, err := w.sock.write(w.out[sent:])
		if err != nil {
			w.out = append(w.out[:0], w.out[sent:]...)
			return err
		}
		sent += n
	}
	w.out = nil
	return nil
}

func (w *tlsWire) Close() error {
	if w.early != nil {
		_ = w.early.Close()
	}
	w.sock.close()
	return nil
}

func (w *tlsWire) LocalAddr() net.Addr  { return wireAddr{} }
func (w *tlsWire) RemoteAddr() net.Addr { return wireAddr{} }

func (w *tlsWire) SetDeadline(t time.Time) error {
	if w.early != nil {
		return w.early.SetDeadline(t)
	}
	return nil
}

func (w *tlsWire) SetReadDeadline(time.Time) error  { return nil }
func (w *tlsWire) SetWriteDeadline(time.Time) error { return nil }

type wireAddr struct{}

func (wireAddr) Network() string { return "tcp" }
func (wireAddr) String() string  { return "client" }
