package kvs

import (
	"errors"

	"cvmstore/keyspace"
)

// Errors of Lcs.
var (
	ErrLcsType   = errors.New("ERR The specified keys must contain string values")
	ErrLcsMemory = errors.New("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
)

// LcsResult is a longest common subsequence of two strings, and the runs of which it consists.
type LcsResult struct {
	Length  int
	Text    []byte     // nil if only the length was asked for
	Matches []LcsMatch // the last one first
}

// LcsMatch is a run that stands in both strings: first and last byte in each.
type LcsMatch struct{ AStart, AEnd, BStart, BEnd int }

// Len is the run's length.
func (m LcsMatch) Len() int { return m.AEnd - m.AStart + 1 }

// Lcs compares the values of two keys; an absent one is empty.
func Lcs(t *keyspace.Tx, a, b []byte, lengthOnly bool) (LcsResult, error) {
	if err := lcsFits(t, a, b); err != nil {
		return LcsResult{}, err
	}
	vals := make([]Value, 2)
	_, err := loadAll(t, [][]byte{a, b}, vals)
	if errors.Is(err, keyspace.ErrWrongType) {
		return LcsResult{}, ErrLcsType
	}
	if err != nil {
		return LcsResult{}, err
	}
	return lcs(vals[0].Bytes, vals[1].Bytes, lengthOnly)
}

// lcsFits refuses what is too long to be compared, before any of it is read.
func lcsFits(t *keyspace.Tx, a, b []byte) error {
	cells := int64(1)
	for _, key := range [][]byte{a, b} {
		it, err := t.Peek(key)
		if err != nil {
			return err
		}
		if it.Exists() && it.Type != keyspace.TypeString {
			return ErrLcsType
		}
		cells *= int64(it.ValueSize) + 1
	}
	if cells > lengthMax/lcsCellBytes {
		return ErrLcsMemory
	}
	return nil
}

// lcsCellBytes is what Redis takes for a cell of its table, which bounds what it accepts. Ours takes a bit: whether the way
// back leads to the cell above rather than to the one on the left.
const lcsCellBytes = 4

func lcs(a, b []byte, lengthOnly bool) (LcsResult, error) {
	width := len(b) + 1
	if cells := int64(len(a)+1) * int64(width); cells > lengthMax/lcsCellBytes {
		return LcsResult{}, ErrLcsMemory
	}
	var up []uint64
	if !lengthOnly {
		up = make([]uint64, ((len(a)+1)*width+63)/64)
	}
	above, row := make([]uint32, width), make([]uint32, width)
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			switch {
			case a[i-1] == b[j-1]:
				row[j] = above[j-1] + 1
			case above[j] > row[j-1]:
				row[j] = above[j]
				if up != nil {
					bit := i*width + j
					up[bit/64] |= 1 << (bit % 64)
				}
			default:
				row[j] = row[j-1]
			}
		}
		above, row = row, above
	}
	res := LcsResult{Length: int(above[len(b)])}
	if !lengthOnly {
		res.trace(a, b, up)
	}
	return res, nil
}

// trace follows the table from its end and collects text and runs.
func (r *LcsResult) trace(a, b []byte, up []uint64) {
	r.Text = make([]byte, r.Length)
	width := len(b) + 1
	n := r.Length
	run := LcsMatch{AStart: -1}
	end := func() {
		if run.AStart >= 0 {
			r.Matches = append(r.Matches, run)
			run.AStart = -1
		}
	}
	for i, j := len(a), len(b); i > 0 && j > 0; {
		if a[i-1] == b[j-1] {
			i--
			j--
			n--
			r.Text[n] = a[i]
			if run.AStart < 0 {
				run = LcsMatch{AEnd: i, BEnd: j}
			}
			run.AStart, run.BStart = i, j
			continue
		}
		end()
		if bit := i*width + j; up[bit/64]>>(bit%64)&1 != 0 {
			i--
		} else {
			j--
		}
	}
	end()
}
