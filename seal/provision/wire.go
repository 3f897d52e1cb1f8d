// Package provision brings keys to confidential VMs, and to nobody else.
//
// The trusted party runs a Server: it holds the keys of stores, a policy for each, and an audit log of every decision. A VM
// makes a fresh TLS key and a fresh key to encrypt to, asks for a nonce, has its processor sign a report that binds nonce,
// store and both keys, and gets the store's master secret, encrypted to the second key, if the policy accepts the report.
// The TLS key becomes the VM's identity at the trusted counter, so the counter follows only this VM: another start, another
// attestation.
//
//	VM                                         party
//	TLS 1.3, both show self-signed keys; the VM pins the party's identity
//	POST /v1/challenge {store}            →    nonce, for this store and this TLS key, once, for a minute
//	POST /v1/release {store, nonce, evidence, encrypt_to}
//	                                      →    policy; the identity is registered at the counter; then the release,
//	                                           sealed by HPKE (RFC 9180)
//
// Both ends are hostile to each other until these checks are done: lengths are bounded, waits have deadlines.
package provision

import (
	"crypto/hpke"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cvmstore/seal/attest"
)

const (
	purpose       = "cvmstore provision v1"
	pathChallenge = "/v1/challenge"
	pathRelease   = "/v1/release"

	nonceSize   = 32
	requestMax  = 256 << 10 // bytes of a request or an answer
	challengeIn = time.Minute
)

// StoreID names a store.
type StoreID [16]byte

// MarshalText implements encoding.TextMarshaler: 32 hexadecimal digits.
func (s StoreID) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%x", s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *StoreID) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(s)) {
		return errors.New("a store id is 32 hexadecimal digits")
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// Identity is the SHA-256 of a public key's SubjectPublicKeyInfo: who is at the other end of a TLS connection.
type Identity [32]byte

type challengeRequest struct {
	Store StoreID `json:"store"`
}

type challengeAnswer struct {
	Nonce []byte `json:"nonce"`
}

type releaseRequest struct {
	Store     StoreID         `json:"store"`
	Nonce     []byte          `json:"nonce"`
	Evidence  attest.Evidence `json:"evidence"`
	EncryptTo []byte          `json:"encrypt_to"` // public key, HPKE
}

type releaseAnswer struct {
	Sealed []byte `json:"sealed"`
}

// refusal is an answer that says no. It names the check, not the policy's content.
type refusal struct {
	Error string `json:"error"`
	Check string `json:"check,omitempty"`
}

// Release is what an accepted VM gets.
type Release struct {
	KeyFile []byte            `json:"key_file"` // in the form of seal's key file
	Counter Counter           `json:"counter"`
	Setting map[string]string `json:"settings"` // the server's configuration, by the names of its flags
}

// Counter says where freshness comes from; no URL: the embedded counter.
type Counter struct {
	URLs string `json:"urls"`
	Pin  string `json:"pin"` // the text of the service's pin file
}

// The cipher suite of releases: X25519 with ML-KEM-768, so that a recorded release stays closed to tomorrow's computers.
func suite() (hpke.KEM, hpke.KDF, hpke.AEAD) {
	return hpke.MLKEM768X25519(), hpke.HKDFSHA256(), hpke.AES256GCM()
}

// sealInfo binds a sealed release to what it answers.
func sealInfo(store StoreID, nonce []byte, vm Identity) []byte {
	b := attest.Binding{Purpose: purpose + " release", Nonce: nonce, TLSKey: vm[:], Extra: store[:]}
	d := b.Data()
	return d[:]
}

// binding is what the VM's report must hold.
func binding(store StoreID, nonce, tlsKey, encryptTo []byte) *attest.Binding {
	return &attest.Binding{Purpose: purpose, Nonce: nonce, TLSKey: tlsKey, Extra: append(store[:], encryptTo...)}
}

// peerKey returns the SubjectPublicKeyInfo of the other end, and its identity. TLS has checked that the peer has that key;
// nothing else in its certificate counts.
func peerKey(c *tls.ConnectionState) ([]byte, Identity, error) {
	if c == nil || len(c.PeerCertificates) == 0 {
		return nil, Identity{}, errors.New("no certificate")
	}
	der, err := x509.MarshalPKIXPublicKey(c.PeerCertificates[0].PublicKey)
	return der, sha256.Sum256(der), err
}

// TLS returns the configuration of either end: TLS 1.3, own certificate, no resumption, and the peer's identity checked on each
// connection. A nil check accepts any key (the server's side: the evidence says whose it is).
func TLS(cert tls.Certificate, check func(Identity) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // instead of names and dates, the key is checked:
		VerifyConnection: func(c tls.ConnectionState) error {
			_, id, err := peerKey(&c)
			if err == nil && check != nil {
				err = check(id)
			}
			return err
		},
	}
}

func decode(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("malformed: %w", err)
	}
	return nil
}
