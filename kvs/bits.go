package kvs

import (
	"encoding/binary"
	"math/bits"

	"cvmstore/keyspace"
)

// Bits of a string are numbered from the most significant of its first byte on. Behind the end all are 0.

// SetBit sets a bit and returns what it was. The value grows as far as the bit.
func SetBit(t *keyspace.Tx, key []byte, offset int64, bit int) (old int, err error) {
	at := int(offset / 8)
	mask := byte(0x80) >> (offset % 8)
	e, err := beginEdit(t, key, int64(at), int64(at)+1)
	if err != nil {
		return 0, err
	}
	if e.window[0]&mask != 0 {
		old = 1
	}
	if old == bit && !e.grew() {
		return old, e.settle(t, key)
	}
	e.window[0] &^= mask
	if bit == 1 {
		e.window[0] |= mask
	}
	return old, e.write(t, key, "setbit")
}

// loadRange returns the bytes from from up to to of a value, which has them.
func loadRange(t *keyspace.Tx, key []byte, from, to int64) ([]byte, error) {
	val, b, _, err := t.View(key, keyspace.TypeString)
	if err != nil {
		return nil, err
	}
	return t.LoadRange(val, b, from, to)
}

// GetBit returns a bit.
func GetBit(t *keyspace.Tx, key []byte, offset int64) (int, error) {
	it, err := find(t, key)
	if err != nil || offset/8 >= int64(it.ValueSize) {
		return 0, err
	}
	val, err := loadRange(t, key, offset/8, offset/8+1)
	if err != nil {
		return 0, err
	}
	return int(val[0] >> (7 - offset%8) & 1), nil
}

// BitRange is a part of a string, both ends included, in bytes or in bits; negative ends count from the end of the string.
type BitRange struct {
	Start, End int64
	Whole      bool // Start and End are not given
	Open       bool // End is not given
	Bits       bool // in bits
}

// in returns the range of bits [from, to) in a string of n bytes.
func (r BitRange) in(n int) (from, to int64) {
	unit, total := int64(8), int64(n)
	if r.Bits {
		unit, total = 1, 8*total
	}
	if r.Whole {
		return 0, unit * total
	}
	start, end := r.Start, r.End
	if r.Open {
		end = total - 1
	}
	if start < 0 {
		start = max(start+total, 0)
	}
	if end < 0 {
		end = max(end+total, 0)
	}
	end = min(end, total-1)
	if start > end {
		return 0, 0
	}
	return unit * start, unit * (end + 1)
}

// BitCount counts the bits of a range that are 1.
func BitCount(t *keyspace.Tx, key []byte, r BitRange) (int64, error) {
	it, err := find(t, key)
	if err != nil || !r.Whole && r.Start < 0 && r.End < 0 && r.Start > r.End {
		return 0, err
	}
	from, to := r.in(it.ValueSize)
	val, err := loadRange(t, key, from/8, (to+7)/8)
	if err != nil {
		return 0, err
	}
	return countBits(val, from-from/8*8, to-from/8*8), nil
}

func countBits(val []byte, from, to int64) (n int64) {
	for ; from < to && from%8 != 0; from++ {
		n += int64(val[from/8] >> (7 - from%8) & 1)
	}
	for ; to > from && to%8 != 0; to-- {
		n += int64(val[(to-1)/8] >> (7 - (to-1)%8) & 1)
	}
	b := val[from/8 : to/8]
	for ; len(b) >= 8; b = b[8:] {
		n += int64(bits.OnesCount64(binary.LittleEndian.Uint64(b)))
	}
	for _, c := range b {
		n += int64(bits.OnesCount8(c))
	}
	return n
}

// BitPos returns where the first bit of that value stands in a range, -1 if nowhere. A range without an end goes on in zeros
// behind the string.
func BitPos(t *keyspace.Tx, key []byte, bit int, r BitRange) (int64, error) {
	it, err := find(t, key)
	if err != nil {
		return 0, err
	}
	if !it.Exists() {
		return -int64(bit), nil
	}
	from, to := r.in(it.ValueSize)
	if from == to {
		return -1, nil
	}
	val, err := loadRange(t, key, from/8, (to+7)/8)
	if err != nil {
		return 0, err
	}
	skip := from / 8 * 8
	if p := firstBit(val, bit, from-skip, to-skip); p >= 0 {
		return skip + p, nil
	}
	if bit == 0 && (r.Whole || r.Open) {
		return to, nil
	}
	return -1, nil
}

// firstBit returns where the first bit of that value stands in [from, to), or -1.
func firstBit(val []byte, bit int, from, to int64) int64 {
	skip := byte(0xff * (1 - bit)) // a byte without such a bit
	for p := from; p < to; {
		b := val[p/8]
		if b == skip {
			p += 8 - p%8
			continue
		}
		if int(b>>(7-p%8)&1) == bit {
			return p
		}
		p++
	}
	return -1
}
