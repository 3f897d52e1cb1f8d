package ratls_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cvmstore/seal/attest"
	"cvmstore/seal/attest/simulated"
	"cvmstore/seal/ratls"
)

var store = [16]byte{7}

// vm is a server that attests itself, and what a test changes of it.
type vm struct {
	mu       sync.Mutex // guards config
	t        *testing.T
	platform *simulated.Platform
	cert     tls.Certificate
	config   *tls.Config
	listener net.Listener
	// evidence answers CVM.ATTEST; nil: honestly.
	evidence func(nonce []byte, own *tls.Conn) string
}

func newCert(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func newVM(t *testing.T, dir string) *vm {
	t.Helper()
	p, err := simulated.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	v := &vm{t: t, platform: p, cert: newCert(t)}
	v.config = &tls.Config{Certificates: []tls.Certificate{v.cert}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}
	if v.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.listener.Close() })
	go func() {
		for {
			c, err := v.listener.Accept()
			if err != nil {
				return
			}
			go v.serve(c)
		}
	}()
	return v
}

func (v *vm) serve(raw net.Conn) {
	defer raw.Close() //nolint:errcheck // ends with the test
	v.mu.Lock()
	config := v.config
	v.mu.Unlock()
	c := tls.Server(raw, config)
	in := bufio.NewReader(c)
	for {
		var args []string
		for range 5 { // *2 $10 CVM.ATTEST $64 nonce; anything else is echoed
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			args = append(args, strings.TrimSpace(line))
			if args[0] != "*2" {
				break
			}
		}
		if args[0] != "*2" {
			_, _ = fmt.Fprintf(c, "+%s\r\n", args[0])
			continue
		}
		nonce, _ := hex.DecodeString(args[4])
		answer := v.honest
		if v.evidence != nil {
			answer = v.evidence
		}
		_, _ = io.WriteString(c, answer(nonce, c))
	}
}

// honest is what a server of ours answers.
func (v *vm) honest(nonce []byte, own *tls.Conn) string {
	state := own.ConnectionState()
	b, err := attest.ClientBinding(store, nonce, v.cert.Leaf.RawSubjectPublicKeyInfo, &state)
	if err != nil {
		return "-ERR " + err.Error() + "\r\n"
	}
	return v.report(b)
}

func (v *vm) report(b *attest.Binding) string {
	e, err := v.platform.Attest(b.Data())
	if err != nil {
		return "-ERR " + err.Error() + "\r\n"
	}
	var out strings.Builder
	out.WriteString("*4\r\n")
	for _, part := range []string{string(e.Kind), hex.EncodeToString(store[:]), string(e.Report), string(e.Certs)} {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(part), part)
	}
	return out.String()
}

func platform(t *testing.T) (dir string, v *attest.Verifier) {
	t.Helper()
	dir = t.TempDir()
	if err := simulated.Create(dir); err != nil {
		t.Fatal(err)
	}
	p, err := simulated.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../configs/policy.toml")
	if err != nil {
		t.Fatal(err)
	}
	var policy strings.Builder
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " = ")
		switch name {
		case "roots":
			line = fmt.Sprintf("roots = { %s = %q }\n", simulated.Product, filepath.Join(dir, simulated.RootsFile))
		case "products":
			line = fmt.Sprintf("products = [%q]\n", simulated.Product)
		case "measurements":
			line = fmt.Sprintf("measurements = [\"%x\"]\n", p.Measurement)
		case "revocation_lists":
			line = "revocation_lists = \"any\"\n"
		}
		policy.WriteString(line)
	}
	parsed, err := attest.ParsePolicy([]byte(policy.String()), dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, &attest.Verifier{Policy: parsed}
}

func TestAnAttestedServerIsReached(t *testing.T) {
	dir, verifier := platform(t)
	v := newVM(t, dir)
	d := &ratls.Dialer{Verifier: verifier, Store: &store}
	for range 3 {
		conn, facts, err := d.Dial(t.Context(), "tcp", v.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if string(facts.Measurement) != string(v.platform.Measurement[:]) {
			t.Errorf("measurement %x", facts.Measurement)
		}
		_, _ = io.WriteString(conn, "hello\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "+hello\r\n" {
			t.Errorf("%q, %v", line, err)
		}
		_ = conn.Close()
	}
}

// Each row is a server that is not what it must be.
func TestWhatIsRefused(t *testing.T) {
	dir, verifier := platform(t)
	other := [16]byte{8}
	for name, c := range map[string]struct {
		change func(v *vm, genuine *vm)
		store  *[16]byte
		want   string // the check, or a part of the error
	}{
		"another program":    {change: func(v, _ *vm) { v.platform.Measurement[0] ^= 1 }, want: "measurement"},
		"another store":      {change: func(*vm, *vm) {}, store: &other, want: "store"},
		"no attested server": {change: func(v, _ *vm) { v.evidence = say("-ERR unknown command\r\n") }, want: "no evidence"},
		"TLS 1.2": {change: func(v, _ *vm) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.config = &tls.Config{Certificates: []tls.Certificate{v.cert}, MaxVersion: tls.VersionTLS12}
		}, want: "protocol version"},
		"an old nonce": {change: func(v, _ *vm) {
			v.evidence = func(_ []byte, own *tls.Conn) string { return v.honest(make([]byte, 32), own) }
		}, want: "report data"},
		"evidence for another purpose": {change: func(v, _ *vm) {
			v.evidence = func(nonce []byte, own *tls.Conn) string {
				state := own.ConnectionState()
				b, _ := attest.ClientBinding(store, nonce, v.cert.Leaf.RawSubjectPublicKeyInfo, &state)
				b.Purpose = "cvmstore provision v1"
				return v.report(b)
			}
		}, want: "report data"},
		// The relay has a certificate of its own, and a connection to a genuine VM through which it passes the question on.
		"a relay through another VM's channel": {change: func(v, genuine *vm) {
			v.evidence = func(nonce []byte, _ *tls.Conn) string { return genuine.ask(nonce) }
		}, want: "report data"},
		// It even has the genuine VM's key, but not the genuine connection.
		"a relay with the genuine key": {change: func(v, genuine *vm) {
			v.config.Certificates = []tls.Certificate{genuine.cert}
			v.evidence = func(nonce []byte, _ *tls.Conn) string { return genuine.ask(nonce) }
		}, want: "report data"},
		"an endless line":   {change: func(v, _ *vm) { v.evidence = say(strings.Repeat("x", 10_000)) }, want: "buffer full"},
		"an endless string": {change: func(v, _ *vm) { v.evidence = say("*4\r\n$999999999\r\n") }, want: "malformed"},
		"a negative string": {change: func(v, _ *vm) { v.evidence = say("*4\r\n$-1\r\n") }, want: "malformed"},
		"no store id":       {change: func(v, _ *vm) { v.evidence = say("*4\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n") }, want: "no store id"},
		"an empty report": {change: func(v, _ *vm) {
			v.evidence = say("*4\r\n$7\r\nsev-snp\r\n$32\r\n" + hex.EncodeToString(store[:]) + "\r\n$0\r\n\r\n$0\r\n\r\n")
		}, want: "format"},
		"silence, then gone": {change: func(v, _ *vm) { v.evidence = func(_ []byte, c *tls.Conn) string { _ = c.Close(); return "" } }, want: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			genuine, v := newVM(t, dir), newVM(t, dir)
			c.change(v, genuine)
			d := &ratls.Dialer{Verifier: verifier, Store: c.store}
			conn, _, err := d.Dial(t.Context(), "tcp", v.listener.Addr().String())
			if err == nil {
				_ = conn.Close()
				t.Fatal("accepted")
			}
			var r *attest.Refusal
			if !strings.Contains(err.Error(), c.want) && (!errors.As(err, &r) || r.Check != c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A server that many ask at once says so, and is asked again.
func TestABusyServerIsAskedAgain(t *testing.T) {
	dir, verifier := platform(t)
	v := newVM(t, dir)
	asked := 0
	v.evidence = func(nonce []byte, own *tls.Conn) string {
		if asked++; asked < 4 {
			return "-BUSY later\r\n"
		}
		return v.honest(nonce, own)
	}
	d := &ratls.Dialer{Verifier: verifier}
	conn, err := d.DialContext(t.Context(), "tcp", v.listener.Addr().String())
	if err != nil || asked != 4 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	_ = conn.Close()
}

func say(text string) func([]byte, *tls.Conn) string {
	return func([]byte, *tls.Conn) string { return text }
}

// ask passes a question to this VM, as somebody between would.
func (v *vm) ask(nonce []byte) string {
	c, err := tls.Dial("tcp", v.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return "-ERR " + err.Error() + "\r\n"
	}
	defer c.Close() //nolint:errcheck // only read
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = fmt.Fprintf(c, "*2\r\n$10\r\nCVM.ATTEST\r\n$64\r\n%x\r\n", nonce)
	in := bufio.NewReader(c)
	out, _ := in.ReadString('\n')
	for range 4 {
		line, _ := in.ReadString('\n')
		var n int
		_, _ = fmt.Sscanf(line, "$%d", &n)
		b := make([]byte, n+2)
		_, _ = io.ReadFull(in, b)
		out += line + string(b)
	}
	return out
}

func TestASilentServerIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // ends with the test
	_, verifier := platform(t)
	d := &ratls.Dialer{Verifier: verifier, Timeout: 50 * time.Millisecond}
	if _, err := d.DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
		t.Fatal("a server that says nothing is accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.DialContext(ctx, "tcp", l.Addr().String()); err == nil {
		t.Fatal("connected though nobody wants it")
	}
}
