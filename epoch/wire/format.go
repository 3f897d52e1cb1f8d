package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"cvmstore/epoch"
)

// Version is the protocol's. It stands in each request, and in the path: a service that no longer speaks it answers 404.
const Version = 1

// A request is the body of a POST to Path(op). All of one op have one size:
//
//	offset  size  field           the fault that it stops
//	     0     4  magic CVMC      a client of something else
//	     4     2  version, 1      a later protocol
//	     6     1  op              a request sent to another path
//	     7     1  flags           commit: 1 opening, 2 parallel
//	     8     8  reserved, zero
//	    16    16  store id
//	    32    32  create: the owner's Ed25519 public key, zero for none; open, read: the nonce, which makes an answer
//	              that was kept for later worthless
//	    32     8  commit: generation
//	    40     8          value
//	    48    32          expected tag
//	    80    32          tag
//
// Integers are little-endian. Who asks is not in the request: that is the TLS certificate's key.
const (
	offOp       = 6
	offFlags    = 7
	offReserved = 8
	offStore    = 16
	offArgument = 32
	offValue    = 40
	offExpected = 48
	offTag      = 80

	shortBytes  = 64
	commitBytes = 112

	// RequestBytesMax bounds the body of a request.
	RequestBytesMax = commitBytes

	flagOpening  = 1
	flagParallel = 2
)

// A commit's answer: magic, version, two reserved bytes, the service's time in milliseconds.
const answerBytes = 16

var requestMagic = [4]byte{'C', 'V', 'M', 'C'}

var le = binary.LittleEndian

// Op is a kind of request.
type Op uint8

// The requests of a store's server. The operator's are JSON; see docs/COUNTER.md.
const (
	OpCreate Op = iota + 1
	OpOpen
	OpRead
	OpCommit
)

var opNames = map[Op]string{OpCreate: "create", OpOpen: "open", OpRead: "read", OpCommit: "commit"}

func (o Op) String() string { return opNames[o] }

// Path is where requests of an op are posted.
func Path(o Op) string { return "/v1/" + o.String() }

// Nonce is a caller's fresh random number, or the hash of what it wants the answer to be tied to.
type Nonce [32]byte

// Request is one decoded request; which fields it uses depends on Op.
type Request struct {
	Op     Op
	Store  epoch.StoreID
	Owner  [32]byte // create
	Nonce  Nonce    // open, read
	Commit epoch.CommitRequest
}

// ErrMalformed is a message that is not one of this protocol.
var ErrMalformed = errors.New("malformed")

// Append appends r's bytes to b.
func (r *Request) Append(b []byte) []byte {
	at, size := len(b), shortBytes
	if r.Op == OpCommit {
		size = commitBytes
	}
	b = append(b, make([]byte, size)...)
	p := b[at:]
	copy(p, requestMagic[:])
	le.PutUint16(p[4:], Version)
	p[offOp] = byte(r.Op)
	switch r.Op {
	case OpCreate:
		copy(p[offArgument:], r.Owner[:])
	case OpOpen, OpRead:
		copy(p[offArgument:], r.Nonce[:])
	case OpCommit:
		c := &r.Commit
		if c.Opening {
			p[offFlags] |= flagOpening
		}
		if c.Parallel {
			p[offFlags] |= flagParallel
		}
		le.PutUint64(p[offArgument:], uint64(c.Gen))
		le.PutUint64(p[offValue:], uint64(c.Value))
		copy(p[offExpected:], c.Expected[:])
		copy(p[offTag:], c.Tag[:])
	}
	copy(p[offStore:], r.Store[:])
	return b
}

// ParseRequest decodes a request that was posted to the path of op. ErrMalformed.
func ParseRequest(op Op, p []byte) (r Request, err error) {
	size := shortBytes
	if op == OpCommit {
		size = commitBytes
	}
	switch {
	case len(p) != size:
		return r, fmt.Errorf("%w: a %v has %d bytes, not %d", ErrMalformed, op, size, len(p))
	case [4]byte(p) != requestMagic:
		return r, fmt.Errorf("%w: not a request of this protocol", ErrMalformed)
	case le.Uint16(p[4:]) != Version:
		return r, fmt.Errorf("%w: protocol version %d, this service speaks %d", ErrMalformed, le.Uint16(p[4:]), Version)
	case Op(p[offOp]) != op:
		return r, fmt.Errorf("%w: a request for another path", ErrMalformed)
	case le.Uint64(p[offReserved:]) != 0 || p[offFlags]&^(flagOpening|flagParallel) != 0 || op != OpCommit && p[offFlags] != 0:
		return r, fmt.Errorf("%w: reserved bytes are not zero", ErrMalformed)
	}
	r.Op, r.Store = op, epoch.StoreID(p[offStore:])
	switch op {
	case OpCreate:
		r.Owner = [32]byte(p[offArgument:])
	case OpOpen, OpRead:
		r.Nonce = Nonce(p[offArgument:])
	case OpCommit:
		r.Commit = epoch.CommitRequest{
			Store: r.Store, Gen: epoch.Generation(le.Uint64(p[offArgument:])), Value: epoch.Counter(le.Uint64(p[offValue:])),
			Expected: epoch.Tag(p[offExpected:]), Tag: epoch.Tag(p[offTag:]),
			Opening: p[offFlags]&flagOpening != 0, Parallel: p[offFlags]&flagParallel != 0,
		}
	}
	return r, nil
}

// AppendAnswer appends the answer to a commit or a create.
func AppendAnswer(b []byte, s epoch.Stamp) []byte {
	b = append(b, requestMagic[:]...)
	b = le.AppendUint16(b, Version)
	b = append(b, 0, 0)
	return le.AppendUint64(b, uint64(s))
}

// ParseAnswer decodes it. ErrMalformed.
func ParseAnswer(p []byte) (epoch.Stamp, error) {
	if len(p) != answerBytes || [4]byte(p) != requestMagic || le.Uint16(p[4:]) != Version || p[6]|p[7] != 0 {
		return 0, fmt.Errorf("%w: not an answer of this protocol", ErrMalformed)
	}
	return epoch.Stamp(le.Uint64(p[8:])), nil
}

// RecordBytes is the size of an encoded record: store 16, generation 8, current and before (value 8, generation 8, tag 32
// each), floor 8.
const RecordBytes = 16 + 8 + 2*stateBytes + 8

const stateBytes = 48

// AppendRecord appends r's bytes to b.
func AppendRecord(b []byte, r *epoch.Record) []byte {
	b = append(b, r.Store[:]...)
	b = le.AppendUint64(b, uint64(r.Gen))
	for _, s := range []*epoch.State{&r.Current, &r.Before} {
		b = le.AppendUint64(b, uint64(s.Value))
		b = le.AppendUint64(b, uint64(s.Gen))
		b = append(b, s.Tag[:]...)
	}
	return le.AppendUint64(b, uint64(r.Floor))
}

// ParseRecord decodes the first RecordBytes of p.
func ParseRecord(p []byte) (r epoch.Record, err error) {
	if len(p) < RecordBytes {
		return r, fmt.Errorf("%w: a record cut short", ErrMalformed)
	}
	state := func(p []byte) epoch.State {
		return epoch.State{
			Value: epoch.Counter(le.Uint64(p)), Gen: epoch.Generation(le.Uint64(p[8:])), Tag: epoch.Tag(p[16:]),
		}
	}
	r.Store, r.Gen = epoch.StoreID(p), epoch.Generation(le.Uint64(p[16:]))
	r.Current, r.Before = state(p[24:]), state(p[24+stateBytes:])
	r.Floor = epoch.Counter(le.Uint64(p[24+2*stateBytes:]))
	return r, nil
}
