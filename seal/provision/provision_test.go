package provision_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"cvmstore/seal"
	"cvmstore/seal/attest"
	"cvmstore/seal/attest/simulated"
	"cvmstore/seal/provision"
)

// party is a running provisioner with one store, and a platform whose VMs its policy accepts.
type party struct {
	url      string
	id       provision.Identity
	store    provision.StoreID
	dir      string
	platform *simulated.Platform
	registry registry
	logs     *logs
	keys     *provision.KeyStore
}

// registry is a counter's operator that writes down whom it admitted.
type registry struct {
	mu       sync.Mutex
	admitted []string
	fail     error
}

func (r *registry) Admit(_ context.Context, store provision.StoreID, vm provision.Identity, born bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		r.admitted = append(r.admitted, fmt.Sprintf("%x %x %v", store, vm, born))
	}
	return r.fail
}

type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const anyPolicy = `[sev-snp]
products = ["Milan"]
roots = { Milan = "platform/roots.pem" }
signers = "any"
revocation_lists = "any"
measurements = ["%x"]
host_data = "any"
chip_ids = "any"
family_ids = "any"
image_ids = "any"
id_keys = "any"
author_keys = "any"
debug_allowed = false
migration_agent_allowed = false
smt_allowed = true
cxl_allowed = false
single_socket_required = false
ciphertext_hiding_required = false
minimum_abi = "any"
vmpl = 0
minimum_guest_svn = 0
minimum_tcb = "any"
minimum_launch_tcb = "any"
minimum_build = "any"
minimum_firmware = "any"
provisional_firmware_allowed = false
masked_chip_key_allowed = false
platform_smt_allowed = true
platform_tsme_required = false
clock_skew = "1m"
`

func newParty(t *testing.T) *party {
	t.Helper()
	p := &party{dir: t.TempDir(), logs: new(logs)}
	must(t, simulated.Create(filepath.Join(p.dir, "platform")))
	var err error
	p.platform, err = simulated.Open(filepath.Join(p.dir, "platform"))
	must(t, err)
	policy, err := attest.ParsePolicy(fmt.Appendf(nil, anyPolicy, p.platform.Measurement), p.dir)
	must(t, err)
	audit, err := provision.OpenAudit(p.audit())
	must(t, err)
	t.Cleanup(func() { _ = audit.Close() })
	p.keys, err = provision.OpenKeyStore(filepath.Join(p.dir, "keys"), [32]byte{1}, 0)
	must(t, err)
	p.store, err = p.keys.Create("orders", "aegis", provision.Counter{URLs: "https://counter", Pin: "pin"}, map[string]string{"maxclients": "77"})
	must(t, err)
	s := &provision.Server{
		Keys: p.keys, Verifier: &attest.Verifier{Policy: policy}, Audit: audit, Registrar: &p.registry, Log: zerolog.New(p.logs),
	}
	cert, id := newCert(t)
	p.id = id
	h := httptest.NewUnstartedServer(s.Handler())
	h.TLS = provision.TLS(cert, nil)
	h.Config.ErrorLog = nil
	h.StartTLS()
	t.Cleanup(h.Close)
	p.url = h.URL
	return p
}

func (p *party) audit() string { return filepath.Join(p.dir, "audit") }

func (p *party) client(t *testing.T) *provision.Client {
	cert, _ := newCert(t)
	return &provision.Client{URL: p.url, Party: p.id, Store: p.store, Attester: p.platform, Cert: cert}
}

func newCert(t *testing.T) (tls.Certificate, provision.Identity) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	template := x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	must(t, err)
	spki, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, sha256.Sum256(spki)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnAcceptedVMGetsTheKeysOfItsStore(t *testing.T) {
	p := newParty(t)
	c := p.client(t)
	r, took, err := c.Request(context.Background())
	must(t, err)
	keys, err := seal.ParseKeys(r.KeyFile)
	must(t, err)
	if provision.StoreID(keys.StoreID()) != p.store || r.Counter.URLs != "https://counter" || r.Setting["maxclients"] != "77" {
		t.Errorf("released %v, counter %+v, settings %v", keys, r.Counter, r.Setting)
	}
	if took.Challenge <= 0 || took.Attest <= 0 || took.Release <= 0 {
		t.Errorf("took %+v", took)
	}
	_, _, err = p.client(t).Request(context.Background()) // the same VM after a restart
	must(t, err)
	if len(p.registry.admitted) != 2 || !strings.HasSuffix(p.registry.admitted[0], "false") || !strings.HasSuffix(p.registry.admitted[1], "true") ||
		p.registry.admitted[0][:98] == p.registry.admitted[1][:98] {
		t.Errorf("admitted %q", p.registry.admitted)
	}
	var entries []provision.Entry
	_, err = provision.ReadAudit(p.audit(), func(e provision.Entry) { entries = append(entries, e) })
	must(t, err)
	if len(entries) != 2 || !entries[0].Granted || entries[0].Measured != hex.EncodeToString(p.platform.Measurement[:]) {
		t.Errorf("audit log: %+v", entries)
	}
}

// lying passes a report on, changed.
type lying struct {
	attest.Attester
	change func(data *[64]byte)
	after  func(e *attest.Evidence)
}

func (l lying) Attest(data [64]byte) (attest.Evidence, error) {
	if l.change != nil {
		l.change(&data)
	}
	e, err := l.Attester.Attest(data)
	if l.after != nil && err == nil {
		l.after(&e)
	}
	return e, err
}

func TestWhoGetsNoKeys(t *testing.T) {
	for _, row := range []struct {
		name, check string
		change      func(t *testing.T, p *party, c *provision.Client)
	}{
		{"another program", "measurement", func(_ *testing.T, p *party, _ *provision.Client) { p.platform.Measurement[0] ^= 1 }},
		{"a report for other data", "report data", func(_ *testing.T, p *party, c *provision.Client) {
			c.Attester = lying{Attester: p.platform, change: func(d *[64]byte) { d[0] ^= 1 }}
		}},
		{"an unsigned change", "chain", func(_ *testing.T, p *party, c *provision.Client) {
			c.Attester = lying{Attester: p.platform, after: func(e *attest.Evidence) { e.Report[0x150] ^= 1 }}
		}},
		{"no store of that name", "", func(_ *testing.T, _ *party, c *provision.Client) { c.Store[0] ^= 1 }},
		{"the counter refuses", "", func(_ *testing.T, p *party, _ *provision.Client) { p.registry.fail = errors.New("no") }},
		{"another party", "", func(_ *testing.T, _ *party, c *provision.Client) { c.Party[0] ^= 1 }},
		{"plaintext", "", func(_ *testing.T, p *party, c *provision.Client) { c.URL = "http" + p.url[5:] }},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "-"), func(t *testing.T) {
			p := newParty(t)
			c := p.client(t)
			row.change(t, p, c)
			r, _, err := c.Request(context.Background())
			if err == nil || r != nil {
				t.Fatalf("released %v, error %v", r, err)
			}
			var refusal *attest.Refusal
			if row.check != "" && (!errors.As(err, &refusal) || refusal.Check != row.check) {
				t.Errorf("error %v, want check %q", err, row.check)
			}
			if len(p.registry.admitted) != 0 {
				t.Errorf("admitted %q", p.registry.admitted)
			}
		})
	}
}

// post sends one raw request over a connection of a certificate.
func (p *party) post(t *testing.T, cert tls.Certificate, path, body string) (int, string) {
	t.Helper()
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: provision.TLS(cert, nil)}}
	defer h.CloseIdleConnections()
	resp, err := h.Post(p.url+path, "application/json", strings.NewReader(body))
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// A relay: the attacker's own connection carries what another VM's processor signed, nonce and all.
func TestANonceServesOneConnectionOnce(t *testing.T) {
	p := newParty(t)
	var recorded string
	attacker, _ := newCert(t)
	c := p.client(t)
	c.Attester = lying{Attester: p.platform, after: func(e *attest.Evidence) {
		b, _ := json.Marshal(e)
		recorded = string(b)
	}}
	store := hex.EncodeToString(p.store[:])
	release := func(cert tls.Certificate, nonce string) (int, string) {
		return p.post(t, cert, "/v1/release", fmt.Sprintf(`{"store":%q,"nonce":%q,"evidence":%s,"encrypt_to":""}`, store, nonce, recorded))
	}
	_, _, err := c.Request(context.Background())
	must(t, err)
	_, answer := p.post(t, attacker, "/v1/challenge", fmt.Sprintf(`{"store":%q}`, store))
	var own struct{ Nonce string }
	must(t, json.Unmarshal([]byte(answer), &own))
	if status, text := release(attacker, own.Nonce); status != http.StatusForbidden || !strings.Contains(text, "report data") {
		t.Errorf("another VM's report over the attacker's connection: %d %s", status, text)
	}
	if status, text := release(attacker, own.Nonce); status != http.StatusForbidden || !strings.Contains(text, "used already") {
		t.Errorf("the same nonce again: %d %s", status, text)
	}
	_, answer = p.post(t, attacker, "/v1/challenge", fmt.Sprintf(`{"store":%q}`, store))
	must(t, json.Unmarshal([]byte(answer), &own))
	if status, text := release(c.Cert, own.Nonce); status != http.StatusForbidden || !strings.Contains(text, "another connection") {
		t.Errorf("a nonce given to somebody else: %d %s", status, text)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	p := newParty(t)
	cert, _ := newCert(t)
	for _, body := range []string{"", "{", `{"store":"00"}`, `{"store":5}`, `[]`, strings.Repeat("x", 300<<10)} {
		for _, path := range []string{"/v1/challenge", "/v1/release"} {
			if status, text := p.post(t, cert, path, body); status == http.StatusOK {
				t.Errorf("%s %.20q: %s", path, body, text)
			}
		}
	}
	if status, _ := p.post(t, cert, "/v1/other", "{}"); status == http.StatusOK {
		t.Error("an unknown path is served")
	}
}

// The secret stands in the sealed files and in the VM's memory, nowhere else.
func TestNoSecretIsWrittenAnywhere(t *testing.T) {
	p := newParty(t)
	c := p.client(t)
	r, _, err := c.Request(context.Background())
	must(t, err)
	_, rest, _ := bytes.Cut(r.KeyFile, []byte("\nsecret "))
	secret := string(rest[:64])
	p.platform.Measurement[0] ^= 1
	_, _, refused := c.Request(context.Background())
	raw, err := hex.DecodeString(secret)
	must(t, err)
	outputs := map[string]string{"logs": p.logs.String(), "error": fmt.Sprint(refused)}
	must(t, filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		outputs[path] = string(b)
		if info, e := d.Info(); e == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	}))
	if len(outputs) < 5 {
		t.Fatalf("only %d outputs", len(outputs))
	}
	for name, text := range outputs {
		if strings.Contains(text, secret) || strings.Contains(text, string(raw)) {
			t.Errorf("%s holds the secret", name)
		}
	}
}

func TestAKeyStoreOpensWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	k, err := provision.OpenKeyStore(path, [32]byte{1}, 0)
	must(t, err)
	_, err = k.Create("a", "aegis", provision.Counter{}, nil)
	must(t, err)
	old, err := os.ReadFile(path)
	must(t, err)
	_, err = k.Create("b", "aegis", provision.Counter{}, nil)
	must(t, err)
	if _, err := k.Create("b", "aegis", provision.Counter{}, nil); err == nil {
		t.Error("two stores of one name")
	}
	again, err := provision.OpenKeyStore(path, [32]byte{1}, 2)
	must(t, err)
	if len(again.Stores()) != 2 {
		t.Errorf("%d stores", len(again.Stores()))
	}
	must(t, again.Backup(path+".bak"))
	if err := again.Backup(path + ".bak"); err == nil {
		t.Error("a backup overwrote a file")
	}
	if _, err := provision.OpenKeyStore(path, [32]byte{2}, 0); !errors.Is(err, provision.ErrStoreDamaged) {
		t.Errorf("another wrapping key: %v", err)
	}
	now, err := os.ReadFile(path)
	must(t, err)
	for i := range now {
		now[i] ^= 1
		must(t, os.WriteFile(path, now, 0o600))
		if _, err := provision.OpenKeyStore(path, [32]byte{1}, 0); !errors.Is(err, provision.ErrStoreDamaged) {
			t.Fatalf("byte %d altered: %v", i, err)
		}
		now[i] ^= 1
	}
	must(t, os.WriteFile(path, old, 0o600))
	if _, err := provision.OpenKeyStore(path, [32]byte{1}, 2); !errors.Is(err, provision.ErrStoreOld) {
		t.Errorf("an older file: %v", err)
	}
}

// The service holds both files open while an operator's commands change them.
func TestServiceAndOperatorShareTheFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var logs [2]*provision.Audit
	var stores [2]*provision.KeyStore
	for i := range 2 {
		var err error
		logs[i], err = provision.OpenAudit(at("audit"))
		must(t, err)
		stores[i], err = provision.OpenKeyStore(at("keys"), [32]byte{1}, 0)
		must(t, err)
	}
	var work sync.WaitGroup
	for i := range 2 {
		work.Go(func() {
			for n := range 10 {
				_, err := stores[i].Create(fmt.Sprint(i, n), "aegis", provision.Counter{}, nil)
				if err = errors.Join(err, logs[i].Append(provision.Entry{Event: "create"})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	lines := 0
	_, err := provision.ReadAudit(at("audit"), func(provision.Entry) { lines++ })
	if err != nil || lines != 20 {
		t.Errorf("%d lines, %v", lines, err)
	}
	again, err := provision.OpenKeyStore(at("keys"), [32]byte{1}, 20)
	must(t, err)
	if n := len(again.Stores()); n != 20 {
		t.Errorf("%d stores", n)
	}
	for id := range again.Stores() {
		for _, k := range stores {
			keys, err := k.Keys(id)
			must(t, err)
			keys.Wipe()
		}
	}
}

func TestTheAuditLogShowsEveryChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, err := provision.OpenAudit(path)
	must(t, err)
	for i := range 4 {
		must(t, a.Append(provision.Entry{Event: fmt.Sprint("event ", i)}))
	}
	_, head := a.Head()
	must(t, a.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	for name, changed := range map[string][]byte{
		"a word":         bytes.Replace(text, []byte("event 1"), []byte("event 7"), 1),
		"a line dropped": bytes.Join([][]byte{lines[0], lines[2], lines[3]}, nil),
		"lines swapped":  bytes.Join([][]byte{lines[0], lines[2], lines[1], lines[3]}, nil),
		"a line twice":   bytes.Join([][]byte{lines[0], lines[1], lines[1], lines[2]}, nil),
		"garbage":        append(bytes.Clone(text), "x\n"...),
	} {
		must(t, os.WriteFile(path, changed, 0o600))
		if _, err := provision.OpenAudit(path); err == nil {
			t.Errorf("%s: the log opens", name)
		}
	}
	must(t, os.WriteFile(path, bytes.Join(lines[:3], nil), 0o600)) // cut off: only the head shows it
	cut, err := provision.ReadAudit(path, nil)
	must(t, err)
	if cut == head {
		t.Error("a log that was cut off has the same head")
	}
}
