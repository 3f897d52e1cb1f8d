package wire

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"cvmstore/epoch"
)

// A statement is what the service says of a record, signed with its Ed25519 key. It answers Open and Read:
//
//	offset  size  field            the attack that it stops
//	     0     8  magic            a signature over something else
//	     8     2  version, 1
//	    10     1  kind             1 read, 2 open: a read shown as an open
//	    11     1  flags            1: the store is frozen
//	    12     4  reserved, zero
//	    16   128  record           another store's or another state's answer
//	   144    32  opener           hash of the key that opened the newest generation: a receipt of somebody else
//	   176    16  instance         of the service: an order or a receipt for another service's history
//	   192     8  stamp            milliseconds since 1970: a host that turns the clock
//	   200    32  nonce            an answer kept for later
//	   232    32  random           open: fresh random bytes (DESIGN.md 5.1); read: zero
//	   264    64  signature of bytes 0 to 263
const (
	StatementBytes = 328

	stKind      = 10
	stFlags     = 11
	stReserved  = 12
	stRecord    = 16
	stOpener    = 144
	stInstance  = 176
	stStamp     = 192
	stNonce     = 200
	stRandom    = 232
	stSignature = 264

	stFrozen = 1
)

var statementMagic = [8]byte{'c', 'v', 'm', 's', 't', 'a', 't', 'e'}

// Identity is the SHA-256 of a public key in its PKIX form: who somebody is at the service.
type Identity [32]byte

// Instance is random and made with the service's database: another database is another instance.
type Instance [16]byte

// Statement is a decoded, or a not yet signed, statement.
type Statement struct {
	Op       Op // OpRead or OpOpen
	Frozen   bool
	Record   epoch.Record
	Opener   Identity
	Instance Instance
	Stamp    epoch.Stamp
	Nonce    Nonce
	Random   [32]byte
}

// ErrSignature is a statement that the service did not sign.
var ErrSignature = errors.New("not signed by the counter service")

// Sign returns the statement's bytes with the service's signature.
func (s *Statement) Sign(key ed25519.PrivateKey) []byte {
	b := make([]byte, stRecord, StatementBytes)
	copy(b, statementMagic[:])
	le.PutUint16(b[8:], Version)
	b[stKind] = 1
	if s.Op == OpOpen {
		b[stKind] = 2
	}
	if s.Frozen {
		b[stFlags] = stFrozen
	}
	b = AppendRecord(b, &s.Record)
	b = append(b, s.Opener[:]...)
	b = append(b, s.Instance[:]...)
	b = le.AppendUint64(b, uint64(s.Stamp))
	b = append(b, s.Nonce[:]...)
	b = append(b, s.Random[:]...)
	return append(b, ed25519.Sign(key, b)...)
}

// OpenStatement returns the statement that p is, if the service that owns key signed it. What it says may still be about
// another store, or answer another question: the caller compares Op, Record.Store and Nonce.
func OpenStatement(key ed25519.PublicKey, p []byte) (s Statement, err error) {
	switch {
	case len(p) != StatementBytes || [8]byte(p) != statementMagic:
		return s, fmt.Errorf("%w: not a statement", ErrMalformed)
	case len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, p[:stSignature], p[stSignature:]):
		return s, fmt.Errorf("%w: it holds another key, or somebody changed the answer", ErrSignature)
	case le.Uint16(p[8:]) != Version:
		return s, fmt.Errorf("%w: statement of version %d", ErrMalformed, le.Uint16(p[8:]))
	case le.Uint32(p[stReserved:]) != 0 || p[stFlags]&^stFrozen != 0 || p[stKind] < 1 || p[stKind] > 2:
		return s, fmt.Errorf("%w: reserved bytes are not zero", ErrMalformed)
	}
	s.Op = OpRead
	if p[stKind] == 2 {
		s.Op = OpOpen
	}
	s.Frozen = p[stFlags] == stFrozen
	if s.Record, err = ParseRecord(p[stRecord:]); err != nil {
		return s, err
	}
	s.Opener, s.Instance = Identity(p[stOpener:]), Instance(p[stInstance:])
	s.Stamp = epoch.Stamp(le.Uint64(p[stStamp:]))
	s.Nonce, s.Random = Nonce(p[stNonce:]), [32]byte(p[stRandom:])
	return s, nil
}

// Answers says whether s is the answer to this question.
func (s *Statement) Answers(op Op, store epoch.StoreID, nonce Nonce) error {
	switch {
	case s.Op != op:
		return fmt.Errorf("%w: the answer to another kind of question", ErrMalformed)
	case s.Record.Store != store:
		return fmt.Errorf("%w: the answer is about store %x", ErrMalformed, s.Record.Store)
	case s.Nonce != nonce:
		return fmt.Errorf("%w: the answer to an earlier question was sent again", ErrMalformed)
	}
	return nil
}
