package wire

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"cvmstore/epoch"
)

// An order is the store's owner's, signed with the key that was registered when the store was created. It is carried by the
// operator, who cannot make one:
//
//	offset  size  field            the attack that it stops
//	     0     8  magic
//	     8     2  version, 1
//	    10     1  kind             1 rollback, 2 recreate
//	    11     5  reserved, zero
//	    16    16  store id
//	    32    16  instance         an order that another service has carried out
//	    48     8  generation       rollback: of the record that it replaces; recreate: the lowest that may come back
//	    56    32  tag              rollback: of the record that it replaces; recreate: zero
//	    88     8  target value
//	    96    32  target tag
//	   128    64  signature of bytes 0 to 127
//
// A rollback is used once: it names a generation, and carrying it out makes the next one, which never goes back. A recreate
// is used once: it is refused while there is a record, and each database has an instance of its own.
const (
	OrderBytes = 192

	orKind      = 10
	orReserved  = 11
	orStore     = 16
	orInstance  = 32
	orGen       = 48
	orTag       = 56
	orValue     = 88
	orTarget    = 96
	orSignature = 128
)

var orderMagic = [8]byte{'c', 'v', 'm', 'o', 'r', 'd', 'e', 'r'}

// OrderKind says what an order orders.
type OrderKind uint8

// The orders.
const (
	OrderRollback OrderKind = iota + 1
	OrderRecreate
)

func (k OrderKind) String() string {
	switch k {
	case OrderRollback:
		return "rollback"
	case OrderRecreate:
		return "recreate"
	}
	return "unknown"
}

// Order is a decoded, or a not yet signed, order.
type Order struct {
	Kind     OrderKind
	Store    epoch.StoreID
	Instance Instance
	Gen      epoch.Generation
	Tag      epoch.Tag
	Value    epoch.Counter // of the target
	Target   epoch.Tag
}

// ErrOrder is an order that the store's owner did not give.
var ErrOrder = errors.New("the order is not the owner's")

// Sign returns the order's bytes with the owner's signature.
func (o *Order) Sign(key ed25519.PrivateKey) []byte {
	b := make([]byte, orStore, OrderBytes)
	copy(b, orderMagic[:])
	le.PutUint16(b[8:], Version)
	b[orKind] = byte(o.Kind)
	b = append(b, o.Store[:]...)
	b = append(b, o.Instance[:]...)
	b = le.AppendUint64(b, uint64(o.Gen))
	b = append(b, o.Tag[:]...)
	b = le.AppendUint64(b, uint64(o.Value))
	b = append(b, o.Target[:]...)
	return append(b, ed25519.Sign(key, b)...)
}

// ParseOrder decodes an order without believing it: Verify does. ErrMalformed.
func ParseOrder(p []byte) (o Order, err error) {
	switch {
	case len(p) != OrderBytes || [8]byte(p) != orderMagic:
		return o, fmt.Errorf("%w: not an order", ErrMalformed)
	case le.Uint16(p[8:]) != Version:
		return o, fmt.Errorf("%w: order of version %d, this service knows %d", ErrMalformed, le.Uint16(p[8:]), Version)
	case p[orKind] < byte(OrderRollback) || p[orKind] > byte(OrderRecreate):
		return o, fmt.Errorf("%w: an unknown kind of order", ErrMalformed)
	case [5]byte(p[orReserved:]) != [5]byte{}:
		return o, fmt.Errorf("%w: reserved bytes are not zero", ErrMalformed)
	}
	return Order{
		Kind: OrderKind(p[orKind]), Store: epoch.StoreID(p[orStore:]), Instance: Instance(p[orInstance:]),
		Gen: epoch.Generation(le.Uint64(p[orGen:])), Tag: epoch.Tag(p[orTag:]),
		Value: epoch.Counter(le.Uint64(p[orValue:])), Target: epoch.Tag(p[orTarget:]),
	}, nil
}

// VerifyOrder says whether the owner signed the order p.
func VerifyOrder(owner ed25519.PublicKey, p []byte) error {
	if len(p) != OrderBytes || len(owner) != ed25519.PublicKeySize || !ed25519.Verify(owner, p[:orSignature], p[orSignature:]) {
		return ErrOrder
	}
	return nil
}
