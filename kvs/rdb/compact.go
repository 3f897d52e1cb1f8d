package rdb

import (
	"encoding/binary"
	"strconv"
)

// Redis' compact forms of small collections, as payloads carry them: runs of strings and numbers with their lengths.

// number2 writes the number in the first bytes of b, little-endian and signed, as text.
func number2(b []byte) []byte {
	var n uint64
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	shift := 64 - 8*len(b)
	return strconv.AppendInt(nil, int64(n<<shift)>>shift, 10)
}

// listpack appends the entries of one:
//
//	0  4  length of all
//	4  2  number of entries, 65535 if unknown
//	6  .. entries, each followed by its length, backwards
//	   1  255
//
// An entry begins with 0xxxxxxx (number of 7 bits), 10xxxxxx (string, 6 bits of length), 110xxxxx b (number of 13 bits),
// 1110xxxx b (string, 12 bits), 11110000 b*4 (string, 32 bits), 11110001 to 11110100 (number of 16, 24, 32 or 64 bits).
func listpack(p []byte, out [][]byte) ([][]byte, bool) {
	if len(p) < 7 || int(binary.LittleEndian.Uint32(p)) != len(p) || p[len(p)-1] != 0xff {
		return nil, false
	}
	want, n := int(binary.LittleEndian.Uint16(p[4:])), 0
	r := reader{p: p[6 : len(p)-1]}
	for len(r.p) > 0 {
		before := len(r.p)
		item, ok := r.listpackEntry()
		if !ok {
			return nil, false
		}
		size := before - len(r.p)
		back := 1
		for limit := 127; size > limit && back < 5; limit = limit<<7 | 127 {
			back++
		}
		if _, ok := r.take(back); !ok {
			return nil, false
		}
		out = append(out, item)
		n++
	}
	return out, want == 65535 || want == n
}

func (r *reader) listpackEntry() (item []byte, ok bool) {
	first, _ := r.byte()
	length := 0
	switch {
	case first < 0x80:
		return strconv.AppendInt(nil, int64(first), 10), true
	case first < 0xc0:
		length = int(first & 0x3f)
	case first < 0xe0:
		b, ok := r.byte()
		n := int64(first&0x1f)<<8 | int64(b)
		if n >= 1<<12 {
			n -= 1 << 13
		}
		return strconv.AppendInt(nil, n, 10), ok
	case first < 0xf0:
		b, ok := r.byte()
		if !ok {
			return nil, false
		}
		length = int(first&0x0f)<<8 | int(b)
	case first == 0xf0:
		b, ok := r.take(4)
		if !ok {
			return nil, false
		}
		length = int(binary.LittleEndian.Uint32(b))
	case first <= 0xf4:
		b, ok := r.take([...]int{2, 3, 4, 8}[first-0xf1])
		if !ok {
			return nil, false
		}
		return number2(b), true
	default:
		return nil, false
	}
	return r.take(length)
}

// ziplist appends the entries of one, the form before listpacks:
//
//	0  4  length of all
//	4  4  offset of the last entry
//	8  2  number of entries, 65535 if unknown
//	10 .. entries
//	   1  255
//
// An entry begins with the length of the one before it: a byte, or 254 and 4 bytes. Then 00xxxxxx (string, 6 bits of length),
// 01xxxxxx b (14 bits, big-endian), 10000000 b*4 (32 bits, big-endian), or a number: 11000000 of 16 bits, 11010000 of 32,
// 11100000 of 64, 11110000 of 24, 11111110 of 8, and 11110001 to 11111101 for 0 to 12.
func ziplist(p []byte, out [][]byte) ([][]byte, bool) {
	if len(p) < 11 || int(binary.LittleEndian.Uint32(p)) != len(p) || p[len(p)-1] != 0xff {
		return nil, false
	}
	want, n := int(binary.LittleEndian.Uint16(p[8:])), 0
	r := reader{p: p[10 : len(p)-1]}
	for len(r.p) > 0 {
		prev, _ := r.byte()
		if prev == 254 {
			if _, ok := r.take(4); !ok {
				return nil, false
			}
		}
		item, ok := r.ziplistEntry()
		if !ok {
			return nil, false
		}
		out = append(out, item)
		n++
	}
	return out, want == 65535 || want == n
}

func (r *reader) ziplistEntry() (item []byte, ok bool) {
	first, ok := r.byte()
	if !ok {
		return nil, false
	}
	switch first >> 6 {
	case 0:
		return r.take(int(first & 0x3f))
	case 1:
		b, ok := r.byte()
		if !ok {
			return nil, false
		}
		return r.take(int(first&0x3f)<<8 | int(b))
	case 2:
		b, ok := r.take(4)
		if !ok {
			return nil, false
		}
		return r.take(int(binary.BigEndian.Uint32(b)))
	}
	size, ok := map[byte]int{0xc0: 2, 0xd0: 4, 0xe0: 8, 0xf0: 3, 0xfe: 1}[first]
	if ok {
		b, ok := r.take(size)
		if !ok {
			return nil, false
		}
		return number2(b), true
	}
	if first >= 0xf1 && first <= 0xfd {
		return strconv.AppendInt(nil, int64(first-0xf1), 10), true
	}
	return nil, false
}

// intset returns the members of one: width of a number (2, 4 or 8), how many, then the numbers.
func intset(p []byte) (out [][]byte, ok bool) {
	if len(p) < 8 {
		return nil, false
	}
	width, n := int(binary.LittleEndian.Uint32(p)), uint64(binary.LittleEndian.Uint32(p[4:]))
	if width != 2 && width != 4 && width != 8 || n*uint64(width) != uint64(len(p)-8) {
		return nil, false
	}
	for p = p[8:]; len(p) > 0; p = p[width:] {
		out = append(out, number2(p[:width]))
	}
	return out, true
}

// zipmap returns the fields and values of one: a count, then length, field, length, spare bytes, value, spare; 255 at the end.
func zipmap(p []byte) (out [][]byte, ok bool) {
	r := reader{p: p}
	if _, ok := r.byte(); !ok {
		return nil, false
	}
	for {
		if len(r.p) > 0 && r.p[0] == 0xff {
			return out, len(r.p) == 1
		}
		for i := range 2 {
			first, ok := r.byte()
			n := int(first)
			if first == 254 {
				b, ok := r.take(4)
				if !ok {
					return nil, false
				}
				n = int(binary.LittleEndian.Uint32(b))
			}
			spare := byte(0)
			if ok && i == 1 {
				spare, ok = r.byte()
			}
			if !ok || first == 255 {
				return nil, false
			}
			item, ok := r.take(n)
			if !ok {
				return nil, false
			}
			if _, ok := r.take(int(spare)); !ok {
				return nil, false
			}
			out = append(out, item)
		}
	}
}
