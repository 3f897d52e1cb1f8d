package files

import (
	"encoding/binary"
	"errors"
	"fmt"

	"cvmstore/volume"
)

// # Attributes
//
// They stand at the front of a small file's value, and in the pointer of a large one. Both are inside a record, sealed with its name.
// All numbers are little-endian.
//
//	 0  1  version, 1
//	 1  1  zero
//	 2  2  number of pairs
//	 4  4  length of all this, bytes
//	 8  8  when the file was begun, store time, ms
//	16  8  when it was committed; not before that
//	24     pairs: length of the key 2, of the value 4, key, value
//
// # Keys of uploads
//
//	 0  1  'u': an upload          'p': a piece of one
//	 1  8  id, big-endian           the same
//	 9  8  size; 2^64-1: unknown    number of the piece: of two that overlap the higher one counts
//	17  8  when it was begun, ms    offset in the file
//	25  8  bytes of a chunk; 0      length
//	33     the file's name
//
// The value of an upload is empty, that of a piece is its blob. Both expire at the upload's deadline, so one that is left lying goes
// by itself. All that a restart needs stands in the keys, so it reads no value.
const (
	attrVersion = 1
	attrHeader  = 24
	attrsMax    = 64 << 10
	pairHeader  = 6

	keyUpload   = 'u'
	keyPiece    = 'p'
	uploadFixed = 33
	pieceKeyLen = 33

	// NameMax is the longest name of a file, in bytes.
	NameMax = 4096
	// sizeMax is the largest file.
	sizeMax = 1 << 50
)

var le = binary.LittleEndian

// Pair is a key and its value in a file's metadata.
type Pair struct{ Key, Value []byte }

// attrs are a file's attributes.
type attrs struct {
	begun, committed int64
	meta             []Pair
}

func (a *attrs) size() int {
	n := attrHeader
	for i := range a.meta {
		n += pairHeader + len(a.meta[i].Key) + len(a.meta[i].Value)
	}
	return n
}

// encode returns the attributes as they are stored.
func (a *attrs) encode() ([]byte, error) {
	n := a.size()
	if n > attrsMax {
		return nil, fmt.Errorf("ERR metadata exceeds the limit of %d bytes", attrsMax-attrHeader)
	}
	b := make([]byte, attrHeader, n)
	b[0] = attrVersion
	le.PutUint16(b[2:], uint16(len(a.meta)))
	le.PutUint32(b[4:], uint32(n))
	le.PutUint64(b[8:], uint64(a.begun))
	le.PutUint64(b[16:], uint64(a.committed))
	for _, p := range a.meta {
		b = le.AppendUint16(b, uint16(len(p.Key)))
		b = le.AppendUint32(b, uint32(len(p.Value)))
		b = append(append(b, p.Key...), p.Value...)
	}
	return b, nil
}

var errAttrs = errors.New("malformed attributes")

// decodeAttrs reads attributes and returns what follows them. They verified as part of a record, but perhaps a later version wrote
// them, so everything is checked. The pairs alias b.
func decodeAttrs(b []byte) (a attrs, rest []byte, err error) {
	bad := func(what string) (attrs, []byte, error) {
		return attrs{}, nil, fmt.Errorf("%s: %w: %w", what, errAttrs, volume.ErrCorrupt)
	}
	if len(b) < attrHeader || b[0] != attrVersion || b[1] != 0 {
		return bad("header")
	}
	n := le.Uint32(b[4:])
	if n < attrHeader || n > attrsMax || int(n) > len(b) {
		return bad("length")
	}
	a.begun, a.committed = int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))
	if a.begun < 0 || a.committed < a.begun {
		return bad("times")
	}
	pairs, rest := b[attrHeader:n], b[n:]
	for range le.Uint16(b[2:]) {
		if len(pairs) < pairHeader {
			return bad("pair")
		}
		k, v := int(le.Uint16(pairs)), int(le.Uint32(pairs[2:]))
		if pairs = pairs[pairHeader:]; k > len(pairs) || v > len(pairs)-k {
			return bad("pair")
		}
		a.meta = append(a.meta, Pair{pairs[:k:k], pairs[k : k+v : k+v]})
		pairs = pairs[k+v:]
	}
	if len(pairs) > 0 {
		return bad("pairs")
	}
	return a, rest, nil
}

// ID names an upload.
type ID uint64

// String is the id as commands show it.
func (id ID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// ParseID reads what String gave.
func ParseID(b []byte) (id ID, ok bool) {
	if len(b) != 16 {
		return 0, false
	}
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		id = id<<4 | ID(c)
	}
	return id, id != 0
}

// uploadKey is a decoded key of an upload.
type uploadKey struct {
	id    ID
	size  int64 // -1: unknown
	begun int64
	chunk int
	name  []byte
}

func (k *uploadKey) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{keyUpload}, uint64(k.id))
	b = le.AppendUint64(b, uint64(k.size))
	b = le.AppendUint64(b, uint64(k.begun))
	b = le.AppendUint64(b, uint64(k.chunk))
	return append(b, k.name...)
}

// pieceKey is a decoded key of a piece.
type pieceKey struct {
	id             ID
	number         uint64
	offset, length int64
}

func (k *pieceKey) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{keyPiece}, uint64(k.id))
	b = le.AppendUint64(b, k.number)
	b = le.AppendUint64(b, uint64(k.offset))
	return le.AppendUint64(b, uint64(k.length))
}

// decodeUploadKey reads either key; the other one is nil.
func decodeUploadKey(b []byte) (*uploadKey, *pieceKey, error) {
	if len(b) < uploadFixed {
		return nil, nil, fmt.Errorf("key of an upload: %w", volume.ErrCorrupt)
	}
	id := ID(binary.BigEndian.Uint64(b[1:]))
	x, y, z := le.Uint64(b[9:]), int64(le.Uint64(b[17:])), int64(le.Uint64(b[25:]))
	switch {
	case b[0] == keyUpload && int64(x) >= -1 && y >= 0 && z >= 0 && len(b) <= uploadFixed+NameMax && len(b) > uploadFixed:
		return &uploadKey{id: id, size: int64(x), begun: y, chunk: int(z), name: append([]byte(nil), b[uploadFixed:]...)}, nil, nil
	case b[0] == keyPiece && len(b) == pieceKeyLen && y >= 0 && z > 0 && y <= sizeMax && z <= sizeMax:
		return nil, &pieceKey{id: id, number: x, offset: y, length: z}, nil
	}
	return nil, nil, fmt.Errorf("key of an upload: %w", volume.ErrCorrupt)
}
