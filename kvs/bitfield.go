package kvs

import (
	"math"
	"math/bits"

	"cvmstore/keyspace"
)

// FieldOp is one operation of a BITFIELD.
type FieldOp struct {
	Kind     FieldKind
	Overflow Overflow
	Signed   bool
	Bits     int   // 1 to 64, unsigned to 63
	Offset   int64 // of the first bit
	Arg      int64 // what is set or added
}

// FieldKind is what an operation does.
type FieldKind uint8

// The kinds.
const (
	FieldGet FieldKind = iota
	FieldSet
	FieldIncr
)

// Overflow says what becomes of a number that does not fit.
type Overflow uint8

// The ways. FAIL leaves the field as it is.
const (
	OverflowWrap Overflow = iota
	OverflowSat
	OverflowFail
)

// FieldResult is an operation's answer; OK is false where OverflowFail refused.
type FieldResult struct {
	Value int64
	OK    bool
}

// BitField performs operations in order, all of them in one write, and appends their answers to out.
func BitField(t *keyspace.Tx, key []byte, ops []FieldOp, out []FieldResult) ([]FieldResult, error) {
	first, last := int64(math.MaxInt64), int64(-1) // bits that are looked at
	end := int64(-1)                               // the last bit that is written
	for i := range ops {
		first = min(first, ops[i].Offset)
		last = max(last, ops[i].Offset+int64(ops[i].Bits)-1)
		if ops[i].Kind != FieldGet {
			end = max(end, ops[i].Offset+int64(ops[i].Bits)-1)
		}
	}
	it, err := find(t, key)
	if err != nil || len(ops) == 0 {
		return out, err
	}
	from, n := first/8, int64(it.ValueSize)
	if end < 0 {
		val, err := loadRange(t, key, min(from, n), min(last/8+1, n))
		if err != nil {
			return nil, err
		}
		for i := range ops {
			o := ops[i]
			o.Offset -= 8 * from
			out = append(out, FieldResult{o.number(field(val, &o)), true})
		}
		return out, nil
	}
	e, err := beginEdit(t, key, from, max(end/8+1, min(last/8+1, n)))
	if err != nil {
		return nil, err
	}
	changed := false
	for i := range ops {
		o := ops[i]
		o.Offset -= 8 * from
		r, wrote := o.apply(e.window)
		changed = changed || wrote || e.grew() && o.Kind != FieldGet && r.OK
		out = append(out, r)
	}
	if !changed {
		return out, e.settle(t, key)
	}
	return out, e.write(t, key, "setbit")
}

// apply performs one operation on the value.
func (o *FieldOp) apply(val []byte) (r FieldResult, wrote bool) {
	raw := field(val, o)
	old := o.number(raw)
	next, fits := o.Arg, true
	switch o.Kind {
	case FieldGet:
		return FieldResult{old, true}, false
	case FieldSet:
		next, fits = o.fit(0, o.Arg)
	case FieldIncr:
		next, fits = o.fit(old, o.Arg)
	}
	if !fits && o.Overflow == OverflowFail {
		return FieldResult{}, false
	}
	setField(val, o, uint64(next))
	if o.Kind == FieldSet {
		return FieldResult{old, true}, next != old
	}
	return FieldResult{next, true}, next != old
}

// number reads a field's bits as a number.
func (o *FieldOp) number(raw uint64) int64 {
	if o.Signed {
		shift := 64 - o.Bits
		return int64(raw<<shift) >> shift
	}
	return int64(raw)
}

// limits are the smallest and the largest number that fits.
func (o *FieldOp) limits() (lowest, highest int64) {
	switch {
	case !o.Signed:
		return 0, int64(1)<<o.Bits - 1
	case o.Bits == 64:
		return math.MinInt64, math.MaxInt64
	}
	return -1 << (o.Bits - 1), 1<<(o.Bits-1) - 1
}

// fit returns a+b as the field can hold it, and whether it is that sum.
func (o *FieldOp) fit(a, b int64) (int64, bool) {
	lowest, highest := o.limits()
	low, carry := bits.Add64(uint64(a), uint64(b), 0)
	high := a>>63 + b>>63 + int64(carry) // the sum's upper half
	sum := int64(low)
	over, under := sum > highest, sum < lowest
	if high != sum>>63 { // it takes more than 64 bits
		over, under = high >= 0, high < 0
	}
	if o.Kind == FieldSet && under && (!o.Signed || b < highest-math.MaxInt64) {
		// Redis' arithmetic takes what is so far below for something above.
		over, under = true, false
	}
	switch {
	case !over && !under:
		return sum, true
	case o.Overflow == OverflowWrap:
		return o.number(low & (^uint64(0) >> (64 - o.Bits))), false
	case over:
		return highest, false
	}
	return lowest, false
}

// field reads the bits of a field, zeros behind the value's end.
func field(val []byte, o *FieldOp) (raw uint64) {
	for i := range int64(o.Bits) {
		p := o.Offset + i
		raw <<= 1
		if p/8 < int64(len(val)) {
			raw |= uint64(val[p/8] >> (7 - p%8) & 1)
		}
	}
	return raw
}

func setField(val []byte, o *FieldOp, raw uint64) {
	for i := range int64(o.Bits) {
		p := o.Offset + i
		mask := byte(0x80) >> (p % 8)
		if raw>>(int64(o.Bits)-1-i)&1 != 0 {
			val[p/8] |= mask
		} else {
			val[p/8] &^= mask
		}
	}
}
