package seal

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Cipher suites of a store, chosen when its key is made and bound into every derived key.
const (
	SuiteAEGIS  = "aegis"
	SuiteAESGCM = "aes-256-gcm"
)

// Suites returns the names of the cipher suites, the default first.
func Suites() []string { return []string{SuiteAEGIS, SuiteAESGCM} }

// derivation names the whole key hierarchy. A change to anything below that changes an output needs another name here, and
// another version of the key file.
const derivation = "cvmstore-key-v1"

// Keys is the root of one store's key hierarchy:
//
//	master  = HKDF-Extract(salt = lp(derivation) lp(suite) lp(store id), secret)
//	derived = HKDF-Expand(master, info = lp(label) lp(context)... le32(length), length)
//
// with SHA-256, and lp(x) = le32(len(x)) x. So no two of (store, suite, label, context, length) share a key, nor does one key
// begin with another. Its methods may be called from any goroutine, but not after Wipe.
type Keys struct {
	store  [16]byte
	suite  string
	secret [32]byte // kept for WriteKeyFile; never an HKDF-Expand key itself
	master []byte
}

// NewKeys returns the keys of a store. An unknown suite is an error.
func NewKeys(store [16]byte, suite string, secret [32]byte) (*Keys, error) {
	if !slices.Contains(Suites(), suite) {
		return nil, fmt.Errorf("unknown cipher suite %q: use one of %s", suite, strings.Join(Suites(), ", "))
	}
	if secret == [32]byte{} {
		return nil, fmt.Errorf("the secret is all zeros")
	}
	k := &Keys{store: store, suite: suite, secret: secret}
	salt := appendPart(nil, []byte(derivation))
	salt = appendPart(salt, []byte(suite))
	salt = appendPart(salt, store[:])
	master, err := hkdf.Extract(sha256.New, secret[:], salt)
	if err != nil {
		return nil, fmt.Errorf("key derivation: %w", err)
	}
	k.master = master
	return k, nil
}

// GenerateKeys makes a new store id and secret from the kernel's random generator, mixed with the processor's.
func GenerateKeys(suite string) (*Keys, error) {
	var store [16]byte
	var secret [32]byte
	defer clear(secret[:])
	if _, err := rand.Read(store[:]); err != nil {
		return nil, fmt.Errorf("random bytes: %w", err)
	}
	fresh := entropy()
	defer clear(fresh)
	expand(secret[:], extract("new secret", fresh), nil)
	return NewKeys(store, suite, secret)
}

// StoreID names the store at the counter service.
func (k *Keys) StoreID() [16]byte { return k.store }

// Suite returns the cipher suite of the store.
func (k *Keys) Suite() string { return k.suite }

// Derive fills out with the key for label and context. It panics if out is empty or longer than HKDF allows (8160 bytes).
func (k *Keys) Derive(out []byte, label string, context ...[]byte) {
	if k.master == nil {
		panic("internal error: keys used after Wipe")
	}
	info := appendPart(make([]byte, 0, 128), []byte(label))
	for _, c := range context {
		info = appendPart(info, c)
	}
	expand(out, k.master, info)
}

// Seed returns the seed of the random generator of one run (DESIGN.md 5.1): it is unique if any one of the kernel's generator,
// the processor's, the generation, the counter service's bytes and the provisioned secret is honest.
func (k *Keys) Seed(gen uint64, fromCounter [32]byte) [32]byte {
	var provisioned, seed [32]byte
	k.Derive(provisioned[:], "seed of a run")
	in := entropy()
	in = binary.LittleEndian.AppendUint64(in, gen)
	in = append(in, fromCounter[:]...)
	in = append(in, provisioned[:]...)
	expand(seed[:], extract("seed of a run", in), nil)
	clear(in)
	clear(provisioned[:])
	return seed
}

// entropy returns 65 bytes: 32 of getrandom, 1 if the processor has RDSEED and it answered, 32 of RDSEED.
func entropy() []byte {
	// Capacity for Seed's parts, so that append leaves no copy behind that nobody wipes.
	b := make([]byte, 65, 65+8+32+32)
	if _, err := rand.Read(b[:32]); err != nil {
		panic("internal error: no random bytes: " + err.Error())
	}
	if readRDSEED(b[33:65]) {
		b[32] = 1
	}
	return b
}

// Wipe forgets the keys. Go may have moved or copied memory before, so this shortens the time that they lie around, no more.
func (k *Keys) Wipe() {
	clear(k.secret[:])
	clear(k.master)
	k.master = nil
}

// String implements fmt.Stringer, without anything secret.
func (k Keys) String() string { return fmt.Sprintf("keys of store %x (%s)", k.store, k.suite) }

// Format implements fmt.Formatter, so that no verb prints a field.
func (k Keys) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.String()) }

// MarshalText implements encoding.TextMarshaler, so that no encoder prints a field.
func (k Keys) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func appendPart(b, part []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
	return append(b, part...)
}

func extract(label string, in []byte) []byte {
	key, err := hkdf.Extract(sha256.New, in, appendPart(appendPart(nil, []byte(derivation)), []byte(label)))
	if err != nil {
		panic("internal error: HKDF: " + err.Error())
	}
	return key
}

// expand fills out, and appends its length to info so that a short key is not the beginning of a long one.
func expand(out, key, info []byte) {
	if len(out) == 0 {
		panic("internal error: derivation of an empty key")
	}
	info = binary.LittleEndian.AppendUint32(info, uint32(len(out)))
	okm, err := hkdf.Expand(sha256.New, key, string(info), len(out))
	if err != nil {
		panic("internal error: HKDF: " + err.Error())
	}
	copy(out, okm)
	clear(okm)
}
