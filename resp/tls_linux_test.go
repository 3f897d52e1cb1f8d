package resp

import (
	"bufio"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTLSServesBothVersions(t *testing.T) {
	a := newAuthority(t)
	for _, loops := range []int64{1, 2} {
		r := secureRig(t, a, func(c *Config) { c.Loops = loops })
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := a.client("")
			config.MinVersion, config.MaxVersion = version, version
			c := r.secure(config)
			c.want("+OK\r\n", "SET", "k", "v")
			c.want(bulk("v"), "GET", "k")
			value := strings.Repeat("0123456789abcdef", 60_000/16)
			c.want("+OK\r\n", "SET", "big", value)
			var raw strings.Builder
			const n = 1000
			for range n {
				raw.WriteString(wire("PING") + wire("GET", "big"))
			}
			go func() { _, _ = c.Write([]byte(raw.String())) }() // 60 MB come back: the socket does not take them at once
			for i := range n {
				if got := c.reply(); got != "+PONG\r\n" {
					t.Fatalf("PING %d: %.60q", i, got)
				}
				if got := c.reply(); got != bulk(value) {
					t.Fatalf("GET %d: %.60q", i, got)
				}
			}
			c.want("+OK\r\n", "QUIT")
			c.closed()
		}
	}
}

func TestTLSRefusesOldVersionsAndWeakSuites(t *testing.T) {
	a := newAuthority(t)
	r := secureRig(t, a, nil)
	config := a.client("")
	config.MinVersion, config.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	if _, err := r.dialTLS(config); err == nil {
		t.Error("TLS 1.1 is served")
	}
	config = a.client("")
	config.MaxVersion = tls.VersionTLS12
	config.CipherSuites = []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
	if _, err := r.dialTLS(config); err == nil {
		t.Error("a weak suite is served")
	}
	if got := r.dial().do("CONFIG", "SET", "tls-protocols", "TLSv1.1"); !strings.HasPrefix(got, "-ERR CONFIG SET failed") {
		t.Errorf("TLS 1.1 may be chosen: %q", got)
	}
	r.dial().want("+OK\r\n", "CONFIG", "SET", "tls-protocols", "TLSv1.3")
	config.CipherSuites = nil
	if _, err := r.dialTLS(config); err == nil {
		t.Error("TLS 1.2 is served though it is off")
	}
}

func TestMutualTLS(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	a.sign("friend", 3)
	other.sign("stranger", 4)
	r := secureRig(t, a, func(c *Config) { c.TLSAuthClients, c.TLSCACert = "yes", a.file })
	r.secure(a.client("friend")).want("+PONG\r\n", "PING")
	refused := func(config *tls.Config) bool {
		c, err := r.dialTLS(config)
		if err != nil {
			return true
		}
		_, _ = c.Write([]byte("PING\r\n")) // TLS 1.3 tells after the client's side of the handshake
		line, err := c.r.ReadString('\n')
		return err != nil && line == ""
	}
	if !refused(a.client("")) {
		t.Error("a client without a certificate is served")
	}
	stranger := a.client("")
	stranger.Certificates = other.client("stranger").Certificates
	if !refused(stranger) {
		t.Error("a client of another authority is served")
	}
	if _, err := r.dialTLS(other.client("stranger")); err == nil {
		t.Error("a client trusts a server of another authority")
	}
	r.dial().want("+OK\r\n", "CONFIG", "SET", "tls-auth-clients", "optional")
	r.secure(a.client("")).want("+PONG\r\n", "PING")
	if !refused(stranger) {
		t.Error("a client of another authority is served when certificates are optional")
	}
}

func TestTheCertificateIsReloaded(t *testing.T) {
	a := newAuthority(t)
	r := secureRig(t, a, nil)
	serial := func() int64 {
		c := r.secure(a.client(""))
		return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	old := r.secure(a.client(""))
	a.sign("server", 20) // over the old files
	if err := r.srv.ReloadTLS(); err != nil || serial() != 20 {
		t.Errorf("after a reload: serial %d, %v", serial(), err)
	}
	cert, key := a.sign("renewed", 30)
	r.dial().want("+OK\r\n", "CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key)
	if serial() != 30 {
		t.Errorf("after CONFIG SET: serial %d", serial())
	}
	if got := r.dial().do("CONFIG", "SET", "tls-key-file", a.file); !strings.HasPrefix(got, "-ERR CONFIG SET failed") {
		t.Errorf("a wrong key: %q", got)
	}
	if serial() != 30 {
		t.Errorf("after a failed CONFIG SET: serial %d", serial())
	}
	old.want("+PONG\r\n", "PING")
}

func TestHalfOpenHandshakesAreBounded(t *testing.T) {
	a := newAuthority(t)
	r := secureRig(t, a, nil)
	var first net.Conn
	for i := range handshakesMax + 20 {
		c, err := net.Dial("tcp", r.srv.TLSAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if i == 0 {
			first = c
		}
	}
	r.secure(a.client("")).want("+PONG\r\n", "PING")
	_ = first.SetDeadline(time.Now().Add(5 * time.Second)) // less than handshakeTimeout
	if n, err := first.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("the oldest half-open handshake goes on: %v", err)
	}
	r.dial().want("+PONG\r\n", "PING")
}

// drip writes one byte at a time.
type drip struct{ net.Conn }

func (d drip) Write(p []byte) (int, error) {
	for i := range p {
		if n, err := d.Conn.Write(p[i : i+1]); err != nil {
			return i + n, err
		}
	}
	return len(p), nil
}

func TestPartialRecordsAreKept(t *testing.T) {
	a := newAuthority(t)
	r := secureRig(t, a, nil)
	raw, err := net.Dial("tcp", r.srv.TLSAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
	config := a.client("")
	config.ServerName = "127.0.0.1"
	conn := tls.Client(drip{raw}, config)
	c := &client{t, conn, bufio.NewReader(conn)}
	value := strings.Repeat("x", 5000)
	c.want("+OK\r\n", "SET", "k", value)
	c.want(bulk(value), "GET", "k")
	_ = conn.CloseWrite() // replies still come
	c.closed()
}

func TestPlaintextOnTheTLSPortIsRefused(t *testing.T) {
	r := secureRig(t, newAuthority(t), nil)
	c, err := net.Dial("tcp", r.srv.TLSAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write([]byte("PING\r\nPING\r\n"))
	b := make([]byte, 64)
	if n, _ := c.Read(b); strings.Contains(string(b[:n]), "PONG") {
		t.Errorf("got %q", b[:n])
	}
}

func TestRedisCLIOverTLS(t *testing.T) {
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed")
	}
	a := newAuthority(t)
	a.sign("friend", 3)
	r := secureRig(t, a, func(c *Config) { c.TLSAuthClients, c.TLSCACert = "yes", a.file })
	_, port, _ := net.SplitHostPort(r.srv.TLSAddr().String())
	args := []string{
		"-h", "127.0.0.1", "-p", port, "--tls", "--cacert", a.file,
		"--cert", filepath.Join(a.dir, "friend.pem"), "--key", filepath.Join(a.dir, "friend.key"),
	}
	out, err := exec.Command(path, append(args, "SET", "a", "1")...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "OK" {
		t.Fatalf("redis-cli --tls: %v %s", err, out)
	}
	cmd := exec.Command(path, append(args, "--pipe")...)
	cmd.Stdin = strings.NewReader(strings.Repeat(wire("SET", "p", strings.Repeat("v", 100)), 5000))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "errors: 0, replies: 5000") {
		t.Errorf("redis-cli --tls --pipe: %v %s", err, out)
	}
}

func TestATLSClientThatNeverReadsHoldsLittle(t *testing.T) {
	a := newAuthority(t)
	r := secureRig(t, a, func(c *Config) { c.OutBufSoft = 1 << 16 })
	c := r.secure(a.client(""))
	value := strings.Repeat("x", 10_000)
	c.want("+OK\r\n", "SET", "k", value)
	const n = 20_000
	go func() { _, _ = c.Write([]byte(strings.Repeat(wire("GET", "k"), n))) }()
	d := r.dial()
	held := make(chan int, 1)
	stuck := false
	for start := time.Now(); !stuck && time.Since(start) < 10*time.Second; {
		d.want("+PONG\r\n", "PING")
		r.srv.loops[0].post(func(l *loop) {
			sum := -1
			for _, s := range l.sessions {
				if s.phase == phaseSlow {
					sum = s.conn.unsent() + s.pending()
				}
			}
			held <- sum
		})
		sum := <-held
		stuck = sum >= 0
		if sum > 1<<20 {
			t.Fatalf("%d bytes are held for a client that takes nothing", sum)
		}
	}
	if !stuck {
		t.Fatal("the client is not held back")
	}
	for i := range n {
		if got := c.reply(); got != bulk(value) {
			t.Fatalf("reply %d: %.40q", i, got)
		}
	}
}

// openssl's K asks for new keys in both directions.
func TestKeysAreUpdated(t *testing.T) {
	path, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	a := newAuthority(t)
	r := secureRig(t, a, nil)
	cmd := exec.Command(path, "s_client", "-connect", r.srv.TLSAddr().String(), "-CAfile", a.file, "-tls1_3")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer deadline.Stop()
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("openssl ends before %s", want)
	}
	for range 3 {
		_, _ = in.Write([]byte("PING\n"))
		expect("+PONG")
		_, _ = in.Write([]byte("K\n"))
		expect("KEYUPDATE")
	}
	_, _ = in.Write([]byte("QUIT\n")) // closes openssl's side first
	_ = in.Close()
	_ = cmd.Wait()
	r.dial().want("+PONG\r\n", "PING")
}
