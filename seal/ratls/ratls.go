// Package ratls connects Redis clients to servers in confidential VMs that prove what they are.
//
// A Dialer makes a TLS connection to a server whose certificate nobody signed, asks it for evidence with a fresh nonce
// (CVM.ATTEST), and hands the connection out only if a policy accepts the evidence and it binds this very connection. Evidence
// that another VM gave, through a channel of its own, binds that VM's certificate and channel, and is refused. Any client library
// that takes a dialler can use it:
//
//	d := &ratls.Dialer{Verifier: &attest.Verifier{Policy: policy}}
//	redis.NewClient(&redis.Options{Addr: addr, Dialer: d.DialContext})
//
// In come bytes from a server that is hostile until then: lengths are bounded, waits have a deadline.
package ratls

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"cvmstore/seal/attest"
)

// Dialer connects to attested servers. Its methods may be called from any goroutine.
type Dialer struct {
	Verifier *attest.Verifier
	Store    *[16]byte        // the store that must be served; nil: any that an accepted server serves
	Cert     *tls.Certificate // shown to servers that ask for one; nil: none
	Timeout  time.Duration    // of connecting and attesting together; default 20 s
}

// ErrUnattested: the server answers, but gave no evidence. It may be another program.
var ErrUnattested = errors.New("the server gave no evidence of what it is")

const (
	timeoutDefault = 20 * time.Second
	nonceSize      = 32
	// replyMax bounds one string of the reply, in bytes: a report is about a kilobyte, a quote or certificates some.
	replyMax = 64 << 10
	lineMax  = 512
	// busyPause is how long to wait before a busy server is asked again, the first time.
	busyPause = 10 * time.Millisecond
)

var errBusy = errors.New("the server is busy with other reports")

// DialContext connects, verifies, and returns the connection.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, _, err := d.Dial(ctx, network, addr)
	return conn, err
}

// Dial connects, verifies, and returns the connection with what was learned of the server. A *attest.Refusal says why evidence was
// not accepted.
func (d *Dialer) Dial(ctx context.Context, network, addr string) (net.Conn, *attest.Facts, error) {
	timeout := d.Timeout
	if timeout == 0 {
		timeout = timeoutDefault
	}
	ctx, done := context.WithTimeout(ctx, timeout)
	defer done()
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, nil, err
	}
	conn, facts, err := d.secure(ctx, raw)
	if err != nil {
		_ = raw.Close()
		return nil, nil, fmt.Errorf("server %s: %w", addr, err)
	}
	return conn, facts, nil
}

// secure makes the connection TLS and attests it, until ctx ends.
func (d *Dialer) secure(ctx context.Context, raw net.Conn) (net.Conn, *attest.Facts, error) {
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	t := tls.Client(raw, d.config())
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	facts, err := d.attest(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if !stop() {
		return nil, nil, ctx.Err()
	}
	return t, facts, nil
}

// config is TLS 1.3 without names, dates and authorities: what the server is, its evidence says. A connection is never resumed.
func (d *Dialer) config() *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // instead:
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.DidResume || s.Version != tls.VersionTLS13 || len(s.PeerCertificates) == 0 {
				return errors.New("not a fresh connection of TLS 1.3 with a certificate")
			}
			return nil // TLS has checked that the server has this key; whether it may, attest decides before a byte is sent
		},
	}
	if d.Cert != nil {
		c.Certificates = []tls.Certificate{*d.Cert}
	}
	return c
}

func (d *Dialer) attest(ctx context.Context, t *tls.Conn) (*attest.Facts, error) {
	for pause := busyPause; ; pause *= 2 {
		facts, err := d.ask(t)
		if !errors.Is(err, errBusy) {
			return facts, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// ask asks once.
func (d *Dialer) ask(t *tls.Conn) (*attest.Facts, error) {
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(t, "*2\r\n$10\r\nCVM.ATTEST\r\n$%d\r\n%x\r\n", 2*nonceSize, nonce); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(t, lineMax)
	e, store, err := readEvidence(in)
	if err != nil {
		return nil, err
	}
	if in.Buffered() > 0 { // it would be lost, and no server sends what it was not asked for
		return nil, fmt.Errorf("%w: more than a reply came", ErrUnattested)
	}
	if d.Store != nil && store != *d.Store {
		return nil, &attest.Refusal{Check: "store", Reason: fmt.Errorf("it serves store %x, not %x", store, *d.Store)}
	}
	state := t.ConnectionState()
	key, err := x509.MarshalPKIXPublicKey(state.PeerCertificates[0].PublicKey)
	if err != nil {
		return nil, err
	}
	b, err := attest.ClientBinding(store, nonce, key, &state)
	if err != nil {
		return nil, err
	}
	return d.Verifier.Verify(e, b)
}

// readEvidence reads the reply of CVM.ATTEST: an array of kind, store, report and certificates.
func readEvidence(in *bufio.Reader) (*attest.Evidence, [16]byte, error) {
	var store [16]byte
	line, err := readLine(in)
	if err != nil {
		return nil, store, err
	}
	if strings.HasPrefix(line, "-BUSY") {
		return nil, store, errBusy
	}
	if line != "*4" {
		return nil, store, fmt.Errorf("%w: it says %q", ErrUnattested, line)
	}
	var parts [4][]byte
	for i := range parts {
		if parts[i], err = readBulk(in); err != nil {
			return nil, store, err
		}
	}
	if n, err := hex.Decode(store[:], parts[1][:min(len(parts[1]), 2*len(store))]); err != nil || n != len(store) || len(parts[1]) != 2*n {
		return nil, store, fmt.Errorf("%w: no store id", ErrUnattested)
	}
	return &attest.Evidence{Kind: attest.Kind(parts[0]), Report: parts[2], Certs: parts[3]}, store, nil
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnattested, err)
	}
	return strings.TrimSuffix(string(line), "\r\n"), nil
}

func readBulk(in *bufio.Reader) ([]byte, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	size, isBulk := strings.CutPrefix(line, "$")
	n, err := strconv.Atoi(size)
	if !isBulk || err != nil || n < 0 || n > replyMax {
		return nil, fmt.Errorf("%w: malformed", ErrUnattested)
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(in, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnattested, err)
	}
	return b[:n], nil
}
