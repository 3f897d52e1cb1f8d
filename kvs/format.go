package kvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"cvmstore/volume"
)

// Records of elements of large collections, payloads of volume's records of StoreKeys. All numbers are little-endian. The
// collection is named by its incarnation, the counter of the put that made it large: what an older collection of the same key
// left behind is never taken for this one's, and a key that is renamed takes its elements along.
//
//	KindValue: an element of a hash (named by its field) or list (by its position), or a member of a set (no value)
//	 0  8  incarnation
//	 8  4  length of the name
//	12  n  name
//	    .. value   the rest; recovery does not need it
//
//	KindScore: a member of a sorted set
//	 0  8  incarnation
//	 8  8  score    IEEE 754, never NaN
//	16  .. member
//
//	KindGone: an element is no more
//	 0  8  incarnation
//	 8  .. name
//
// Incarnation and name stand in the record, under its tag, so a record that the host serves for another element is found out
// even if volume's check of place and counter were wrong.
//
// The value of a small collection is one put of the keyspace:
//
//	hash         uvarint count, then each field: uvarint length, field, uvarint length, value; in order of insertion
//	set          uvarint count, then each member: uvarint length, member
//	sorted set   uvarint count, then each member: 8 bytes score, uvarint length, member; in order
//	list         uvarint count, then each element: uvarint length, element
const (
	KindValue volume.Kind = 32
	KindScore volume.Kind = 33
	KindGone  volume.Kind = 34

	valueHeader = 12
	scoreHeader = 16
	goneHeader  = 8
)

var errElement = errors.New("malformed record of an element")

// element is a decoded payload; its bytes alias it.
type element struct {
	incarnation uint64
	name        []byte
	score       float64
	value       []byte
}

func encodeValue(p []byte, incarnation uint64, name, value []byte) {
	binary.LittleEndian.PutUint64(p, incarnation)
	binary.LittleEndian.PutUint32(p[8:], uint32(len(name)))
	copy(p[valueHeader:], name)
	copy(p[valueHeader+len(name):], value)
}

func encodeScore(p []byte, incarnation uint64, score float64, member []byte) {
	binary.LittleEndian.PutUint64(p, incarnation)
	binary.LittleEndian.PutUint64(p[8:], math.Float64bits(score))
	copy(p[scoreHeader:], member)
}

func encodeGone(p []byte, incarnation uint64, name []byte) {
	binary.LittleEndian.PutUint64(p, incarnation)
	copy(p[goneHeader:], name)
}

// elementMeta returns how much of a payload comes before the value.
func elementMeta(k volume.Kind, p []byte) int {
	if k != KindValue || len(p) < valueHeader {
		return len(p)
	}
	return min(len(p), valueHeader+int(binary.LittleEndian.Uint32(p[8:])))
}

func decodeElement(k volume.Kind, p []byte) (e element, err error) {
	header := goneHeader
	switch k {
	case KindValue:
		header = valueHeader
	case KindScore:
		header = scoreHeader
	}
	if len(p) < header {
		return e, fmt.Errorf("%d bytes of kind %d: %w", len(p), k, errElement)
	}
	e.incarnation = binary.LittleEndian.Uint64(p)
	switch k {
	case KindValue:
		n := binary.LittleEndian.Uint32(p[8:])
		if uint64(n) > uint64(len(p)-header) {
			return e, fmt.Errorf("name of %d bytes in %d: %w", n, len(p), errElement)
		}
		e.name, e.value = p[header:header+int(n)], p[header+int(n):]
	case KindScore:
		e.name, e.score = p[header:], math.Float64frombits(binary.LittleEndian.Uint64(p[8:]))
		if math.IsNaN(e.score) {
			return e, fmt.Errorf("score: %w", errElement)
		}
	default:
		e.name = p[header:]
	}
	return e, nil
}

// appendElementItem appends the multiset item of an element (DESIGN.md 6.4.4).
//
//	0  1  3: an element
//	1  7  zero
//	8  8  incarnation
//	16 8  score's bits; 0 where there are none
//	24 n  name
func appendElementItem(b []byte, incarnation, score uint64, name []byte) []byte {
	b = append(b, 3, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, incarnation)
	b = binary.LittleEndian.AppendUint64(b, score)
	return append(b, name...)
}
