package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"cvmstore/volume"
)

// Records of the keyspace, payloads of volume's records of StoreKeys. All numbers are little-endian. The counter, the store
// and the kind are in volume's own record header, which is sealed with the payload.
//
//	KindPut: a key and its value (or, for other types, what their header is)
//	 0  2  table    which database (a table keeps its number when databases are swapped)
//	 2  1  type     above 0
//	 3  1  encoding 0 to 15; what OBJECT ENCODING answers without reading the value
//	 4  4  key length, at most KeyMax
//	 8  8  expiry   store time, ms; 0 none; never negative
//	16  k  key
//	    .. value   the rest; of a collection with the bit EncodingLarge: 8 bytes, its incarnation (the counter of the put that
//	               created it), so that a key that was renamed finds the elements
//
//	KindPutBlob: a key whose value is a blob
//	 0 16  as KindPut
//	16  k  key
//	    .. pointer  the rest; volume's (blobformat.go)
//
//	KindExpire: a key has a new expiry; its value's record stays where it is
//	 0  2  table
//	 2  2  zero
//	 4  4  key length
//	 8  8  expiry   0: it no longer expires
//	16  k  key     the rest, exactly
//
//	KindDelete: a key is gone (deleted, or expired)
//	 0  2  table
//	 2  2  zero
//	 4  4  key length
//	 8  k  key     the rest, exactly
//
//	KindFlush: all keys of a table with lower counters are gone
//	 0  2  table
//	 2  6  zero
//
//	KindSwap: two databases have exchanged their tables
//	 0  2  first database
//	 2  2  its table from now on
//	 4  2  second database, another one
//	 6  2  its table from now on, another one
//
// A swap says what holds after it, not what it changed: of the swaps that name a database the newest wins, in whatever order
// recovery reads them.
//
// Table and key stand in the record, under its tag, so a record that the host serves for another key is found out even if
// volume's check of place and counter were wrong. Lengths are checked before use: a record that verified was written by
// us, but perhaps by a later version. Zero bytes are checked so that they can mean something later.
const (
	KindPut    volume.Kind = 1
	KindExpire volume.Kind = 2
	KindDelete volume.Kind = 3
	KindFlush  volume.Kind = 4
	KindSwap   volume.Kind = 5
	// KindPutBlob needs all of its payload at recovery; of a KindPut the value is not needed.
	KindPutBlob volume.Kind = 6
	// 7 to 31 are the keyspace's own; 32 and above are for the elements of collections, and KindSystem.
)

const (
	putHeaderSize    = 16
	expireHeaderSize = 16
	deleteHeaderSize = 8
	flushSize        = 8
	swapSize         = 8

	// KeyMax is the longest key, in bytes. Redis allows 512 MiB; keys stay in memory here and are part of each record.
	KeyMax = 1 << 20

	offTable    = 0
	offType     = 2
	offEncoding = 3
	offKeyLen   = 4
	offExpiry   = 8
)

var errRecord = errors.New("malformed keyspace record")

// PutSize is what a put of such a key and value takes in a batch (for Reserve).
func PutSize(keyLen, valueLen int) int { return putHeaderSize + keyLen + valueLen }

// ExpireSize is what a change of expiry takes in a batch.
func ExpireSize(keyLen int) int { return expireHeaderSize + keyLen }

// DeleteSize is what a delete takes in a batch.
func DeleteSize(keyLen int) int { return deleteHeaderSize + keyLen }

// record is a decoded payload; key and value alias it.
type record struct {
	table    uint16
	typ      TypeID
	encoding uint8
	expiry   int64
	key      []byte
	value    []byte
	blob     *volume.Blob // instead of value, once the pointer in it was adopted

	incarnation uint64 // of a large collection; 0: the record's own counter
}

// encodePut writes r but for its value into p, and returns where the value goes. p has exactly the right size.
func encodePut(p []byte, r *record) []byte {
	encodeKey(p, r.table, putHeaderSize, r.key)
	p[offType], p[offEncoding] = byte(r.typ), r.encoding
	binary.LittleEndian.PutUint64(p[offExpiry:], uint64(r.expiry))
	return p[putHeaderSize+len(r.key):]
}

func decodePut(p []byte) (r record, err error) {
	rest, err := decodeKey(&r, p, putHeaderSize)
	if err != nil {
		return r, err
	}
	r.typ, r.encoding, r.value = TypeID(p[offType]), p[offEncoding], rest
	r.expiry = int64(binary.LittleEndian.Uint64(p[offExpiry:]))
	if r.typ == 0 || r.encoding > encodingMax || r.expiry < 0 {
		return r, fmt.Errorf("put: type %d encoding %d expiry %d: %w", r.typ, r.encoding, r.expiry, errRecord)
	}
	if largePut(p) {
		if len(rest) != incarnationSize {
			return r, fmt.Errorf("put: header of %d bytes: %w", len(rest), errRecord)
		}
		r.incarnation = binary.LittleEndian.Uint64(rest)
	}
	return r, nil
}

// incarnationSize is the length of a large collection's value.
const incarnationSize = 8

// largePut says whether a put, which has a whole header, is that of a large collection.
func largePut(p []byte) bool {
	return TypeID(p[offType]) != TypeString && p[offEncoding]&EncodingLarge != 0
}

// putMeta returns how much of a put comes before its value.
func putMeta(p []byte) int {
	if len(p) < putHeaderSize {
		return len(p)
	}
	n := putHeaderSize + int(binary.LittleEndian.Uint32(p[offKeyLen:]))
	if largePut(p) {
		n += incarnationSize
	}
	return min(len(p), n)
}

func encodeExpire(p []byte, r *record) {
	encodeKey(p, r.table, expireHeaderSize, r.key)
	binary.LittleEndian.PutUint64(p[offExpiry:], uint64(r.expiry))
}

func decodeExpire(p []byte) (r record, err error) {
	rest, err := decodeKey(&r, p, expireHeaderSize)
	if err != nil {
		return r, err
	}
	r.expiry = int64(binary.LittleEndian.Uint64(p[offExpiry:]))
	if r.expiry < 0 || len(rest) != 0 || p[2] != 0 || p[3] != 0 {
		return r, fmt.Errorf("expire: %w", errRecord)
	}
	return r, nil
}

func encodeDelete(p []byte, r *record) { encodeKey(p, r.table, deleteHeaderSize, r.key) }

func decodeDelete(p []byte) (r record, err error) {
	rest, err := decodeKey(&r, p, deleteHeaderSize)
	if err != nil {
		return r, err
	}
	if len(rest) != 0 || p[2] != 0 || p[3] != 0 {
		return r, fmt.Errorf("delete: %w", errRecord)
	}
	return r, nil
}

func encodeFlush(p []byte, table uint16) {
	binary.LittleEndian.PutUint64(p, uint64(table))
}

func decodeFlush(p []byte) (table uint16, err error) {
	if len(p) != flushSize || binary.LittleEndian.Uint64(p)>>16 != 0 {
		return 0, fmt.Errorf("flush: %w", errRecord)
	}
	return binary.LittleEndian.Uint16(p), nil
}

// swap is a decoded KindSwap: database db[i] has the table table[i].
type swap struct{ db, table [2]uint16 }

func encodeSwap(p []byte, s *swap) {
	for i := range s.db {
		binary.LittleEndian.PutUint16(p[4*i:], s.db[i])
		binary.LittleEndian.PutUint16(p[4*i+2:], s.table[i])
	}
}

func decodeSwap(p []byte) (s swap, err error) {
	if len(p) != swapSize {
		return s, fmt.Errorf("swap of %d bytes: %w", len(p), errRecord)
	}
	for i := range s.db {
		s.db[i] = binary.LittleEndian.Uint16(p[4*i:])
		s.table[i] = binary.LittleEndian.Uint16(p[4*i+2:])
	}
	if s.db[0] == s.db[1] || s.table[0] == s.table[1] {
		return s, fmt.Errorf("swap of one database or table: %w", errRecord)
	}
	return s, nil
}

// encodeKey writes what put, expire and delete have in common; header is where the key goes.
func encodeKey(p []byte, table uint16, header int, key []byte) {
	binary.LittleEndian.PutUint16(p[offTable:], table)
	p[2], p[3] = 0, 0
	binary.LittleEndian.PutUint32(p[offKeyLen:], uint32(len(key)))
	copy(p[header:], key)
}

func decodeKey(r *record, p []byte, header int) (rest []byte, err error) {
	if len(p) < header {
		return nil, fmt.Errorf("%d bytes, header of %d: %w", len(p), header, errRecord)
	}
	n := binary.LittleEndian.Uint32(p[offKeyLen:])
	if n > KeyMax || int(n) > len(p)-header {
		return nil, fmt.Errorf("key of %d bytes in a record of %d: %w", n, len(p), errRecord)
	}
	r.table = binary.LittleEndian.Uint16(p[offTable:])
	r.key = p[header : header+int(n) : header+int(n)]
	return p[header+int(n):], nil
}

// appendItem appends the multiset item of a key (DESIGN.md 6.4.4). The value itself is not in it: the counter of its
// record, which ItemHash takes beside the item, stands for it.
//
//	0  1  1: a key
//	1  1  type
//	2  2  table
//	4  4  key length
//	8  8  expiry
//	16 8  counter of the newest change: value or expiry
//	24 k  key
func appendItem(b []byte, table uint16, e *entry, key []byte) []byte {
	b = append(b, itemKey, byte(e.typ()))
	b = binary.LittleEndian.AppendUint16(b, table)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.expiry))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.counter))
	return append(b, key...)
}

// appendDatabase appends the multiset item of a database whose table was swapped; the counter is that of the newest swap.
//
//	0  1  2: a database
//	1  1  zero
//	2  2  database
//	4  2  its table
func appendDatabase(b []byte, db int, table uint16) []byte {
	b = append(b, itemDatabase, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(db))
	return binary.LittleEndian.AppendUint16(b, table)
}

// First bytes of what goes to ItemHash.
const (
	itemKey      = 1
	itemDatabase = 2
	itemSystem   = 3   // system.go
	itemName     = 255 // not an item: the name of a key in logs and errors
)
