package kvs

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// source is a part of a value that is to be written: bytes, a blob or a part of one, or zeros.
type source struct {
	bytes    []byte
	body     *volume.Blob
	part     bool // of body, or zeros: from up to to
	from, to int64
	lent     bool // bytes are valid until the transaction's end only
}

func (s *source) size() int {
	switch {
	case s.part:
		return int(s.to - s.from)
	case s.body != nil:
		return int(s.body.Size())
	}
	return len(s.bytes)
}

func (s *source) piece() volume.Piece {
	switch {
	case s.part && s.body == nil:
		return volume.Piece{Zeros: s.to - s.from}
	case s.part:
		return volume.Piece{Blob: s.body, From: s.from, To: s.to}
	case s.body != nil:
		return volume.Piece{Blob: s.body, To: s.body.Size()}
	}
	return volume.Piece{Bytes: s.bytes, Lent: s.lent}
}

// content is a value that is ready to be written: the parts of a record, or a blob.
type content struct {
	parts [sourcesMax][]byte
	count int
	n     int // bytes of parts
	blob  *volume.Blob
}

// sourcesMax is how many parts a value is made of at most: what stays before an edit, zeros or what stays behind it, the edit.
const sourcesMax = 3

// plain is the content of a value that is always short.
func plain(val []byte) content { return content{parts: [sourcesMax][]byte{val}, count: 1, n: len(val)} }

// prepare makes the content of a key of sources, one after the other, whose size was checked. Large ones become a blob, which is
// written outside of the transaction (keyspace.ErrMiss). Within a batch that has changes already (MULTI) that cannot be done for a
// value that was not foreseen: there a record takes what it can hold.
func prepare(t *keyspace.Tx, key []byte, sources ...source) (content, error) {
	size, bodies := 0, 0
	for i := range sources {
		size += sources[i].size()
		if sources[i].body != nil {
			bodies++
		}
	}
	if s := &sources[len(sources)-1]; s.body != nil && !s.part && s.size() == size {
		if keyspace.PutBlobSize(len(key), s.body) > t.MaxRecord() {
			return content{}, &SizeError{size, t.MaxRecord()}
		}
		return content{blob: s.body}, nil // as it came in
	}
	least := t.BlobBytes()
	limit := t.MaxRecord() - keyspace.PutSize(len(key), 0)
	if inline := least < 0 || size < least && size <= limit; inline && bodies == 0 {
		return inMemory(t, sources)
	}
	var pieces []volume.Piece
	for i := range sources {
		if sources[i].size() > 0 {
			pieces = append(pieces, sources[i].piece())
		}
	}
	b, err := t.WriteBlob(pieces...)
	if errors.Is(err, keyspace.ErrMiss) && t.HasChanged() {
		if size > limit {
			return content{}, &SizeError{size, limit}
		}
		return inMemory(t, sources)
	}
	if err == nil && keyspace.PutBlobSize(len(key), b) > t.MaxRecord() {
		err = &SizeError{size, limit} // in a tiny volume, or with a huge key
	}
	return content{blob: b}, err
}

// inMemory makes the content of a record.
func inMemory(t *keyspace.Tx, sources []source) (c content, err error) {
	for i := range sources {
		s := &sources[i]
		switch {
		case s.body != nil:
			p := s.piece()
			c.parts[i], err = t.LoadRange(nil, s.body, p.From, p.To)
		case s.part:
			c.parts[i] = make([]byte, s.size())
		default:
			c.parts[i] = s.bytes
		}
		if err != nil {
			return content{}, err
		}
		c.n += s.size()
	}
	c.count = len(sources)
	return c, nil
}

// reserve is what the content takes in a batch.
func (c *content) reserve(key []byte) int {
	if c.blob != nil {
		return keyspace.PutBlobSize(len(key), c.blob)
	}
	return keyspace.PutSize(len(key), c.n)
}

func (c *content) put(t *keyspace.Tx, key []byte, o keyspace.Put) {
	if c.blob != nil {
		t.PutBlob(key, o, c.blob)
		return
	}
	t.Put(key, o, c.parts[:c.count]...)
}
