package streams

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// ID names an entry: milliseconds of store time, and a sequence number within them.
type ID struct{ MS, Seq uint64 }

// IDMax is the highest ID.
var IDMax = ID{math.MaxUint64, math.MaxUint64}

// ErrID: text that is no ID.
var ErrID = errors.New("ERR Invalid stream ID specified as stream command argument")

// Less is the order of IDs.
func (a ID) Less(b ID) bool { return a.MS < b.MS || a.MS == b.MS && a.Seq < b.Seq }

// Compare is -1, 0 or 1.
func (a ID) Compare(b ID) int {
	switch {
	case a.Less(b):
		return -1
	case a == b:
		return 0
	}
	return 1
}

// Zero says whether it is 0-0, which names no entry.
func (a ID) Zero() bool { return a == ID{} }

// Next returns the ID after a; ok is false behind the highest one.
func (a ID) Next() (next ID, ok bool) {
	switch {
	case a.Seq < math.MaxUint64:
		return ID{a.MS, a.Seq + 1}, true
	case a.MS < math.MaxUint64:
		return ID{a.MS + 1, 0}, true
	}
	return ID{}, false
}

// Prev returns the ID before a; ok is false before the lowest one.
func (a ID) Prev() (prev ID, ok bool) {
	switch {
	case a.Seq > 0:
		return ID{a.MS, a.Seq - 1}, true
	case a.MS > 0:
		return ID{a.MS - 1, math.MaxUint64}, true
	}
	return ID{}, false
}

// Append appends the ID as text.
func (a ID) Append(b []byte) []byte {
	b = strconv.AppendUint(b, a.MS, 10)
	b = append(b, '-')
	return strconv.AppendUint(b, a.Seq, 10)
}

func (a ID) String() string { return string(a.Append(nil)) }

// ParseID reads "ms" or "ms-seq"; where the sequence number is missing it is seq.
func ParseID(b []byte, seq uint64) (ID, error) {
	for i, c := range b {
		if c == '-' {
			ms, ok1 := parseUint(b[:i])
			n, ok2 := parseUint(b[i+1:])
			if !ok1 || !ok2 {
				return ID{}, ErrID
			}
			return ID{ms, n}, nil
		}
	}
	ms, ok := parseUint(b)
	if !ok {
		return ID{}, ErrID
	}
	return ID{ms, seq}, nil
}

// idTextMax is the longest text that Redis takes for an ID.
const idTextMax = 127

// parseUint reads a decimal as Redis does: with spaces before it, a plus sign, and leading zeros.
func parseUint(b []byte) (n uint64, ok bool) {
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	if len(b) > 1 && b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > idTextMax {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if n > math.MaxUint64/10 || n*10 > math.MaxUint64-d {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
