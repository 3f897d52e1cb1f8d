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

// Delta collects the changes that one batch makes to the multiset hash.
type Delta struct{ sum Sum }

// Add puts an item in.
func (d *Delta) Add(x Sum) { d.sum.Add(x) }

// Remove takes an item, or a whole sub-sum, out.
func (d *Delta) Remove(x Sum) { d.sum.Sub(x) }

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
