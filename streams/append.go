package streams

import (
	"errors"
	"math"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Errors of appending, as Redis words them.
var (
	ErrSmallID   = errors.New("ERR The ID specified in XADD is equal or smaller than the target stream top item")
	ErrZeroID    = errors.New("ERR The ID specified in XADD must be greater than 0-0")
	ErrExhausted = errors.New("ERR The stream has exhausted the last possible ID, unable to add more items")
	ErrTooLarge  = errors.New("ERR Elements are too large to be stored")
)

// AddOptions of an append.
type AddOptions struct {
	ID      ID
	Auto    bool // the ID is made of store time
	AutoSeq bool // only the sequence number of ID is chosen
	NoMake  bool // a key that does not exist stays so
	Trim    Trim
}

// Add appends an entry of pairs, field and value in turn, and returns its ID. added is false if the key is absent and stays so.
func Add(t *keyspace.Tx, key []byte, o AddOptions, pairs [][]byte) (id ID, added bool, err error) {
	s, err := open(t, key)
	if err != nil || s == nil && o.NoMake {
		return ID{}, false, err
	}
	last := ID{}
	if s != nil {
		last = s.head.last
	}
	if id, err = nextID(t, last, &o); err != nil {
		return ID{}, false, err
	}
	b, err := prepare(t, pairs)
	if err != nil {
		return ID{}, false, err
	}
	bytes, records := b.size(), 1
	if s == nil {
		bytes, records = bytes+createSize(key), records+2
	}
	if o.Trim.By != TrimNone {
		bytes, records = bytes+headSize, records+1
	}
	if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
		return ID{}, false, err
	}
	if s == nil {
		s = create(t, key, keyspace.Put{}, head{})
	}
	s.append(t, id, &b)
	s.head.added++
	t.ChangedValue(key, "xadd", s.newest)
	if s.trim(t, &o.Trim) > 0 {
		t.ChangedValue(key, "xtrim", s.newest)
	}
	s.weigh()
	return id, true, nil
}

// nextID chooses or checks the ID of an entry behind last.
func nextID(t *keyspace.Tx, last ID, o *AddOptions) (ID, error) {
	if last == IDMax {
		return ID{}, ErrExhausted
	}
	switch id := o.ID; {
	case o.Auto:
		if now := uint64(t.Now()); now > last.MS {
			return ID{now, 0}, nil
		}
		next, _ := last.Next()
		return next, nil
	case o.AutoSeq:
		switch {
		case id.MS < last.MS || id.MS == last.MS && last.Seq == math.MaxUint64:
			return ID{}, ErrSmallID
		case id.MS > last.MS:
			return ID{id.MS, 0}, nil
		}
		return ID{id.MS, last.Seq + 1}, nil
	case id.Zero():
		return ID{}, ErrZeroID
	case !last.Less(id):
		return ID{}, ErrSmallID
	default:
		return id, nil
	}
}

// body is an entry's content that is ready to be written.
type body struct {
	fields []byte // nil: pairs are yet to be encoded
	pairs  [][]byte
	n      int
}

// prepare makes the content of an entry.
func prepare(t *keyspace.Tx, pairs [][]byte) (body, error) {
	n := fieldsSize(pairs)
	if entryHeader+n > t.MaxRecord() {
		return body{}, ErrTooLarge
	}
	return body{pairs: pairs, n: n}, nil
}

// size is what the entry's record takes in a batch.
func (b *body) size() int { return entryHeader + b.n }

// append journals an entry behind all others.
func (s *stream) append(t *keyspace.Tx, id ID, b *body) {
	m := meta{id: id, size: uint32(b.size())}
	r := entryRecord{incarnation: s.incarnation, prev: s.head.tail, id: id}
	p, c, at := t.Element(KindEntry, b.size())
	rest := encodeEntry(p, &r)
	if b.fields != nil {
		copy(rest, b.fields)
	} else {
		AppendFields(rest[:0], b.pairs)
	}
	m.counter, m.place = c, at
	s.y.cache.put(c, append([]byte(nil), rest...))
	x := s.hashEntry(t.Volume(), &m)
	s.credit(t, x, at, int(m.size))
	s.index.push(&m, x, int(s.y.leafEntries.Load()))
	s.head.last, s.head.tail, s.newest = id, c, c
}
