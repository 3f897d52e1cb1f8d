package streams

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// TrimBy says what limits a stream.
type TrimBy uint8

// Streams are trimmed to a length, or from an ID on.
const (
	TrimNone TrimBy = iota
	TrimMaxLen
	TrimMinID
)

// Trim says which entries, from the oldest on, go.
type Trim struct {
	By     TrimBy
	MaxLen uint64
	MinID  ID
	Approx bool   // only whole leaves go
	Limit  uint64 // then: at most so many entries, 0: any number
}

// XTrim trims a stream and returns how many entries went.
func XTrim(t *keyspace.Tx, key []byte, o Trim) (int, error) {
	s, err := open(t, key)
	if err != nil || s == nil {
		return 0, err
	}
	if !s.trims(&o) {
		return 0, nil
	}
	if err := t.Reserve(headSize, 1, volume.ClassReclaim); err != nil {
		return 0, err
	}
	n := s.trim(t, &o)
	if n > 0 {
		t.ChangedValue(key, "xtrim", s.newest)
		s.weigh()
	}
	return n, nil
}

// trims says whether the first entry would go at all, were whole leaves no condition.
func (s *stream) trims(o *Trim) bool {
	m, ok := s.index.first()
	return ok && (o.By == TrimMaxLen && uint64(s.index.length) > o.MaxLen || o.By == TrimMinID && m.id.Less(o.MinID))
}

// trim drops entries from the front: whole leaves at once, and then, unless it is approximate, single ones. One header record
// makes that last. It takes headSize of the reservation, if anything goes.
func (s *stream) trim(t *keyspace.Tx, o *Trim) (n int) {
	if o.By == TrimNone {
		return 0
	}
	by := t.Ledger()
	for s.trims(o) {
		l := s.index.leaves[0]
		if o.Approx && o.Limit > 0 && uint64(n+l.n) > o.Limit {
			break
		}
		whole := o.By == TrimMaxLen && uint64(s.index.length-l.n) >= o.MaxLen || o.By == TrimMinID && l.last.id.Less(o.MinID)
		if !whole && o.Approx {
			break
		}
		var scratch [leafMax]meta
		list := l.all(scratch[:])
		if whole {
			s.index.cutLeaf()
			by.Remove(l.sum)
			s.sum.Sub(l.sum)
			s.forget(t, list)
			n += len(list)
			continue
		}
		k := 0
		var sum volume.Sum
		for k < len(list) && (o.By == TrimMaxLen && uint64(s.index.length-k) > o.MaxLen || o.By == TrimMinID && list[k].id.Less(o.MinID)) {
			sum.Add(s.hashEntry(t.Volume(), &list[k]))
			k++
		}
		s.index.cut(k, sum)
		by.Remove(sum)
		s.sum.Sub(sum)
		s.forget(t, list[:k])
		n += k
	}
	if n > 0 {
		s.raise(t)
		s.putHead(t)
	}
	return n
}

// forget reports the records of entries that have left the index.
func (s *stream) forget(t *keyspace.Tx, list []meta) {
	for i := range list {
		m := &list[i]
		t.Ledger().Dead(m.place, int(m.size))
		s.gave(m.place, int(m.size))
		s.releaseBlob(t, m)
	}
}

func (s *stream) releaseBlob(t *keyspace.Tx, m *meta) {
	if m.blob {
		t.Volume().BlobByID(s.blobs[m.counter]).Release(t.Ledger().Newest())
		delete(s.blobs, m.counter)
	}
}

// Delete removes entries and returns how many there were.
func Delete(t *keyspace.Tx, key []byte, ids []ID) (n int, err error) {
	s, err := open(t, key)
	if err != nil || s == nil {
		return 0, err
	}
	found := 0
	for _, id := range ids {
		if s.index.has(id) {
			found++
		}
	}
	if found == 0 {
		return 0, nil
	}
	if err := t.Reserve(found*gapSize+headSize, found+1, volume.ClassReclaim); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if s.remove(t, id) {
			n++
		}
	}
	s.putHead(t)
	t.ChangedValue(key, "xdel", s.newest)
	s.weigh()
	return n, nil
}

// remove takes one entry out. Before the first one there is nothing to cover: the header does.
func (s *stream) remove(t *keyspace.Tx, id ID) bool {
	var m meta
	var before volume.Counter
	found := false
	s.index.ascend(id, func(x meta, b volume.Counter) bool {
		m, before, found = x, b, x.id == id
		return false
	})
	if !found {
		return false
	}
	x := s.hashEntry(t.Volume(), &m)
	prev := s.prevOf(m.counter, before)
	s.index.remove(m.counter, x)
	s.debit(t, x, m.place, int(m.size))
	s.releaseBlob(t, &m)
	if s.head.maxDeleted.Less(id) {
		s.head.maxDeleted = id
	}
	if before == 0 {
		s.raise(t)
	} else {
		s.putGap(t, gap{first: m.counter, last: m.counter, prev: prev})
	}
	return true
}

// Errors of XSETID, as Redis words them.
var (
	ErrSetIDSmall   = errors.New("ERR The ID specified in XSETID is smaller than the target stream top item")
	ErrSetIDDeleted = errors.New("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
	ErrSetIDCurrent = errors.New("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
	ErrSetIDAdded   = errors.New("ERR The entries_added specified in XSETID is smaller than the target stream length")
	ErrNoKey        = errors.New("ERR no such key")
)

// SetIDOptions of XSETID.
type SetIDOptions struct {
	Last       ID
	Added      int64 // negative: as it is
	MaxDeleted ID    // 0-0: as it is
}

// SetID sets what the stream believes of its past.
func SetID(t *keyspace.Tx, key []byte, o SetIDOptions) error {
	s, err := open(t, key)
	switch {
	case err != nil:
		return err
	case s == nil:
		return ErrNoKey
	case o.Last.Less(s.head.maxDeleted):
		return ErrSetIDCurrent
	}
	if m, ok := s.index.last(); ok {
		if o.Last.Less(m.id) {
			return ErrSetIDSmall
		}
		if o.Added >= 0 && uint64(s.index.length) > uint64(o.Added) {
			return ErrSetIDAdded
		}
	}
	if err := t.Reserve(headSize, 1, volume.ClassNormal); err != nil {
		return err
	}
	s.head.last = o.Last
	if o.Added >= 0 {
		s.head.added = uint64(o.Added)
	}
	if !o.MaxDeleted.Zero() {
		s.head.maxDeleted = o.MaxDeleted
	}
	s.putHead(t)
	t.ChangedValue(key, "xsetid", s.newest)
	return nil
}
