package keyspace

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

	typesMax = 32
)

// Type is what the keyspace needs from a type of values.
type Type interface {
	// Name is what the TYPE command answers.
	Name() string
	// Drop is called, under the key's lock, when the value behind ref is gone: overwritten, deleted, expired. ref is what
	// the type stored with Tx.SetRef; Drop is not called for 0.
	Drop(ref uint64)
	// Flush is called, with all locks, when all keys of a table are gone at once. Drop is not called for them.
	Flush(table uint16)
}

// stringType has nothing to drop: the ref of a string is a position in the ring, which forgets by itself.
type stringType struct{}

func (stringType) Name() string { return "string" }
func (stringType) Drop(uint64)  {}
func (stringType) Flush(uint16) {}
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
}
