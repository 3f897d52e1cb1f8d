package rdb

import (
	"encoding/binary"
	"math"
	"strconv"
)

// Kind is what a Value is.
type Kind uint8

// The kinds.
const (
	KindString Kind = iota
	KindList
	KindSet
	KindHash // Items are fields and values in turn
	KindZSet // Scores are those of Items
)

// Value is a value of any type.
type Value struct {
	Kind   Kind
	Items  [][]byte // of a string one
	Scores []float64
}

// Types of values in a payload. What is written is what every version reads; the compact ones are read.
const (
	typeList          = 1
	typeSet           = 2
	typeZSetText      = 3
	typeHash          = 4
	typeZSet          = 5
	typeHashZipmap    = 9
	typeListZiplist   = 10
	typeSetIntset     = 11
	typeZSetZiplist   = 12
	typeHashZiplist   = 13
	typeQuicklist     = 14
	typeHashListpack  = 16
	typeZSetListpack  = 17
	typeQuicklist2    = 18
	typeSetListpack   = 20
	quicklistPlain    = 1
	quicklistListpack = 2
)

// AppendValue appends the payload of a value.
func AppendValue(b []byte, v *Value) []byte {
	if v.Kind == KindString {
		return AppendDump(b, v.Items[0])
	}
	start := len(b)
	n := len(v.Items)
	if v.Kind == KindHash {
		n /= 2
	}
	b = append(b, [...]byte{KindList: typeList, KindSet: typeSet, KindHash: typeHash, KindZSet: typeZSet}[v.Kind])
	b = appendLength(b, n)
	for i, item := range v.Items {
		b = appendString(b, item)
		if v.Kind == KindZSet {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Scores[i]))
		}
	}
	b = binary.LittleEndian.AppendUint16(b, Version)
	return binary.LittleEndian.AppendUint64(b, crc64(b[start:]))
}

// ParseValue checks a payload and returns what is in it, no item of more than limit bytes. It may alias p. Sets, hashes and
// sorted sets have no item twice, and nothing is empty but a string.
func ParseValue(p []byte, limit int) (v Value, err error) {
	n := len(p) - footerSize
	if n < 0 || binary.LittleEndian.Uint16(p[n:]) > Version || binary.LittleEndian.Uint64(p[n+2:]) != crc64(p[:n+2]) {
		return v, ErrPayload
	}
	r := reader{p: p[:n]}
	t, ok := r.byte()
	if !ok || !r.value(t, limit, &v) || !v.valid() {
		return Value{}, ErrFormat
	}
	return v, nil
}

func (v *Value) valid() bool {
	if len(v.Items) == 0 {
		return false
	}
	step := 1
	switch v.Kind {
	case KindString, KindList:
		return true
	case KindHash:
		step = 2
		if len(v.Items)%2 != 0 {
			return false
		}
	}
	seen := make(map[string]struct{}, len(v.Items)/step)
	for i := 0; i < len(v.Items); i += step {
		if _, again := seen[string(v.Items[i])]; again {
			return false
		}
		seen[string(v.Items[i])] = struct{}{}
	}
	for _, s := range v.Scores {
		if math.IsNaN(s) {
			return false
		}
	}
	return true
}

// value reads a value of type t.
func (r *reader) value(t byte, limit int, v *Value) (ok bool) {
	switch t {
	case typeString:
		val, ok := r.string(limit)
		v.Items = [][]byte{val}
		return ok
	case typeList, typeSet:
		v.Kind = map[byte]Kind{typeList: KindList, typeSet: KindSet}[t]
		return r.strings(1, limit, v)
	case typeHash:
		v.Kind = KindHash
		return r.strings(2, limit, v)
	case typeZSet, typeZSetText:
		v.Kind = KindZSet
		return r.scored(t, limit, v)
	case typeQuicklist, typeQuicklist2:
		v.Kind = KindList
		return r.quicklist(t, limit, v)
	}
	blob, ok := r.string(limit)
	return ok && v.compact(t, blob)
}

// compact reads a collection of type t that stands in one string.
func (v *Value) compact(t byte, blob []byte) (ok bool) {
	switch t {
	case typeHashZipmap:
		v.Kind = KindHash
		v.Items, ok = zipmap(blob)
	case typeListZiplist:
		v.Kind = KindList
		v.Items, ok = ziplist(blob, nil)
	case typeHashZiplist:
		v.Kind = KindHash
		v.Items, ok = ziplist(blob, nil)
	case typeSetIntset:
		v.Kind = KindSet
		v.Items, ok = intset(blob)
	case typeHashListpack:
		v.Kind = KindHash
		v.Items, ok = listpack(blob, nil)
	case typeSetListpack:
		v.Kind = KindSet
		v.Items, ok = listpack(blob, nil)
	case typeZSetZiplist:
		v.Items, ok = ziplist(blob, nil)
		ok = ok && v.pairs()
	case typeZSetListpack:
		v.Items, ok = listpack(blob, nil)
		ok = ok && v.pairs()
	default:
		return false
	}
	return ok
}

// pairs makes a sorted set of members and scores in turn.
func (v *Value) pairs() bool {
	v.Kind = KindZSet
	if len(v.Items)%2 != 0 {
		return false
	}
	var members [][]byte
	for i := 0; i < len(v.Items); i += 2 {
		s, err := strconv.ParseFloat(string(v.Items[i+1]), 64)
		if err != nil {
			return false
		}
		members = append(members, v.Items[i])
		v.Scores = append(v.Scores, s)
	}
	v.Items = members
	return true
}

// strings reads a count and so many groups of strings.
func (r *reader) strings(group, limit int, v *Value) bool {
	n, special, ok := r.length()
	if !ok || special || n > len(r.p) { // each takes a byte at least
		return false
	}
	for range n * group {
		s, ok := r.string(limit)
		if !ok {
			return false
		}
		v.Items = append(v.Items, s)
	}
	return true
}

func (r *reader) scored(t byte, limit int, v *Value) bool {
	n, special, ok := r.length()
	if !ok || special || n > len(r.p) {
		return false
	}
	for range n {
		s, ok := r.string(limit)
		if !ok {
			return false
		}
		var score float64
		if t == typeZSet {
			b, ok := r.take(8)
			if !ok {
				return false
			}
			score = math.Float64frombits(binary.LittleEndian.Uint64(b))
		} else if score, ok = r.textDouble(); !ok {
			return false
		}
		v.Items, v.Scores = append(v.Items, s), append(v.Scores, score)
	}
	return true
}

// textDouble reads a double as old versions wrote it: a length and digits, or 253, 254, 255 for nan, inf and -inf.
func (r *reader) textDouble() (float64, bool) {
	n, ok := r.byte()
	switch {
	case !ok || n == 253:
		return 0, false
	case n == 254:
		return math.Inf(1), true
	case n == 255:
		return math.Inf(-1), true
	}
	b, ok := r.take(int(n))
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil
}

func (r *reader) quicklist(t byte, limit int, v *Value) bool {
	n, special, ok := r.length()
	if !ok || special || n > len(r.p) {
		return false
	}
	for range n {
		container := quicklistListpack
		if t == typeQuicklist2 {
			if container, special, ok = r.length(); !ok || special {
				return false
			}
		}
		blob, ok := r.string(limit)
		if !ok {
			return false
		}
		switch {
		case t == typeQuicklist:
			v.Items, ok = ziplist(blob, v.Items)
		case container == quicklistPlain:
			v.Items = append(v.Items, blob)
		case container == quicklistListpack:
			v.Items, ok = listpack(blob, v.Items)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}
