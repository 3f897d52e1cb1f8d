package keyspace

import "cvmstore/volume"

// TypeID numbers the types of values. It is on disk.
type TypeID uint8

// The types. Strings come with the keyspace; the others are registered by their packages.
const (
	TypeNone   TypeID = 0 // absent
	TypeString TypeID = 1
	TypeList   TypeID = 2
	TypeSet    TypeID = 3
	TypeZSet   TypeID = 4
	TypeHash   TypeID = 5
	TypeStream TypeID = 6
	TypeFile   TypeID = 7 // in private databases only, like the next
	TypeUpload TypeID = 8

	typesMax = 32
)

// Type is what the keyspace needs from a type of values.
type Type interface {
	// Name is what the TYPE command answers.
	Name() string
	// Drop is called, under the key's lock, when a large value (EncodingLarge) is gone: overwritten, deleted, expired. ref is
	// its incarnation, or what the type stored with Tx.SetRef; Drop is not called for 0. What the value's elements added to
	// the multiset hash is taken out of l, and their records are reported dead.
	Drop(ref uint64, l Ledger)
	// Flush is called, with all locks, when all keys of a table are gone at once. Drop is not called for them.
	Flush(table uint16, l Ledger)
	// Found is called at the end of recovery for each large value, from several goroutines: table and stripe are its key's.
	Found(table uint16, stripe int, ref uint64)
}

// Elements is what a package brings whose types have records of their own, one an element: kinds of 32 and above.
//
// An element's record names its collection by the counter of the collection's creation (its incarnation), not by its key: so
// it is dead once no key has that incarnation, dropping a collection is the one record that deletes or overwrites its key, and
// renaming it moves no element. The rules of volume.Replayer hold for all methods: records come in any order, a collection's
// header perhaps last or never; each method takes its locks for itself.
type Elements interface {
	// Meta is volume.Replayer's.
	Meta(k volume.Kind, payload []byte) int
	// Reset forgets everything.
	Reset()
	// Replay applies one record of an element.
	Replay(v *volume.Volume, r volume.Record) error
	// Settle comes after the keyspace has settled: refs of live keys can be looked up, elements without a live collection are
	// dropped, the others enter the multiset hash and count as live.
	Settle(v *volume.Volume, d *volume.Delta) error
	// Live is volume.Replayer's.
	Live(v *volume.Volume, r volume.Record) bool
	// Move is volume.Replayer's.
	Move(v *volume.Volume, r volume.Record) (moved bool, err error)
}

// elementKinds says whose the records of some kinds are.
type elementKinds struct {
	from, to volume.Kind
	e        Elements
}

// elementsMin is the first kind of an element's record.
const elementsMin volume.Kind = 32

// RegisterElements makes the kinds from to to known, both included. Call it before the volume is opened.
func (s *Space) RegisterElements(from, to volume.Kind, e Elements) {
	for _, x := range s.elements {
		if from <= x.to && to >= x.from {
			panic("internal error: keyspace: kinds of elements registered twice")
		}
	}
	if from < elementsMin || to < from {
		panic("internal error: keyspace: kinds of elements out of range")
	}
	s.elements = append(s.elements, elementKinds{from, to, e})
}

// elementsOf returns whose the records of a kind are, or nil.
func (s *Space) elementsOf(k volume.Kind) Elements {
	for _, x := range s.elements {
		if k >= x.from && k <= x.to {
			return x.e
		}
	}
	return nil
}

// stringType has nothing to drop: the ref of a string is a position in the ring, which forgets by itself.
type stringType struct{}

func (stringType) Name() string              { return "string" }
func (stringType) Drop(uint64, Ledger)       {}
func (stringType) Flush(uint16, Ledger)      {}
func (stringType) Found(uint16, int, uint64) {}

func (s *Space) typeOf(id TypeID) Type {
	if int(id) < len(s.types) {
		return s.types[id]
	}
	return nil
}

// Register makes a type known. Call it before the volume is opened: replay refuses records of unknown types.
func (s *Space) Register(id TypeID, t Type) {
	if id == TypeNone || id >= typesMax || s.types[id] != nil {
		panic("internal error: keyspace: type registered twice or out of range")
	}
	s.types[id] = t
	if z, ok := t.(Sizer); ok {
		s.sizers = append(s.sizers, z)
	}
}
