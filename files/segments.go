package files

import (
	"fmt"
	"slices"
)

// segment says where the bytes from off up to off+length of a file that is being uploaded are: in a piece, from from on.
type segment struct {
	off, length int64
	piece       *piece
	from        int64
}

func (s *segment) end() int64 { return s.off + s.length }

// segments are those of an upload, in order, without overlaps.
type segments []segment

// lay puts a piece over what is there.
func (s *segments) lay(p *piece) {
	x := segment{p.key.offset, p.key.length, p, 0}
	list := *s
	// i: the first that ends behind x's begin; j: the first that begins at or behind x's end.
	i, _ := slices.BinarySearchFunc(list, x.off, func(a segment, off int64) int {
		if a.end() <= off {
			return -1
		}
		return 1
	})
	j := i
	for j < len(list) && list[j].off < x.end() {
		j++
	}
	var put [3]segment
	n := 0
	if i < j && list[i].off < x.off { // what sticks out in front stays
		put[n] = list[i]
		put[n].length = x.off - list[i].off
		n++
	}
	put[n] = x
	n++
	if i < j && list[j-1].end() > x.end() { // and behind
		put[n] = list[j-1]
		cut := x.end() - list[j-1].off
		put[n].off, put[n].from, put[n].length = x.end(), put[n].from+cut, put[n].length-cut
		n++
	}
	*s = slices.Replace(list, i, j, put[:n]...)
}

// Gap is a part of a file that has not come yet.
type Gap struct{ From, To int64 }

// gap returns the first part below size that is not there; size -1: that is followed by something.
func (s segments) gap(size int64) (Gap, bool) {
	at := int64(0)
	for i := range s {
		if s[i].off > at {
			return Gap{at, s[i].off}, true
		}
		at = s[i].end()
	}
	if at < size {
		return Gap{at, size}, true
	}
	return Gap{}, false
}

// Span is a part of a file that has come.
type Span struct{ From, To int64 }

// spans returns what is there, neighbours together.
func (s segments) spans() (out []Span) {
	for i := range s {
		if n := len(out); n > 0 && out[n-1].To == s[i].off {
			out[n-1].To = s[i].end()
			continue
		}
		out = append(out, Span{s[i].off, s[i].end()})
	}
	return out
}

func (g Gap) error() error {
	return fmt.Errorf("ERR the upload is not complete: the bytes from %d up to %d are missing", g.From, g.To)
}
