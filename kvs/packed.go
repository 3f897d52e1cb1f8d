package kvs

import (
	"encoding/binary"
	"math"

	"cvmstore/keyspace"
)

// The packed form of a small collection, which is one value.

// unpack reads a packed value. It was verified, so it is ours; the checks stop what a later version may have written.
func (h *handle) unpack(p []byte) error {
	r := packedReader{p: p}
	n := r.number()
	if r.bad || n > uint64(len(p)) {
		return errElement
	}
	h.list = make([]member, n)
	for i := range h.list {
		m := &h.list[i]
		if h.typ == keyspace.TypeZSet {
			m.score = r.score()
		}
		m.name = r.bytes()
		if h.typ == keyspace.TypeHash {
			m.val = r.bytes()
		}
	}
	if r.bad || len(r.p) != 0 {
		return errElement
	}
	return nil
}

// packedReader takes values from the front of p; bad says that something was missing.
type packedReader struct {
	p   []byte
	bad bool
}

func (r *packedReader) number() uint64 {
	n, k := binary.Uvarint(r.p)
	if k <= 0 {
		r.bad, r.p = true, nil
		return 0
	}
	r.p = r.p[k:]
	return n
}

func (r *packedReader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.p)) {
		r.bad, r.p = true, nil
		return nil
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

func (r *packedReader) score() float64 {
	if len(r.p) < 8 {
		r.bad, r.p = true, nil
		return 0
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(r.p))
	r.p = r.p[8:]
	return f
}

func uvarintSize(n int) (size int) {
	for size = 1; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}

// packedSize is what a member takes in a packed value.
func (h *handle) packedSize(m *member) int {
	n := uvarintSize(len(m.name)) + len(m.name)
	switch h.typ {
	case keyspace.TypeZSet:
		n += 8
	case keyspace.TypeHash:
		n += uvarintSize(len(m.val)) + len(m.val)
	}
	return n
}

func (h *handle) pack(size int) []byte {
	p := binary.AppendUvarint(make([]byte, 0, size), uint64(len(h.list)))
	for i := range h.list {
		m := &h.list[i]
		if h.typ == keyspace.TypeZSet {
			p = binary.LittleEndian.AppendUint64(p, math.Float64bits(m.score))
		}
		p = append(binary.AppendUvarint(p, uint64(len(m.name))), m.name...)
		if h.typ == keyspace.TypeHash {
			p = append(binary.AppendUvarint(p, uint64(len(m.val))), m.val...)
		}
	}
	return p
}
