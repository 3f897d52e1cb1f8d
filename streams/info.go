package streams

import "cvmstore/keyspace"

// Info is what a stream says of itself.
type Info struct {
	Length     int
	Leaves     int // of the index
	Groups     int
	Added      uint64
	Last       ID // that was generated
	MaxDeleted ID
	First      ID // of the entries that there are; 0-0: there are none
}

// Stat returns a stream's Info; ok is false if the key is absent.
func Stat(t *keyspace.Tx, key []byte) (i Info, ok bool, err error) {
	s, err := open(t, key)
	if err != nil || s == nil {
		return Info{}, false, err
	}
	return s.info(), true, nil
}

func (s *stream) info() Info {
	first, _ := s.index.first()
	return Info{
		Length: s.index.length, Leaves: len(s.index.leaves), Groups: len(s.groups), Added: s.head.added,
		Last: s.head.last, MaxDeleted: s.head.maxDeleted, First: first.id,
	}
}

// Behind says whether a stream has an entry with a higher ID; it has none if the key is absent.
func Behind(t *keyspace.Tx, key []byte, id ID) (bool, error) {
	s, err := open(t, key)
	if err != nil || s == nil {
		return false, err
	}
	m, ok := s.index.last()
	return ok && id.Less(m.id), nil
}

// Memory is about how many bytes a stream takes in memory.
func (y *Streams) Memory(ref uint64) int64 {
	if s := y.get(ref); s != nil {
		return s.bytes
	}
	return 0
}
