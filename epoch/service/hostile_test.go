package service_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/service"
	"cvmstore/epoch/wire"
)

// lossyNet loses answers: the request arrives, and what comes back does not.
type lossyNet struct {
	mu   sync.Mutex
	left int
	lost int
}

type lossyConn struct {
	net.Conn
	n *lossyNet
}

func (n *lossyNet) lose(k int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left = k
}

func (n *lossyNet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &lossyConn{c, n}, err
}

// Read loses what looks like an answer: application data of some length, which handshakes and session tickets are not.
func (c *lossyConn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if err == nil && c.n.left > 0 && c.n.answered(p[:k]) {
		c.n.left--
		c.n.lost++
		_ = c.Close()
		return 0, errors.New("connection reset")
	}
	return k, err
}

// answered: crypto/tls reads a record's header first, then its body; an HTTP answer of ours is one record of over 100 bytes
// that comes when no handshake is under way, that is after the client has written its request.
func (n *lossyNet) answered(p []byte) bool {
	return bytes.HasPrefix(p, []byte{23, 3, 3}) && len(p) > 100 && len(p) < 600
}

func (r *rig) raw(t *testing.T, p *party) *tls.Conn {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
	if p != nil {
		config.Certificates = []tls.Certificate{p.cert}
	}
	c, err := tls.Dial("tcp", r.server.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func postRaw(body []byte, path string) []byte {
	return append(fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, len(body)), body...)
}

// Malformed input is refused with a status below 500, or the connection ends; the service then still answers others, and the
// record is what it was.
func TestHostileInput(t *testing.T) {
	r := newRig(t, service.Limits{RequestWindow: 300 * time.Millisecond, Idle: 300 * time.Millisecond})
	p, c, rec := r.opened(storeA)
	good := wire.Request{Op: wire.OpCommit, Store: storeA, Commit: next(rec)}
	body := good.Append(nil)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(body)
		b[at] = to
		return b
	}
	cases := map[string][]byte{
		"another magic":     postRaw(change(0, 'X'), "/v1/commit"),
		"another version":   postRaw(change(4, 9), "/v1/commit"),
		"another op":        postRaw(change(6, 1), "/v1/commit"),
		"another path":      postRaw(body, "/v1/open"),
		"unknown flag":      postRaw(change(7, 0x80), "/v1/commit"),
		"reserved byte":     postRaw(change(9, 1), "/v1/commit"),
		"too short":         postRaw(body[:40], "/v1/commit"),
		"empty":             postRaw(nil, "/v1/commit"),
		"too long":          postRaw(append(bytes.Clone(body), 0), "/v1/commit"),
		"much too long":     postRaw(make([]byte, 1<<20), "/v1/commit"),
		"no such path":      postRaw(body, "/v1/destroy"),
		"no such version":   postRaw(body, "/v2/commit"),
		"GET":               []byte("GET /v1/commit HTTP/1.1\r\nHost: x\r\n\r\n"),
		"not HTTP":          append([]byte("*3\r\n$3\r\nSET\r\n"), make([]byte, 4096)...),
		"huge header":       []byte("POST /v1/commit HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"),
		"endless header":    []byte("POST /v1/commit HTTP/1.1\r\nHost: x\r\nA: "),
		"body never comes":  []byte("POST /v1/commit HTTP/1.1\r\nHost: x\r\nContent-Length: 112\r\n\r\n"),
		"two lengths":       []byte("POST /v1/commit HTTP/1.1\r\nHost: x\r\nContent-Length: 112\r\nContent-Length: 5\r\n\r\n"),
		"negative length":   []byte("POST /v1/commit HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"),
		"operator's JSON":   postRaw([]byte(`{"store":`), "/v1/operator/freeze"),
		"nothing":           nil,
		"half of a request": body[:10],
	}
	for name, input := range cases {
		t.Run(name, func(t *testing.T) {
			conn := r.raw(t, p)
			_, _ = conn.Write(input)
			answer, err := io.ReadAll(io.LimitReader(conn, 1<<16)) // ends: each wait of the service is bounded
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("the service neither answered nor ended the connection")
			}
			if len(answer) > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) {
				t.Errorf("answer: %.80q", answer)
			}
			if got := must[epoch.ReadReply](t)(c.Read(ctx, storeA)).Record; got != rec {
				t.Errorf("the record changed to %+v", got)
			}
		})
	}
}

func TestOnlyTLS13WithACertificate(t *testing.T) {
	r := newRig(t, service.Limits{})
	p, _ := r.client(service.RoleClient)
	for name, config := range map[string]*tls.Config{
		"TLS 1.2":                   {InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{p.cert}},
		"no certificate":            {InsecureSkipVerify: true},
		"somebody who is unknown":   {InsecureSkipVerify: true, Certificates: []tls.Certificate{newParty(t).cert}},
		"a certificate without key": {InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: p.cert.Certificate, PrivateKey: newParty(t).key}}},
	} {
		c, err := tls.Dial("tcp", r.server.Addr().String(), config)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write([]byte("GET /v1/service HTTP/1.1\r\nHost: x\r\n\r\n"))
		if answer, err := io.ReadAll(c); err == nil || len(answer) > 0 {
			t.Errorf("%s: answered %.80q", name, answer)
		}
		_ = c.Close()
	}
	plain, err := net.Dial("tcp", r.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_ = plain.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = plain.Write([]byte("GET /v1/service HTTP/1.1\r\nHost: x\r\n\r\n"))
	if answer, _ := io.ReadAll(plain); bytes.Contains(answer, []byte("instance")) {
		t.Errorf("plaintext was answered: %.80q", answer)
	}
}

// A recorded answer is worthless: each question has a nonce, and a statement of another store or kind is none.
func TestReplayedAnswers(t *testing.T) {
	r := newRig(t, service.Limits{})
	_, c, _ := r.opened(storeA)
	s, raw, err := c.ReadSigned(ctx, storeA, wire.Nonce{1})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]error{
		"another nonce": s.Answers(wire.OpRead, storeA, wire.Nonce{2}),
		"another store": s.Answers(wire.OpRead, storeB, wire.Nonce{1}),
		"another kind":  s.Answers(wire.OpOpen, storeA, wire.Nonce{1}),
	} {
		wantErr(t, name, q, wire.ErrMalformed)
	}
	if err := s.Answers(wire.OpRead, storeA, wire.Nonce{1}); err != nil {
		t.Error(err)
	}
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 0x10
		if _, err := wire.OpenStatement(r.service.PublicKey(), bad); err == nil {
			t.Errorf("byte %d changed: still believed", i)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, service.Limits{PerIdentity: 3, Handshakes: 5, RequestWindow: 500 * time.Millisecond})
	p, c, _ := r.opened(storeA)
	_, other, _ := r.opened(storeB)
	ask := func(conn net.Conn) int {
		_, _ = conn.Write([]byte("GET /v1/service HTTP/1.1\r\nHost: x\r\n\r\n"))
		answer := make([]byte, 64)
		n, _ := io.ReadFull(conn, answer)
		var status int
		_, _ = fmt.Sscanf(string(answer[:n]), "HTTP/1.1 %d", &status)
		return status
	}
	refused := 0
	for range 8 {
		if ask(r.raw(t, p)) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 6 { // c has one
		t.Errorf("%d of 8 further connections of one identity were refused, want 6", refused)
	}
	// Connections that say nothing do not keep others out for longer than the window.
	for range 20 {
		if conn, err := net.Dial("tcp", r.server.Addr().String()); err == nil {
			defer conn.Close()
		}
	}
	must[epoch.ReadReply](t)(other.Read(ctx, storeB)) // a connection that is there stays
	must[epoch.ReadReply](t)(c.Read(ctx, storeA))
	q, _ := r.client(service.RoleClient)
	fresh := r.dial(q)
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := fresh.Read(ctx, storeA)
		if errors.Is(err, epoch.ErrForbidden) {
			break // it was heard
		}
		if time.Now().After(deadline) {
			t.Fatalf("silent connections keep others out: %v", err)
		}
	}
	if n, _ := r.server.Refused(); n == 0 {
		t.Error("nothing was refused")
	}
}

// A store that floods the service does not starve another: the flood is slowed down, and the other is not. limits_test.go has
// the arithmetic.
func TestFloodDoesNotStarveOthers(t *testing.T) {
	r := newRig(t, service.Limits{Rate: 50, Burst: 10, PerIdentity: 8})
	p, _, recA := r.opened(storeA)
	_, quiet, rec := r.opened(storeB)
	for _, before := r.server.Refused(); ; {
		var flood sync.WaitGroup
		for range 8 {
			c := r.dial(p)
			flood.Go(func() {
				for range 5 {
					_, err := commit(c, epoch.CommitRequest{Store: storeA, Gen: recA.Gen, Expected: epoch.Tag{1}, Value: 1, Tag: epoch.Tag{2}})
					if !errors.Is(err, epoch.ErrConflict) && !errors.Is(err, wire.ErrSlowDown) {
						t.Errorf("flood: %v", err)
					}
				}
				_ = c.Close()
			})
		}
		req := next(rec)
		must[epoch.Stamp](t)(commit(quiet, req))
		rec = must[epoch.Record](t)(rec.Apply(req))
		flood.Wait()
		if _, slowed := r.server.Refused(); slowed > before+20 {
			break
		}
	}
	if got := must[epoch.ReadReply](t)(quiet.Read(ctx, storeB)).Record; got != rec {
		t.Errorf("beside a flood: %+v", got)
	}
}
