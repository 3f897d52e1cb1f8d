package attest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	amd "github.com/google/go-sev-guest/testing"

	"cvmstore/seal/attest"
	"cvmstore/seal/attest/simulated"
)

// world is an accepted attestation; each row of the table changes one thing of it.
type world struct {
	policy  map[string]string // field of the policy → TOML
	report  func(r []byte)    // before it is signed
	build   func(b *amd.AmdSignerBuilder)
	after   func(e *attest.Evidence) // what the way to the verifier changes
	binding func(b *attest.Binding)  // what the verifier expects
	revoke  func(s *amd.AmdSigner) *x509.RevocationList
	now     time.Duration // the verifier's clock, after the certificates' first day
}

func accepted() *world {
	return &world{
		policy: map[string]string{
			"products": `["Milan"]`, "roots": `{ Milan = ["roots.pem", "cloud.pem"], Genoa = "roots.pem" }`, "signers": `["vcek"]`, "revocation_lists": `"any"`,
			"measurements": hexes(48, 0xaa), "host_data": hexes(32, 0xbb), "chip_ids": hexes(64, 0xcc), "family_ids": hexes(16, 0xdd),
			"image_ids": hexes(16, 0xee), "id_keys": hexes(48, 0x11), "author_keys": hexes(48, 0x22), "debug_allowed": "false",
			"migration_agent_allowed": "false", "smt_allowed": "false", "cxl_allowed": "false", "single_socket_required": "true",
			"ciphertext_hiding_required": "true", "minimum_abi": `"1.51"`, "vmpl": "0", "minimum_guest_svn": "7",
			"minimum_tcb":        "{ bootloader = 3, tee = 0, snp = 8, microcode = 115 }",
			"minimum_launch_tcb": "{ bootloader = 3, tee = 0, snp = 8, microcode = 115 }", "minimum_build": "4",
			"minimum_firmware": `"1.53"`, "provisional_firmware_allowed": "false", "masked_chip_key_allowed": "false",
			"platform_smt_allowed": "false", "platform_tsme_required": "true", "clock_skew": `"5m"`,
		},
		report: func([]byte) {}, build: func(*amd.AmdSignerBuilder) {}, after: func(*attest.Evidence) {}, binding: func(*attest.Binding) {},
		now: time.Hour,
	}
}

func hexes(n int, b byte) string {
	return `["` + hex.EncodeToString([]byte(strings.Repeat(string([]byte{b}), n))) + `"]`
}

// good are the fields of the accepted report.
func good(r []byte) {
	le := binary.LittleEndian
	le.PutUint32(r[0x4:], 7)
	le.PutUint64(r[0x8:], abi.SnpPolicyToBytes(abi.SnpPolicy{ABIMajor: 1, ABIMinor: 51, SingleSocket: true, CipherTextHidingDRAM: true}))
	fill(r[0x10:0x20], 0xdd)
	fill(r[0x20:0x30], 0xee)
	le.PutUint64(r[0x40:], 2)                                                        // TSME
	le.PutUint32(r[0x48:], abi.ComposeSignerInfo(abi.SignerInfo{AuthorKeyEn: true})) // VCEK
	fill(r[0x90:0xc0], 0xaa)
	fill(r[0xc0:0xe0], 0xbb)
	fill(r[0xe0:0x110], 0x11)
	fill(r[0x110:0x140], 0x22)
	fill(r[0x1a0:0x1e0], 0xcc)
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func policyBits(change func(p *abi.SnpPolicy)) func(r []byte) {
	return func(r []byte) {
		p, err := abi.ParseSnpPolicy(binary.LittleEndian.Uint64(r[0x8:]))
		if err != nil {
			panic(err)
		}
		change(&p)
		binary.LittleEndian.PutUint64(r[0x8:], abi.SnpPolicyToBytes(p))
	}
}

func putTCB(off int, t kds.TCBParts) func(r []byte) {
	return func(r []byte) {
		v, err := kds.ComposeTCBParts(t)
		if err != nil {
			panic(err)
		}
		binary.LittleEndian.PutUint64(r[off:], uint64(v))
	}
}

// The platform's TCB is 3, 0, 8, 115.
var oldTCB = kds.TCBParts{BlSpl: 3, TeeSpl: 0, SnpSpl: 7, UcodeSpl: 115}

// oldCertTCB has the whole platform at an older TCB, certificate included.
func oldCertTCB(w *world) {
	w.build = func(b *amd.AmdSignerBuilder) { b.TCB, _ = kds.ComposeTCBParts(oldTCB) }
	w.report = func(r []byte) {
		for _, off := range []int{0x38, 0x180, 0x1e0} {
			putTCB(off, oldTCB)(r)
		}
	}
}

// structural rows can be accepted by no verifier: there is nothing to check without the structure.
const structural = "-"

// rows: each is one change to the accepted attestation, the check that must refuse it, and a word of the reason. A row with
// also names a second check that refuses it for the same cause; both have to be left out for it to be accepted.
var rows = []struct {
	name, check, reason string
	change              func(w *world)
}{
	{"another program", "measurement", "another program", func(w *world) { w.report = func(r []byte) { r[0x90] ^= 1 } }},
	{"no measurement at all", "measurement", "another program", func(w *world) { w.report = func(r []byte) { fill(r[0x90:0xc0], 0) } }},
	{"debug set", "debug", "read this VM's memory", func(w *world) { w.report = policyBits(func(p *abi.SnpPolicy) { p.Debug = true }) }},
	{"migration agent set", "migration agent", "copy this VM", func(w *world) { w.report = policyBits(func(p *abi.SnpPolicy) { p.MigrateMA = true }) }},
	{"SMT allowed", "SMT", "SMT", func(w *world) { w.report = policyBits(func(p *abi.SnpPolicy) { p.SMT = true }) }},
	{"CXL allowed", "CXL", "CXL", func(w *world) { w.report = policyBits(func(p *abi.SnpPolicy) { p.CXLAllowed = true }) }},
	{"several sockets", "single socket", "sockets", func(w *world) { w.report = policyBits(func(p *abi.SnpPolicy) { p.SingleSocket = false }) }},
	{"ciphertext not hidden", "ciphertext hiding", "hidden", func(w *world) {
		w.report = policyBits(func(p *abi.SnpPolicy) { p.CipherTextHidingDRAM = false })
	}},
	{"old guest ABI, minor", "ABI", "ABI 1.50", func(w *world) { w.report = policyBits(func(p *abi.SnpPolicy) { p.ABIMinor = 50 }) }},
	{"old guest ABI, major", "ABI", "ABI 0.60", func(w *world) {
		w.report = policyBits(func(p *abi.SnpPolicy) { p.ABIMajor, p.ABIMinor = 0, 60 })
	}},
	{"VMPL 1", "VMPL", "level 1", func(w *world) { w.report = func(r []byte) { r[0x30] = 1 } }},
	{"VMPL 3", "VMPL", "level 3", func(w *world) { w.report = func(r []byte) { r[0x30] = 3 } }},
	{"asked for by the host", "host request", "the host asked", func(w *world) { w.report = func(r []byte) { fill(r[0x30:0x34], 0xff) } }},
	{"old TCB, certificate too", "TCB", "snp 7", oldCertTCB},
	{"old launch TCB", "launch TCB", "snp 7", func(w *world) { w.report = putTCB(0x1f0, oldTCB) }},
	{"TCB other than the certificate's", "consistency", "TCB", func(w *world) { w.build = func(b *amd.AmdSignerBuilder) { b.TCB, _ = kds.ComposeTCBParts(oldTCB) } }},
	{"old firmware build", "firmware build", "build 3", func(w *world) { w.report = func(r []byte) { r[0x1e8], r[0x1ec] = 3, 3 } }},
	{"old firmware, minor", "firmware version", "1.52", func(w *world) { w.report = func(r []byte) { r[0x1e9], r[0x1ed] = 52, 52 } }},
	{"old firmware, major", "firmware version", "0.53", func(w *world) { w.report = func(r []byte) { r[0x1ea], r[0x1ee] = 0, 0 } }},
	{"firmware build not committed", "provisional firmware", "not committed", func(w *world) { w.report = func(r []byte) { r[0x1ec] = 3 } }},
	{"firmware version not committed", "provisional firmware", "not committed", func(w *world) { w.report = func(r []byte) { r[0x1ed] = 52 } }},
	{"TCB not committed", "provisional firmware", "not committed", func(w *world) { w.report = putTCB(0x1e0, oldTCB) }},
	{"old guest", "guest SVN", "version 6", func(w *world) { w.report = func(r []byte) { r[0x4] = 6 } }},
	{"another chip", "chip", "another machine", func(w *world) {
		w.policy["chip_ids"] = hexes(64, 0xcd)
	}},
	{"certificate of another chip", "consistency", "HWID", func(w *world) {
		w.build = func(b *amd.AmdSignerBuilder) { fill(b.HWID[:], 0xcd) }
	}},
	{"other host data", "host data", "other data", func(w *world) { w.report = func(r []byte) { r[0xc0] ^= 1 } }},
	{"another family", "family", "family", func(w *world) { w.report = func(r []byte) { r[0x10] ^= 1 } }},
	{"another image", "image", "image", func(w *world) { w.report = func(r []byte) { r[0x20] ^= 1 } }},
	{"another ID key", "ID key", "another key", func(w *world) { w.report = func(r []byte) { r[0xe0] ^= 1 } }},
	{"no ID block", "ID key", "by none", func(w *world) { w.report = func(r []byte) { fill(r[0xe0:0x110], 0) } }},
	{"another author key", "author key", "author key", func(w *world) { w.report = func(r []byte) { r[0x110] ^= 1 } }},
	{"no author key", "author key", "no author key", func(w *world) {
		w.report = func(r []byte) { binary.LittleEndian.PutUint32(r[0x48:], 0) }
	}},
	{"masked chip key", "masked chip key", "masks", func(w *world) {
		w.report = func(r []byte) {
			binary.LittleEndian.PutUint32(r[0x48:], abi.ComposeSignerInfo(abi.SignerInfo{AuthorKeyEn: true, MaskChipKey: true}))
		}
	}},
	{"host with SMT", "platform SMT", "SMT on", func(w *world) { w.report = func(r []byte) { r[0x40] |= 1 } }},
	{"host without TSME", "platform TSME", "encrypt", func(w *world) { w.report = func(r []byte) { r[0x40] = 0 } }},
	{"another product line", "product", "none of", func(w *world) {
		w.policy["products"] = `["Genoa"]`
	}},
	{"signed by a cloud's key", "signer", "VLEK", func(w *world) {
		w.report = func(r []byte) {
			binary.LittleEndian.PutUint32(r[0x48:], abi.ComposeSignerInfo(abi.SignerInfo{AuthorKeyEn: true, SigningKey: abi.VlekReportSigner}))
		}
	}},

	{"replayed nonce", "report data", "replay", func(w *world) { w.binding = func(b *attest.Binding) { b.Nonce = []byte("the next nonce") } }},
	{"another VM's channel", "report data", "relay", func(w *world) { w.binding = func(b *attest.Binding) { b.TLSKey = []byte("the relay's key") } }},
	{"key to encrypt to not bound", "report data", "another", func(w *world) { w.binding = func(b *attest.Binding) { b.Extra = []byte("the attacker's key") } }},
	{"another purpose", "report data", "purpose", func(w *world) { w.binding = func(b *attest.Binding) { b.Purpose = "serve clients" } }},
	{"parts of the binding moved", "report data", "another", func(w *world) {
		w.binding = func(b *attest.Binding) {
			b.TLSKey, b.Extra = append(b.TLSKey, b.Extra[0]), b.Extra[1:]
		}
	}},

	{"foreign chain", "chain", "", func(w *world) { w.policy["roots"] = `"amd"` }},
	{"certificates not yet valid", "chain", "", func(w *world) { w.now = -24 * time.Hour }},
	{"certificates expired", "chain", "", func(w *world) { w.now = 60 * 365 * 24 * time.Hour }},
	{"clock skew just beyond the policy's", "chain", "", func(w *world) { w.now = -6 * time.Minute }},
	{"signature altered", "chain", "", func(w *world) { w.after = func(e *attest.Evidence) { e.Report[0x2a0] ^= 1 } }},
	{"report altered after signing", "chain", "", func(w *world) { w.after = func(e *attest.Evidence) { e.Report[0x150] ^= 1 } }},
	{"chip's key revoked", "revocation", "revoked", func(w *world) {
		w.policy["revocation_lists"] = `["crl"]`
		w.revoke = func(s *amd.AmdSigner) *x509.RevocationList { return listOf(s.Ask.SerialNumber, time.Hour) }
	}},
	{"revocation list out of date", "revocation", "out of date", func(w *world) {
		w.policy["revocation_lists"] = `["crl"]`
		w.revoke = func(*amd.AmdSigner) *x509.RevocationList { return listOf(big.NewInt(4711), -30*time.Minute) }
	}},
	{"revocation list of somebody else", "revocation", "signed by the root", func(w *world) {
		w.policy["revocation_lists"] = `["foreign"]`
	}},

	{"another kind of evidence", structural, "kind", func(w *world) { w.after = func(e *attest.Evidence) { e.Kind = attest.KindTDX } }},
	{"truncated report", structural, "1183", func(w *world) { w.after = func(e *attest.Evidence) { e.Report = e.Report[:1183] } }},
	{"report with a tail", structural, "1185", func(w *world) { w.after = func(e *attest.Evidence) { e.Report = append(e.Report, 0) } }},
	{"no report", structural, "0", func(w *world) { w.after = func(e *attest.Evidence) { e.Report = nil } }},
	{"unknown report version", structural, "version", func(w *world) { w.report = func(r []byte) { r[0] = 99 } }},
	{"reserved bits of the guest policy", structural, "policy", func(w *world) { w.report = func(r []byte) { r[0xf] = 0x80 } }},
	{"no certificates", structural, "certificate", func(w *world) { w.after = func(e *attest.Evidence) { e.Certs = nil } }},
	{"certificate table out of bounds", structural, "certificate", func(w *world) {
		w.after = func(e *attest.Evidence) { binary.LittleEndian.PutUint32(e.Certs[0x10:], 1<<31) }
	}},
	{"certificates too large", structural, "at most", func(w *world) {
		w.after = func(e *attest.Evidence) { e.Certs = append(e.Certs, make([]byte, 1<<16)...) }
	}},
	{"garbage in place of the signing key's certificate", structural, "signing key", func(w *world) {
		w.after = func(e *attest.Evidence) { fill(e.Certs[len(e.Certs)/3:], 0x30) }
	}},
}

// listOf is a list of one revoked serial number.
func listOf(serial *big.Int, good time.Duration) *x509.RevocationList {
	return &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: epochOfCerts, NextUpdate: epochOfCerts.Add(time.Hour + good),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: serial, RevocationTime: epochOfCerts}},
	}
}

var epochOfCerts = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// run makes a world's evidence and has it verified, with one check left out ("": none).
func (w *world) run(t *testing.T, skip string) error {
	t.Helper()
	dir := t.TempDir()
	s, _, err := simulated.Signer(epochOfCerts, func(b *amd.AmdSignerBuilder) {
		fill(b.HWID[:], 0xcc)
		w.build(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.files(t, dir, s)
	p, err := simulated.New(s, [64]byte{})
	if err != nil {
		t.Fatal(err)
	}
	p.Change = func(r []byte) {
		good(r)
		w.report(r)
	}
	b := attest.Binding{Purpose: "provision", Nonce: []byte("a nonce"), TLSKey: []byte("a key"), Extra: []byte("another key")}
	e, err := p.Attest(b.Data())
	if err != nil {
		t.Fatal(err)
	}
	e.Certs = append([]byte(nil), e.Certs...)
	w.after(&e)
	w.binding(&b)
	var text strings.Builder
	fmt.Fprintln(&text, "[sev-snp]")
	for field, value := range w.policy {
		fmt.Fprintf(&text, "%s = %s\n", field, value)
	}
	policy, err := attest.ParsePolicy([]byte(text.String()), dir)
	if err != nil {
		t.Fatal(err)
	}
	v := attest.Verifier{Policy: policy, Now: func() time.Time { return epochOfCerts.Add(w.now) }}
	attest.LeaveOut(&v, skip)
	_, err = v.Verify(&e, &b)
	return err
}

// files writes what the policy names.
func (w *world) files(t *testing.T, dir string, s *amd.AmdSigner) {
	t.Helper()
	chain := func(certs ...*x509.Certificate) (text []byte) {
		for _, c := range certs {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		return text
	}
	write := func(name string, b []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("roots.pem", chain(s.Ask, s.Ark), nil)
	write("cloud.pem", chain(s.Asvk, s.Ark), nil)
	if w.revoke != nil {
		issuer := *s.Ark
		issuer.KeyUsage |= x509.KeyUsageCRLSign
		der, err := x509.CreateRevocationList(rand.Reader, w.revoke(s), &issuer, s.Keys.Ark)
		write("crl", der, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "somebody"}, KeyUsage: x509.KeyUsageCRLSign | x509.KeyUsageCertSign,
		SubjectKeyId: []byte{1}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateRevocationList(rand.Reader, listOf(big.NewInt(1), time.Hour), other, key)
	write("foreign", der, err)
}

func TestAGoodAttestationIsAccepted(t *testing.T) {
	if err := accepted().run(t, ""); err != nil {
		t.Fatal(err)
	}
	within := accepted()
	within.now = -4 * time.Minute // of clock skew
	if err := within.run(t, ""); err != nil {
		t.Errorf("4 minutes of skew: %v", err)
	}
	fresh := accepted()
	fresh.policy["revocation_lists"] = `["crl", "foreign"]`
	fresh.revoke = func(*amd.AmdSigner) *x509.RevocationList { return listOf(big.NewInt(4711), time.Hour) }
	if err := fresh.run(t, ""); err != nil {
		t.Errorf("a list that revokes another key: %v", err)
	}
}

// Each bad attestation is refused by its own check and for its own reason; and with that one check left out it is accepted, which
// shows that the row tests that check and no other.
func TestBadAttestations(t *testing.T) {
	if len(rows) < 50 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "-"), func(t *testing.T) {
			w := accepted()
			row.change(w)
			err := w.run(t, "")
			var refusal *attest.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("not refused: %v", err)
			}
			if !strings.Contains(err.Error(), row.reason) {
				t.Errorf("the reason does not say %q: %v", row.reason, err)
			}
			if row.check == structural {
				if refusal.Check != "format" && refusal.Check != "kind" {
					t.Errorf("refused by %q: %v", refusal.Check, err)
				}
				return
			}
			if refusal.Check != row.check {
				t.Fatalf("refused by %q, want %q: %v", refusal.Check, row.check, err)
			}
			w = accepted()
			row.change(w)
			if err := w.run(t, row.check); err != nil {
				t.Errorf("with %q left out it is still refused: %v", row.check, err)
			}
		})
	}
}
