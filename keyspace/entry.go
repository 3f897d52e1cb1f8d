package keyspace

import (
	"unsafe"

	"cvmstore/volume"
)

// entry is what the index knows of one key. It holds no pointers, so that the garbage collector looks into none of the
// millions, and it fills one cache line. Its key lies in the arena of its shard.
type entry struct {
	hash    uint32         // top half of the key's hash: stripe (8 bits), directory, slot
	keyOff  uint32         // of the key in the shard's arena
	lenType uint32         // length of the key (low 24 bits), type (high 8)
	size    uint32         // payload size of the value's record
	counter volume.Counter // of the newest change: value, expiry or delete
	value   volume.Counter // of the value's record; of the delete record if buried; 0 while only its expiry is known
	place   volume.Place   // of the value's record; of the delete record if buried
	expiry  int64          // store time, ms, after which the key is gone; 0: never
	ref     uint64         // position in the stripe's ring, 0 if not there; of blobs their name, of a large value its incarnation
	access  uint32         // low 24 bits: access clock (LRU seconds, or LFU); high 8: flags
	metaSeg uint32         // segment of the newest expire record, if that is newer than the value; else see first
}

const entrySize = 64

// An entry is exactly one cache line.
var _ = [1]struct{}{}[unsafe.Sizeof(entry{})-entrySize]

// Flags of an entry. The encoding of the value (what OBJECT ENCODING tells without reading it) is in the top four bits.
const (
	flagBuried  = 1 << 24 // a tombstone: the key is absent, and counter says since when
	flagPending = 1 << 25 // replay knows an expiry whose value is still to come
	flagOlder   = 1 << 26 // see first
	flagBlob    = 1 << 27 // the value is a blob, of which the entry holds a reference
	flagsGone   = flagBuried | flagPending

	encodingShift = 28
	encodingMax   = 15

	// EncodingLarge is the bit of a collection's encoding that says: its record is a header, the elements are records of their
	// own. Strings have no such form.
	EncodingLarge = 8

	accessMask = 1<<24 - 1
	keyLenMask = 1<<24 - 1
	typeShift  = 24
)

func (e *entry) keyLen() int     { return int(e.lenType & keyLenMask) }
func (e *entry) typ() TypeID     { return TypeID(e.lenType >> typeShift) }
func (e *entry) encoding() uint8 { return uint8(e.access >> encodingShift) }

// large says whether the value's record is the header of a collection whose elements are records of their own.
func (e *entry) large() bool { return e.typ() != TypeString && e.encoding()&EncodingLarge != 0 }

// live says whether the key exists (perhaps expired): it is neither buried nor half replayed.
func (e *entry) live() bool { return e.access&flagsGone == 0 }

// expired says whether the key is gone by store time now. Like Redis', an expiry still holds in its own millisecond.
func (e *entry) expired(now int64) bool { return e.expiry != 0 && now > e.expiry }

// setKind sets type and encoding, and makes the entry live.
func (e *entry) setKind(t TypeID, encoding uint8) {
	e.lenType = e.lenType&keyLenMask | uint32(t)<<typeShift
	e.access = e.access&accessMask | uint32(encoding)<<encodingShift
}

// blob returns the blob that is the entry's value, 0 if none is.
func (e *entry) blob() volume.BlobID {
	if e.access&flagBlob == 0 {
		return 0
	}
	return volume.BlobID(e.ref)
}

// valueSize is the length of a string's value that is no blob, known without reading it.
func (e *entry) valueSize() int { return int(e.size) - putHeaderSize - e.keyLen() }

// first returns the oldest segment (its ordinal) that may hold a record of the key; 0: any of those that are older than the
// entry's. It is what a tombstone must outlive (DESIGN.md 6.3). An entry has room for it in metaSeg only while no separate record
// of its expiry needs that; then either the value's record is the oldest one, or flagOlder says that nobody knows.
func (e *entry) first() uint32 {
	switch {
	case e.access&flagOlder != 0:
		return 0
	case e.counter > e.value && e.value != 0:
		return ordinal(e.place)
	}
	return e.metaSeg
}

// setFirst notes it, after the entry has changed.
func (e *entry) setFirst(first uint32) {
	e.access &^= flagOlder
	switch {
	case e.counter == e.value:
		e.metaSeg = first
	case e.value != 0 && first == ordinal(e.place), e.value == 0 && first == e.metaSeg:
		return
	}
	if first == 0 || e.counter != e.value {
		e.access |= flagOlder
	}
}

// placeIn is a place of which only the segment matters.
func placeIn(ordinal uint32) volume.Place { return volume.Place(ordinal) << 32 }

func ordinal(at volume.Place) uint32 { return uint32(at >> 32) }
