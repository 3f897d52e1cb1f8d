package kvs

import (
	"strconv"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// intLenMax is the length of the longest decimal number of 64 bits.
const intLenMax = len("-9223372036854775808")

// parseInt reads a number exactly as Redis writes one: no plus sign, no leading zeros, no spaces, no "-0".
func parseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > intLenMax {
		return 0, false
	}
	digits, negative := b, b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var n uint64 // at most 20 digits: 2^64 is overrun only where the check below the loop sees it
	for i, c := range digits {
		if c < '0' || c > '9' || i == 19 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case !negative && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// IncrBy adds to the number that a key holds, 0 if it is absent, and returns the sum. The expiry stays.
func IncrBy(t *keyspace.Tx, key []byte, delta int64) (int64, error) {
	if it, err := find(t, key); err != nil {
		return 0, err
	} else if it.ValueSize > intLenMax {
		return 0, ErrNotInteger
	}
	old, it, err := t.Load(key, keyspace.TypeString)
	if err != nil {
		return 0, err
	}
	var n int64
	if it.Exists() {
		var ok bool
		if n, ok = parseInt(old); !ok {
			return 0, ErrNotInteger
		}
	}
	sum := n + delta
	if (delta > 0) != (sum > n) && delta != 0 {
		return 0, ErrOverflow
	}
	var buf [intLenMax]byte
	val := strconv.AppendInt(buf[:0], sum, 10)
	if err := checkSize(t, key, len(val)); err != nil {
		return 0, err
	}
	c := plain(val)
	if err := t.Reserve(c.reserve(key), 1, volume.ClassNormal); err != nil {
		return 0, err
	}
	put(t, key, c, it.Expiry, "incrby")
	return sum, nil
}
