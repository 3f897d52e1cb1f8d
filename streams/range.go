package streams

import (
	"errors"
	"fmt"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Entry is what a reader gets: Fields aliases what must not be changed, and is valid until the transaction's end.
type Entry struct {
	ID     ID
	Fields []byte // see Fields
}

// Len returns the number of entries.
func Len(t *keyspace.Tx, key []byte) (int, error) {
	s, err := open(t, key)
	if err != nil || s == nil {
		return 0, err
	}
	return s.index.length, nil
}

// RangeOptions say which entries are wanted.
type RangeOptions struct {
	From, To ID // both included
	Count    int
	Reverse  bool // from To downwards
}

// Range returns the entries between two IDs, at most Count if that is above 0. It returns ErrMiss only after it has asked for
// all that is on the device.
func Range(t *keyspace.Tx, key []byte, o RangeOptions) ([]Entry, error) {
	s, err := open(t, key)
	if err != nil || s == nil {
		return nil, err
	}
	return s.entries(t, key, o)
}

func (s *stream) entries(t *keyspace.Tx, key []byte, o RangeOptions) (list []Entry, err error) {
	if o.To.Less(o.From) {
		return nil, nil
	}
	var missed error
	take := func(m meta, before volume.Counter) bool {
		if m.id.Less(o.From) || o.To.Less(m.id) {
			return false
		}
		e, err := s.load(t, key, &m, before)
		if err != nil {
			if missed = err; !errors.Is(err, keyspace.ErrMiss) {
				return false
			}
		}
		list = append(list, e)
		return o.Count <= 0 || len(list) < o.Count
	}
	if o.Reverse {
		s.index.descend(o.To, take)
	} else {
		s.index.ascend(o.From, take)
	}
	if missed != nil {
		return nil, missed
	}
	return list, nil
}

// load returns an entry: from the cache, or from what was supplied. before is the counter of the entry before it.
func (s *stream) load(t *keyspace.Tx, key []byte, m *meta, before volume.Counter) (Entry, error) {
	if p, ok := s.y.cache.get(m.counter); ok {
		return Entry{m.id, p}, nil
	}
	kind := KindEntry
	if m.blob {
		kind = KindBlobEntry
	}
	p, err := t.Fetch(volume.Fetch{At: m.place, Size: int(m.size), Counter: m.counter, Kind: kind, Store: volume.StoreKeys})
	if err != nil {
		if errors.Is(err, volume.ErrCorrupt) {
			err = corrupt(t, key, m.id, err)
		}
		return Entry{ID: m.id}, err
	}
	r, err := decodeEntry(kind, p)
	if err == nil {
		err = s.verify(m, before, &r)
	}
	if err == nil && !Fields(r.rest, nil) {
		err = errRecord
	}
	if err != nil {
		return Entry{}, corrupt(t, key, m.id, err)
	}
	s.y.cache.put(m.counter, r.rest)
	return Entry{m.id, r.rest}, nil
}

// verify makes sure that a record, whose counter and place volume has verified, is this stream's entry at this point of its chain.
func (s *stream) verify(m *meta, before volume.Counter, r *entryRecord) error {
	switch {
	case r.incarnation != s.incarnation:
		return fmt.Errorf("another stream's record (%d)", r.incarnation)
	case r.id != m.id:
		return fmt.Errorf("the record of entry %s", r.id)
	}
	if want := s.prevOf(m.counter, before); want != 0 && r.prev != want || want == 0 && r.prev >= s.head.low {
		return fmt.Errorf("it follows record %d, not %d: something is missing, or was added", r.prev, want)
	}
	return nil
}
