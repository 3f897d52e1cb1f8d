package volume

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/blake2b"
)

// Sum is a value of the multiset hash (DESIGN.md 6.4.4): an integer modulo 2^256, least significant word first. The sum over
// all live items says nothing about their order, and whoever does not know the key can neither find nor aim at a collision.
type Sum [4]uint64

// Add adds x.
func (s *Sum) Add(x Sum) {
	var c uint64
	for i := range s {
		s[i], c = bits.Add64(s[i], x[i], c)
	}
}

// Sub subtracts x.
func (s *Sum) Sub(x Sum) {
	var b uint64
	for i := range s {
		s[i], b = bits.Sub64(s[i], x[i], b)
	}
}

func (s Sum) put(b []byte) {
	for i, w := range s {
		binary.LittleEndian.PutUint64(b[8*i:], w)
	}
}

func sumFrom(b []byte) (s Sum) {
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s
}

// Delta collects what the stores hold at the end of a recovery (Replayer.Settle): the sum of all live items, and which records
// are live. Live may be called from several goroutines at once, Add from one.
type Delta struct {
	sum      Sum
	segments []*segment // by ordinal - 1
}

// Add puts an item, or a sum of items, in.
func (d *Delta) Add(x Sum) { d.sum.Add(x) }

// Live counts a record as live: payload of size bytes at a place that Replay was given.
func (d *Delta) Live(at Place, size int) {
	if i := int(at.ordinal()) - 1; i >= 0 && i < len(d.segments) {
		d.segments[i].live.Add(int64(recOverhead + size))
	}
}

// itemHashStack is the longest input that ItemHash builds on its stack.
const itemHashStack = 512

// ItemHash returns the keyed hash of one live item: BLAKE2b-256 with the secret key as the first 32 bytes of the message
// (BLAKE2 is a sound prefix MAC: RFC 7693 section 1, no length extension), then store, counter, item. One compression for
// items of up to 80 bytes; no allocation up to 471.
func (v *Volume) ItemHash(s Store, item []byte, c Counter) Sum {
	var stack [itemHashStack]byte
	b := append(stack[:0], v.multisetKey[:]...)
	b = append(b, byte(s))
	b = binary.LittleEndian.AppendUint64(b, uint64(c))
	b = append(b, item...)
	h := blake2b.Sum256(b)
	return sumFrom(h[:])
}
