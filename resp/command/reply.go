package command

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tidwall/redcon"
)

// Reply appends a reply in the session's protocol version. Buf belongs to the loop; what a command appended is cut off again
// when the command has to run once more.
type Reply struct {
	Buf   []byte
	Proto int        // 2 or 3
	Blobs []BlobPart // in order; see body.go
}

// OK appends the simple string OK.
func (r *Reply) OK() { r.Buf = append(r.Buf, "+OK\r\n"...) }

// Simple appends a simple string.
func (r *Reply) Simple(s string) { r.Buf = redcon.AppendString(r.Buf, s) }

// Error appends an error; text begins with its code. Line breaks in it become spaces.
func (r *Reply) Error(text string) { r.Buf = redcon.AppendError(r.Buf, text) }

// Int appends an integer.
func (r *Reply) Int(n int64) { r.Buf = redcon.AppendInt(r.Buf, n) }

// Bulk appends a binary string.
func (r *Reply) Bulk(b []byte) { r.Buf = redcon.AppendBulk(r.Buf, b) }

// String appends s as a binary string.
func (r *Reply) String(s string) { r.Buf = redcon.AppendBulkString(r.Buf, s) }

// BulkOrNull appends b, or a null if it is absent.
func (r *Reply) BulkOrNull(b []byte, ok bool) {
	if ok {
		r.Bulk(b)
	} else {
		r.Null()
	}
}

// Null appends a null.
func (r *Reply) Null() {
	if r.Proto == 3 {
		r.Buf = append(r.Buf, "_\r\n"...)
	} else {
		r.Buf = append(r.Buf, "$-1\r\n"...)
	}
}

// NullArray appends a null where an array would stand.
func (r *Reply) NullArray() {
	if r.Proto == 3 {
		r.Buf = append(r.Buf, "_\r\n"...)
	} else {
		r.Buf = append(r.Buf, "*-1\r\n"...)
	}
}

// Array begins an array of n elements.
func (r *Reply) Array(n int) { r.Buf = redcon.AppendArray(r.Buf, n) }

// Map begins a map of n pairs; in RESP2 an array of twice as many elements.
func (r *Reply) Map(n int) { r.aggregate('%', n, 2*n) }

// Set begins a set of n elements.
func (r *Reply) Set(n int) { r.aggregate('~', n, n) }

// Push begins an out-of-band message of n elements.
func (r *Reply) Push(n int) { r.aggregate('>', n, n) }

func (r *Reply) aggregate(kind byte, n3, n2 int) {
	if r.Proto != 3 {
		r.Buf = redcon.AppendArray(r.Buf, n2)
		return
	}
	r.Buf = append(r.Buf, kind)
	r.Buf = strconv.AppendInt(r.Buf, int64(n3), 10)
	r.Buf = append(r.Buf, '\r', '\n')
}

// Bool appends a boolean; in RESP2 0 or 1.
func (r *Reply) Bool(v bool) {
	switch {
	case r.Proto == 3 && v:
		r.Buf = append(r.Buf, "#t\r\n"...)
	case r.Proto == 3:
		r.Buf = append(r.Buf, "#f\r\n"...)
	case v:
		r.Int(1)
	default:
		r.Int(0)
	}
}

// Double appends a floating-point number; in RESP2 as a string.
func (r *Reply) Double(v float64) {
	var text [32]byte
	var b []byte
	switch {
	case math.IsInf(v, 1):
		b = append(text[:0], "inf"...)
	case math.IsInf(v, -1):
		b = append(text[:0], "-inf"...)
	case math.IsNaN(v):
		b = append(text[:0], "nan"...)
	default:
		b = strconv.AppendFloat(text[:0], v, 'g', 17, 64)
		if short := strconv.FormatFloat(v, 'g', -1, 64); len(short) < len(b) {
			b = append(b[:0], short...)
		}
	}
	r.number(b)
}

// Decimal appends a number without exponent, with at most 17 digits behind the point.
func (r *Reply) Decimal(v float64) {
	var text [64]byte
	b := strconv.AppendFloat(text[:0], v, 'f', 17, 64)
	b = bytes.TrimSuffix(bytes.TrimRight(b, "0"), []byte("."))
	if string(b) == "-0" {
		b = b[1:]
	}
	r.number(b)
}

// number appends a number that is text already.
func (r *Reply) number(b []byte) {
	if r.Proto != 3 {
		r.Bulk(b)
		return
	}
	r.Buf = append(r.Buf, ',')
	r.Buf = append(r.Buf, b...)
	r.Buf = append(r.Buf, '\r', '\n')
}

// Verbatim appends text with its format ("txt", "mkd"); in RESP2 as a plain string.
func (r *Reply) Verbatim(format, text string) {
	if r.Proto != 3 {
		r.String(text)
		return
	}
	r.Buf = append(r.Buf, '=')
	r.Buf = strconv.AppendInt(r.Buf, int64(len(text)+4), 10)
	r.Buf = append(r.Buf, '\r', '\n')
	r.Buf = append(r.Buf, format...)
	r.Buf = append(r.Buf, ':')
	r.Buf = append(r.Buf, text...)
	r.Buf = append(r.Buf, '\r', '\n')
}
