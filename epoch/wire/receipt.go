package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"

	"cvmstore/epoch"
)

// A receipt proves that an object was committed: it does not prove that it is current.
//
//	offset  size  field
//	     0     8  magic
//	     8     2  version, 1
//	    10     1  kind of object    1 key, 2 stream, 3 file
//	    11     5  reserved, zero
//	    16    16  store id
//	    32     8  generation
//	    40     8  epoch
//	    48     8  counter           of the object's newest change
//	    56    32  SHA-256 of the object's name
//	    88    32  SHA-256 of the object
//	   120   328  the service's signed Read: its nonce is the SHA-256 of bytes 0 to 119
//	   448    32  the VM's Ed25519 public key; its hash is the Read's opener
//	   480    64  the VM's signature of bytes 0 to 479
//
// So the service says: when I was asked about this very claim, the store stood at value V, tag T, committed by this
// generation, which that key opened. And the VM says: the claim is true of the state that T names.
const (
	ReceiptBytes = 544

	rcKind      = 10
	rcReserved  = 11
	rcStore     = 16
	rcGen       = 32
	rcEpoch     = 40
	rcCounter   = 48
	rcName      = 56
	rcObject    = 88
	rcRead      = 120
	rcKey       = rcRead + StatementBytes
	rcSignature = rcKey + ed25519.PublicKeySize
)

var receiptMagic = [8]byte{'c', 'v', 'm', 'p', 'r', 'o', 'o', 'f'}

// ObjectKind is what a receipt is about.
type ObjectKind uint8

// The objects that have receipts.
const (
	ObjectKey ObjectKind = iota + 1
	ObjectStream
	ObjectFile
)

func (k ObjectKind) String() string {
	switch k {
	case ObjectKey:
		return "key"
	case ObjectStream:
		return "stream"
	case ObjectFile:
		return "file"
	}
	return "unknown"
}

// Claim is what the VM says of one object.
type Claim struct {
	Kind    ObjectKind
	Store   epoch.StoreID
	Gen     epoch.Generation
	Epoch   epoch.Epoch
	Counter epoch.Counter
	Name    [32]byte // SHA-256
	Object  [32]byte // SHA-256
}

// Append appends the claim's bytes to b.
func (c *Claim) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, rcStore)...)
	copy(b[at:], receiptMagic[:])
	le.PutUint16(b[at+8:], Version)
	b[at+rcKind] = byte(c.Kind)
	b = append(b, c.Store[:]...)
	b = le.AppendUint64(b, uint64(c.Gen))
	b = le.AppendUint64(b, uint64(c.Epoch))
	b = le.AppendUint64(b, uint64(c.Counter))
	b = append(b, c.Name[:]...)
	return append(b, c.Object[:]...)
}

// Nonce is what the Read behind a claim's receipt must have been asked with.
func (c *Claim) Nonce() Nonce { return sha256.Sum256(c.Append(nil)) }

// SealReceipt joins a claim and the signed Read that answered its nonce, and signs both with the VM's key.
func SealReceipt(c *Claim, read []byte, vm ed25519.PrivateKey) []byte {
	b := c.Append(make([]byte, 0, ReceiptBytes))
	b = append(b, read...)
	b = append(b, vm.Public().(ed25519.PublicKey)...)
	return append(b, ed25519.Sign(vm, b)...)
}

// ErrReceipt is a receipt that proves nothing.
var ErrReceipt = errors.New("the receipt proves nothing")

// VerifyReceipt checks a receipt offline, with nothing but the service's public key.
func VerifyReceipt(service ed25519.PublicKey, p []byte) (c Claim, read Statement, err error) {
	fail := func(format string, args ...any) (Claim, Statement, error) {
		return Claim{}, Statement{}, fmt.Errorf("%w: "+format, append([]any{ErrReceipt}, args...)...)
	}
	if len(p) != ReceiptBytes || [8]byte(p) != receiptMagic || le.Uint16(p[8:]) != Version {
		return fail("it is not a receipt of version %d", Version)
	}
	if [5]byte(p[rcReserved:]) != [5]byte{} || p[rcKind] < byte(ObjectKey) || p[rcKind] > byte(ObjectFile) {
		return fail("reserved bytes are not zero")
	}
	c = Claim{
		Kind: ObjectKind(p[rcKind]), Store: epoch.StoreID(p[rcStore:]), Gen: epoch.Generation(le.Uint64(p[rcGen:])),
		Epoch: epoch.Epoch(le.Uint64(p[rcEpoch:])), Counter: epoch.Counter(le.Uint64(p[rcCounter:])),
		Name: [32]byte(p[rcName:]), Object: [32]byte(p[rcObject:]),
	}
	read, err = OpenStatement(service, p[rcRead:rcKey])
	if err != nil {
		return fail("its statement of the counter: %w", err)
	}
	key := ed25519.PublicKey(p[rcKey:rcSignature])
	id, err := IdentityOf(key)
	if err != nil {
		return fail("its key: %w", err)
	}
	switch {
	case !ed25519.Verify(key, p[:rcSignature], p[rcSignature:]):
		return fail("the VM did not sign it")
	case read.Answers(OpRead, c.Store, c.Nonce()) != nil:
		return fail("the counter was asked about something else")
	case read.Opener != id:
		return fail("signed by another key than the one that opened generation %d", read.Record.Gen)
	case read.Record.Gen != c.Gen || read.Record.Current.Gen != c.Gen:
		return fail("another generation than %d had taken over, or had not committed yet", c.Gen)
	case read.Record.Current.Value < c.Counter || c.Counter == 0:
		return fail("counter %d was not committed: the service stood at %d", c.Counter, read.Record.Current.Value)
	}
	return c, read, nil
}

// IdentityOf returns who the owner of a public key is.
func IdentityOf(public any) (Identity, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return Identity{}, fmt.Errorf("public key: %w", err)
	}
	return sha256.Sum256(der), nil
}
