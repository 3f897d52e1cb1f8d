package rdb

import (
	"encoding/binary"
	"math"
	"strconv"
)

// reader takes values from the front of p. Each method says whether there was one.
type reader struct{ p []byte }

func (r *reader) take(n int) ([]byte, bool) {
	if n > len(r.p) {
		return nil, false
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b, true
}

func (r *reader) byte() (byte, bool) {
	b, ok := r.take(1)
	if !ok {
		return 0, false
	}
	return b[0], true
}

// length reads a length, or which special form stands in its place.
func (r *reader) length() (n int, special, ok bool) {
	first, ok := r.byte()
	if !ok {
		return 0, false, false
	}
	switch lower := int(first & 0x3f); first >> 6 {
	case form6:
		return lower, false, true
	case form14:
		next, ok := r.byte()
		return lower<<8 | int(next), false, ok
	case formSpecial:
		return lower, true, true
	}
	switch first {
	case long32:
		if b, ok := r.take(4); ok {
			return int(binary.BigEndian.Uint32(b)), false, true
		}
	case long64:
		if b, ok := r.take(8); ok && binary.BigEndian.Uint64(b) <= math.MaxInt64 {
			return int(binary.BigEndian.Uint64(b)), false, true
		}
	}
	return 0, false, false
}

// string reads a string of at most limit bytes.
func (r *reader) string(limit int) ([]byte, bool) {
	n, special, ok := r.length()
	switch {
	case !ok:
		return nil, false
	case !special:
		if n > limit {
			return nil, false
		}
		return r.take(n)
	case n == specialLZF:
		return r.compressed(limit)
	}
	return r.number(n)
}

func (r *reader) number(kind int) ([]byte, bool) {
	sizes := [...]int{special8: 1, special16: 2, special32: 4}
	if kind >= len(sizes) {
		return nil, false
	}
	b, ok := r.take(sizes[kind])
	if !ok {
		return nil, false
	}
	var n int64
	switch kind {
	case special8:
		n = int64(int8(b[0]))
	case special16:
		n = int64(int16(binary.LittleEndian.Uint16(b)))
	case special32:
		n = int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return strconv.AppendInt(nil, n, 10), true
}

func (r *reader) compressed(limit int) ([]byte, bool) {
	packed, special, ok := r.length()
	if !ok || special {
		return nil, false
	}
	n, special, ok := r.length()
	if !ok || special || n > limit {
		return nil, false
	}
	b, ok := r.take(packed)
	if !ok || n > len(b)*lzfRatioMax {
		return nil, false
	}
	return decompress(b, n)
}
