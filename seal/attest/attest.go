// Package attest says and checks what a confidential VM is.
//
// In comes a purpose with the nonce of whoever asks and the keys that the answer is to bind; out goes Evidence, a report signed
// by the processor with the certificates that speak for its key. On the other side, a Verifier takes evidence from the
// network, trusts nothing of it before the processor's signature and its chain are checked against the policy's root, and
// then compares every field with the policy, which must say something about each (docs/OPERATIONS.md, configs/policy.toml).
// Nothing here calls the vendor's servers: certificates travel with the report, revocation lists are files.
//
// Sources: AMD SEV-SNP Firmware ABI Specification (56860), Table 23 (attestation report); GHCB specification (56421),
// section 4.1.8.1 (certificate table).
package attest

import (
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind names what made a report.
type Kind string

// The kinds of evidence.
const (
	KindSNP Kind = "sev-snp"
	KindTDX Kind = "tdx"
)

// DataSize is the number of bytes that a report binds.
const DataSize = 64

// Evidence is a report and what speaks for its signature. It is hostile until a Verifier has accepted it.
type Evidence struct {
	Kind   Kind   `json:"kind"`
	Report []byte `json:"report"` // raw, as the processor signed it
	Certs  []byte `json:"certs"`  // the certificate table that the host gives with it (SNP); empty where the report has them
}

// evidenceMax bounds a report and its certificates, each, in bytes.
const evidenceMax = 64 << 10

// Attester makes evidence for this VM.
type Attester interface {
	// Name says what makes the evidence, for logs.
	Name() string
	// Attest returns evidence that binds data. It may take a fraction of a second.
	Attest(data [DataSize]byte) (Evidence, error)
}

// Binding is what a report speaks for. All of it is hashed, each part with its length, so that no two bindings agree.
type Binding struct {
	Purpose string // what the asker wants it for: evidence for one purpose is none for another
	Nonce   []byte // the asker's, fresh
	TLSKey  []byte // of this end of the connection: its public key, as SubjectPublicKeyInfo
	Extra   []byte // a key to encrypt an answer to, and whatever else the purpose needs
}

// bindingLabel separates these hashes from all others.
const bindingLabel = "cvmstore attestation v1"

// Data returns what the report must hold.
func (b *Binding) Data() [DataSize]byte {
	h := sha512.New()
	for _, part := range [][]byte{[]byte(bindingLabel), []byte(b.Purpose), b.Nonce, b.TLSKey, b.Extra} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return [DataSize]byte(h.Sum(nil))
}

// Refusal says why evidence was not accepted: the check that refused it, and what it saw.
type Refusal struct {
	Check  string
	Reason error
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("attestation refused (%s): %v", r.Check, r.Reason)
}

// Unwrap gives the reason.
func (r *Refusal) Unwrap() error { return r.Reason }

// ErrUnsupported: this machine has no such attestation device.
var ErrUnsupported = errors.New("no attestation device")
