package kvs

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"cvmstore/keyspace"
)

func compareBytes(a, b []byte) int { return bytes.Compare(a, b) }

// compareMembers is the order of sorted sets: by score, then by the bytes of the member.
func compareMembers(s1 float64, m1 []byte, s2 float64, m2 []byte) int {
	switch {
	case s1 < s2:
		return -1
	case s1 > s2:
		return 1
	}
	return bytes.Compare(m1, m2)
}

func scoreBits(s float64) uint64 { return math.Float64bits(s) }
func scoreOf(b uint64) float64   { return math.Float64frombits(b) }

// rank returns how many members of a large sorted set are before a score and member.
func (c *coll) rank(score float64, name []byte) int {
	return c.tree.search(func(id elemID) bool {
		e := c.at(id)
		if s := scoreOf(e.aux); s != score {
			return s < score
		}
		return bytes.Compare(c.name(e), name) < 0
	})
}

func isMiss(err error) bool { return errors.Is(err, keyspace.ErrMiss) }

// ParseDouble reads a score as C's strtod does, whole, without spaces before it; it is never NaN.
func ParseDouble(b []byte) (float64, bool) {
	if len(b) == 0 || bytes.IndexByte(b, '_') >= 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		x, ok := parseFloat(b) // hexadecimal numbers need no exponent there
		if !ok || !bytes.ContainsAny(b, "xX") {
			return 0, false
		}
		f, _ = x.Float64()
	}
	return f, !math.IsNaN(f)
}
