package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// tlsAddr is the address of the TLS port that a server's log names.
func (s *server) tlsAddr() string {
	for line := range strings.Lines(s.log.String()) {
		var said struct{ TLS string }
		if json.Unmarshal([]byte(line), &said) == nil && said.TLS != "" {
			return said.TLS
		}
	}
	return ""
}

// attestedTLS starts a server whose only certificate is in its memory.
func (a *attested) attestedTLS(t *testing.T, dir string) *server {
	t.Helper()
	s := start(t, dir, append(a.flags(), "--tls-port=-1", "--tls-auth-clients", "no", "--requirepass", "sesame")...)
	if s.tlsAddr() == "" {
		t.Fatalf("no TLS port:\n%s", s.log.String())
	}
	return s
}

func (a *attested) proxy(t *testing.T, server string, args ...string) *server {
	t.Helper()
	return launchProgram(t, a.dir, append([]string{
		"proxy", "--server", server, "--policy", a.at("policy.toml"), "--listen", "127.0.0.1:0", "--log-format", "json",
	}, args...))
}

// redisCLI runs the real client, which knows nothing of attestation.
func redisCLI(t *testing.T, addr string, args ...string) string {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	out, err := exec.Command("redis-cli", append([]string{"-h", host, "-p", port, "--no-auth-warning", "-a", "sesame"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("redis-cli %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// An unmodified client talks to an attested server through the sidecar, and to no other server.
func TestAProxyForUnmodifiedClients(t *testing.T) {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("needs redis-cli")
	}
	a := startAttested(t)
	s := a.attestedTLS(t, a.at("vm"))
	p := a.proxy(t, s.tlsAddr(), "--store", a.store)
	if got := redisCLI(t, p.addr, "SET", "k", "v"); got != "OK" {
		t.Errorf("SET: %q", got)
	}
	if got := redisCLI(t, p.addr, "GET", "k"); got != "v" {
		t.Errorf("GET: %q", got)
	}
	big := strings.Repeat("0123456789", 300_000)
	c := dial(t, p.addr)
	c.expect(t, "OK", "AUTH", "sesame")
	c.expect(t, "OK", "SET", "big", big)
	c.expect(t, big, "GET", "big")
	if out, err := exec.Command("redis-benchmark", "-p", p.addr[strings.LastIndex(p.addr, ":")+1:], "-a", "sesame", "-t", "set,get", "-n", "2000", "-c", "20", "-q").CombinedOutput(); err != nil {
		t.Errorf("redis-benchmark: %v\n%s", err, out)
	}

	// Evidence is for TLS connections, for one nonce, and for whoever asks before a password is given.
	plain := dial(t, s.addr)
	if got := plain.do(t, "CVM.ATTEST", strings.Repeat("0", 64)); !strings.Contains(got, "TLS connection") {
		t.Errorf("evidence on a plaintext connection: %q", got)
	}
	if got := c.do(t, "CVM.ATTEST", "00"); !strings.Contains(got, "64 hexadecimal digits") {
		t.Errorf("a short nonce: %q", got)
	}
	if got := c.do(t, "CVM.ATTEST", strings.Repeat("0", 64)); !strings.HasPrefix(got, "sev-snp "+a.store) {
		t.Errorf("evidence: %.80q", got)
	}

	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the proxy ended with %d", code)
	}
	a.refusals(t, s)
}

// refusals has the proxy in front of servers that it must not use.
func (a *attested) refusals(t *testing.T, s *server) {
	t.Helper()
	refuses := func(p *server, check string) {
		t.Helper()
		c := dial(t, p.addr)
		if got, err := c.receive(); err != nil || !strings.Contains(got, check) {
			t.Errorf("want a refusal by %q, got %q, %v", check, got, err)
		}
		if got, err := c.receive(); err == nil {
			t.Errorf("the connection goes on: %q", got)
		}
	}
	refuses(a.proxy(t, s.tlsAddr(), "--store", strings.Repeat("0", 32)), "store")
	refuses(a.proxy(t, s.addr), "tls")

	policy, err := os.ReadFile(a.at("policy.toml"))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(policy), "measurements = [\"") + len("measurements = [\"")
	other := string(policy[:at]) + strings.Repeat("0", 96) + string(policy[at+96:])
	if err := os.WriteFile(a.at("policy2.toml"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(a.proxy(t, s.tlsAddr(), "--policy", a.at("policy2.toml")), "measurement")

	// A server with the same data and a certificate from a file has no evidence to show.
	dir := a.at("plain")
	cert := makeCert(t, dir)
	other1 := start(t, filepath.Join(dir, "data"), "--tls-port=-1", "--tls-auth-clients", "no", "--tls-cert-file", cert, "--tls-key-file", cert)
	refuses(a.proxy(t, other1.tlsAddr()), "no evidence")

	if p := a.proxy(t, s.tlsAddr(), "--listen", "0.0.0.0:0"); p.addr != "" {
		t.Error("the proxy serves plaintext to other machines")
	}
}

// makeCert makes a certificate and its key in one file.
func makeCert(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "cert.pem")
	cli(t, "counter", "identity", "--out", path)
	return path
}
