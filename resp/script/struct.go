package script

import (
	"math"
	"math/bits"

	lua "github.com/yuin/gopher-lua"
)

// The library struct: C structures to and from strings.

func structLibrary(l *lua.LState) *lua.LTable {
	t := l.NewTable()
	l.SetFuncs(t, map[string]lua.LGFunction{"pack": structPack, "unpack": structUnpack, "size": structSize})
	return t
}

// layout reads a format: byte order and alignment hold until they are changed.
type layout struct {
	l     *lua.LState
	f     string
	at    int
	big   bool
	align int
	total int // bytes so far
}

// structMax bounds the size of a structure.
const structMax = 16 << 20

func (y *layout) digits(otherwise int) int {
	if y.at == len(y.f) || y.f[y.at] < '0' || y.f[y.at] > '9' {
		return otherwise
	}
	n := 0
	for y.at < len(y.f) && y.f[y.at] >= '0' && y.f[y.at] <= '9' {
		n = n*10 + int(y.f[y.at]-'0')
		if n > math.MaxInt32 {
			y.l.RaiseError("integral size overflow")
		}
		y.at++
	}
	return n
}

// next returns the next option and its size; what only changes the state is done. ok is false at the end.
func (y *layout) next() (opt byte, size int, ok bool) {
	for y.at < len(y.f) {
		opt = y.f[y.at]
		y.at++
		switch opt {
		case ' ':
			continue
		case '>', '<':
			y.big = opt == '>'
			continue
		case '!':
			if y.align = y.digits(8); y.align < 1 || bits.OnesCount(uint(y.align)) != 1 {
				y.l.RaiseError("alignment is not a power of 2")
			}
			continue
		case 'b', 'B', 'x':
			size = 1
		case 'h', 'H':
			size = 2
		case 'f':
			size = 4
		case 'l', 'L', 'd', 'T', 'n':
			size = 8
		case 'i', 'I':
			if size = y.digits(4); size > 32 {
				y.l.RaiseError("integral size %d is larger than limit of %d", size, 32)
			}
		case 'c':
			size = y.digits(1)
		case 's':
		default:
			y.l.ArgError(1, "invalid format option '"+string(opt)+"'")
		}
		return opt, size, true
	}
	return 0, 0, false
}

// pad is how many bytes stand before an option of that size.
func (y *layout) pad(opt byte, size int) int {
	if size == 0 || opt == 'c' || opt == 'x' {
		return 0
	}
	a := min(size, y.align)
	if a <= 1 {
		return 0
	}
	return (a - y.total&(a-1)) & (a - 1)
}

func (y *layout) add(n int) {
	if y.total += n; y.total > structMax {
		y.l.RaiseError("format result too large")
	}
}

func newLayout(l *lua.LState) *layout {
	return &layout{l: l, f: l.CheckString(1), align: 1}
}

func putInt(b []byte, v uint64, negative bool, size int, big bool) []byte {
	at := len(b)
	for i := range size {
		c := byte(0)
		if i < 8 {
			c = byte(v >> (8 * i))
		} else if negative {
			c = 0xff
		}
		b = append(b, c)
	}
	if big {
		for i, j := at, len(b)-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
	}
	return b
}

func structPack(l *lua.LState) int {
	y := newLayout(l)
	var b []byte
	arg := 1
	for {
		opt, size, ok := y.next()
		if !ok {
			break
		}
		pad := y.pad(opt, size)
		y.add(pad + size)
		b = append(b, make([]byte, pad)...)
		switch opt {
		case 'x':
			b = append(b, 0)
			continue
		case 'f':
			arg++
			b = putInt(b, uint64(math.Float32bits(float32(l.CheckNumber(arg)))), false, 4, y.big)
		case 'd', 'n':
			arg++
			b = putInt(b, math.Float64bits(float64(l.CheckNumber(arg))), false, 8, y.big)
		case 'c', 's':
			arg++
			s := l.CheckString(arg)
			if opt == 's' || size == 0 {
				size = len(s)
				y.add(size)
			}
			if len(s) < size {
				l.ArgError(arg, "string too short")
			}
			b = append(b, s[:size]...)
			if opt == 's' {
				y.add(1)
				b = append(b, 0)
			}
		default:
			arg++
			v := toInt(float64(l.CheckNumber(arg)))
			b = putInt(b, uint64(v), v < 0, size, y.big)
		}
	}
	l.Push(lua.LString(b))
	return 1
}

func structUnpack(l *lua.LState) int {
	y := newLayout(l)
	s, pos := l.CheckString(2), l.OptInt(3, 1)-1
	if pos < 0 {
		l.ArgError(3, "offset must be 1 or greater")
	}
	base := l.GetTop()
	for {
		opt, size, ok := y.next()
		if !ok {
			break
		}
		y.total = pos
		pos += y.pad(opt, size)
		if size > len(s) || pos > len(s)-size {
			l.ArgError(2, "data string too short")
		}
		if l.GetTop()-base > unpackMax {
			l.RaiseError("too many results to unpack")
		}
		field := s[pos : pos+size]
		pos += size
		switch opt {
		case 'x':
		case 'f':
			l.Push(lua.LNumber(math.Float32frombits(uint32(getInt(field, y.big, false)))))
		case 'd', 'n':
			l.Push(lua.LNumber(math.Float64frombits(uint64(getInt(field, y.big, false)))))
		case 'c':
			if size == 0 {
				field, pos = counted(l, base, s, pos)
			}
			l.Push(lua.LString(field))
		case 's':
			end := pos
			for end < len(s) && s[end] != 0 {
				end++
			}
			if end == len(s) {
				l.ArgError(2, "unfinished string in data")
			}
			l.Push(lua.LString(s[pos:end]))
			pos = end + 1
		default:
			signed := opt >= 'a' && opt <= 'z'
			n := getInt(field, y.big, signed)
			if signed {
				l.Push(lua.LNumber(n))
			} else {
				l.Push(lua.LNumber(uint64(n)))
			}
		}
	}
	l.Push(lua.LNumber(pos + 1))
	return l.GetTop() - base
}

// counted is "c0": its length is the value before it, which it takes the place of.
func counted(l *lua.LState, base int, s string, pos int) (field string, next int) {
	n, ok := l.Get(-1).(lua.LNumber)
	if l.GetTop() == base || !ok {
		l.RaiseError("format `c0' needs a previous size")
	}
	l.Pop(1)
	if n < 0 || float64(n) > float64(len(s)-pos) {
		l.ArgError(2, "data string too short")
	}
	return s[pos : pos+int(n)], pos + int(n)
}

func getInt(b string, big, signed bool) int64 {
	var v uint64
	for i := range len(b) {
		j := i
		if big {
			j = len(b) - 1 - i
		}
		if i < 8 {
			v |= uint64(b[j]) << (8 * i)
		}
	}
	if n := len(b); signed && n < 8 && n > 0 && v>>(8*n-1) != 0 {
		v |= ^uint64(0) << (8 * n)
	}
	return int64(v)
}

func structSize(l *lua.LState) int {
	y := newLayout(l)
	for {
		opt, size, ok := y.next()
		if !ok {
			break
		}
		if opt == 's' {
			l.ArgError(1, "variable-size format in size")
		}
		if opt == 'c' && size == 0 {
			l.ArgError(1, "variable-length format in size")
		}
		y.add(y.pad(opt, size) + size)
	}
	l.Push(lua.LNumber(y.total))
	return 1
}
