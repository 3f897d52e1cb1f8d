package rdb

// LZF is a sequence of runs and references, each with one control byte:
//
//	000lllll  then l+1 bytes as they are
//	lllooooo o  l+2 bytes (l from 1 to 6) from o+1 bytes back, o of 13 bits, the upper five first
//	111ooooo l o  l+9 bytes likewise
//
// A reference may reach into what it is writing.
const (
	lzfRunMax   = 1 << 5
	lzfLongForm = 7
	// lzfRatioMax bounds what a byte can become: three of them become at most 264.
	lzfRatioMax = 264 / 3
)

// decompress makes exactly n bytes of all of b, or fails.
func decompress(b []byte, n int) ([]byte, bool) {
	out := make([]byte, 0, n)
	for len(b) > 0 {
		c := int(b[0])
		b = b[1:]
		if c < lzfRunMax {
			c++
			if c > len(b) || c > n-len(out) {
				return nil, false
			}
			out = append(out, b[:c]...)
			b = b[c:]
			continue
		}
		length := c >> 5
		if length == lzfLongForm {
			if len(b) == 0 {
				return nil, false
			}
			length += int(b[0])
			b = b[1:]
		}
		if len(b) == 0 {
			return nil, false
		}
		from := len(out) - (c&0x1f<<8 | int(b[0])) - 1
		b = b[1:]
		length += 2
		if from < 0 || length > n-len(out) {
			return nil, false
		}
		for ; length > 0; length-- {
			out = append(out, out[from])
			from++
		}
	}
	return out, len(out) == n
}
