package script

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// The library cmsgpack.

// msgpackDepth is how deep tables are packed: what is deeper becomes nil, so that circles end.
const msgpackDepth = 16

func msgpackLibrary(l *lua.LState) *lua.LTable {
	t := l.NewTable()
	l.SetFuncs(t, map[string]lua.LGFunction{
		"pack": func(l *lua.LState) int {
			if l.GetTop() == 0 {
				l.ArgError(0, "MessagePack pack needs input.")
			}
			p := packer{l: l}
			for i := 1; i <= l.GetTop(); i++ {
				p.value(l.Get(i), 0)
			}
			l.Push(lua.LString(p.b))
			return 1
		},
		"unpack":       func(l *lua.LState) int { return unpackFull(l, 0, 0) },
		"unpack_one":   func(l *lua.LState) int { return unpackFull(l, 1, l.OptInt(2, 0)) },
		"unpack_limit": func(l *lua.LState) int { return unpackFull(l, l.CheckInt(2), l.OptInt(3, 0)) },
	})
	t.RawSetString("_NAME", lua.LString("cmsgpack"))
	t.RawSetString("_VERSION", lua.LString("lua-cmsgpack 0.4.0"))
	return t
}

type packer struct {
	l *lua.LState
	b []byte
}

func (p *packer) u8(kind byte, n int) { p.b = append(p.b, kind, byte(n)) }
func (p *packer) u16(kind byte, n int) {
	p.b = binary.BigEndian.AppendUint16(append(p.b, kind), uint16(n))
}

func (p *packer) u32(kind byte, n int) {
	p.b = binary.BigEndian.AppendUint32(append(p.b, kind), uint32(n))
}

func (p *packer) value(v lua.LValue, depth int) {
	if len(p.b) > stringMax {
		p.l.RaiseError(tooLong)
	}
	switch v := v.(type) {
	case lua.LString:
		p.string(string(v))
	case lua.LBool:
		if v {
			p.b = append(p.b, 0xc3)
		} else {
			p.b = append(p.b, 0xc2)
		}
	case lua.LNumber:
		p.number(float64(v))
	case *lua.LTable:
		if depth == msgpackDepth {
			p.b = append(p.b, 0xc0)
			return
		}
		p.table(v, depth+1)
	default:
		p.b = append(p.b, 0xc0)
	}
}

func (p *packer) string(s string) {
	switch n := len(s); {
	case n < 32:
		p.b = append(p.b, 0xa0|byte(n))
	case n <= 0xff:
		p.u8(0xd9, n)
	case n <= 0xffff:
		p.u16(0xda, n)
	default:
		p.u32(0xdb, n)
	}
	p.b = append(p.b, s...)
}

func (p *packer) number(f float64) {
	if f != math.Floor(f) || f >= 1<<63 || f < -1<<63 {
		if float64(float32(f)) == f {
			p.b = binary.BigEndian.AppendUint32(append(p.b, 0xca), math.Float32bits(float32(f)))
		} else {
			p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcb), math.Float64bits(f))
		}
		return
	}
	switch n := int64(f); {
	case n >= 0 && n <= 127:
		p.b = append(p.b, byte(n))
	case n >= 0 && n <= 0xff:
		p.u8(0xcc, int(n))
	case n >= 0 && n <= 0xffff:
		p.u16(0xcd, int(n))
	case n >= 0 && n <= 0xffffffff:
		p.u32(0xce, int(n))
	case n >= 0:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcf), uint64(n))
	case n >= -32:
		p.b = append(p.b, byte(n))
	case n >= math.MinInt8:
		p.u8(0xd0, int(n))
	case n >= math.MinInt16:
		p.u16(0xd1, int(n))
	case n >= math.MinInt32:
		p.u32(0xd2, int(n))
	default:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xd3), uint64(n))
	}
}

func (p *packer) table(t *lua.LTable, depth int) {
	most, items, array := 0, 0, true
	t.ForEach(func(k, _ lua.LValue) {
		items++
		n, ok := k.(lua.LNumber)
		if !ok || n < 1 || float64(n) != math.Floor(float64(n)) || n > math.MaxInt32 {
			array = false
			return
		}
		most = max(most, int(n))
	})
	if array && most == items {
		p.length(items, 0x90, 0xdc)
		for i := 1; i <= items; i++ {
			p.value(t.RawGetInt(i), depth)
		}
		return
	}
	p.length(items, 0x80, 0xde)
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		p.value(k, depth)
		p.value(v, depth)
	}
}

func (p *packer) length(n int, short, long byte) {
	switch {
	case n <= 15:
		p.b = append(p.b, short|byte(n))
	case n <= 0xffff:
		p.u16(long, n)
	default:
		p.u32(long+1, n)
	}
}

// unpackFull unpacks up to limit objects (0: all) from offset on. With a limit or an offset, the first result is where it stopped,
// -1 at the end.
func unpackFull(l *lua.LState, limit, offset int) int {
	s := l.CheckString(1)
	switch {
	case offset < 0 || limit < 0:
		l.RaiseError("Invalid request to unpack with offset of %d and limit of %d.", offset, len(s))
	case offset > len(s):
		l.RaiseError("Start offset %d greater than input length %d.", offset, len(s))
	}
	all := limit == 0 && offset == 0
	if limit == 0 {
		limit = math.MaxInt
	}
	u := unpacker{l: l, in: s, at: offset}
	base := l.GetTop()
	if !all {
		l.Push(lua.LNil)
	}
	for n := 0; u.at < len(s) && n < limit; n++ {
		if l.GetTop()-base > unpackMax {
			l.RaiseError("too many results to unpack")
		}
		l.Push(u.value(0))
	}
	if !all {
		at := lua.LNumber(u.at)
		if u.at == len(s) {
			at = -1
		}
		l.Replace(base+1, at)
	}
	return l.GetTop() - base
}

type unpacker struct {
	l  *lua.LState
	in string
	at int
}

func (u *unpacker) bytes(n int) string {
	if n < 0 || n > len(u.in)-u.at {
		u.l.RaiseError("Missing bytes in input.")
	}
	s := u.in[u.at : u.at+n]
	u.at += n
	return s
}

func (u *unpacker) uint(n int) (v uint64) {
	for _, b := range []byte(u.bytes(n)) {
		v = v<<8 | uint64(b)
	}
	return v
}

// unpackDepth bounds how deep what is unpacked may nest.
const unpackDepth = 1000

func (u *unpacker) value(depth int) lua.LValue {
	if depth > unpackDepth {
		u.l.RaiseError("Bad data format in input.")
	}
	switch c := byte(u.uint(1)); {
	case c < 0x80:
		return lua.LNumber(c)
	case c >= 0xe0:
		return lua.LNumber(int8(c))
	case c < 0x90:
		return u.pairs(int(c&15), depth)
	case c < 0xa0:
		return u.array(int(c&15), depth)
	case c < 0xc0:
		return lua.LString(u.bytes(int(c & 31)))
	default:
		return u.long(c, depth)
	}
}

func (u *unpacker) long(c byte, depth int) lua.LValue {
	switch c {
	case 0xc0:
		return lua.LNil
	case 0xc2, 0xc3:
		return lua.LBool(c == 0xc3)
	case 0xca:
		return lua.LNumber(math.Float32frombits(uint32(u.uint(4))))
	case 0xcb:
		return lua.LNumber(math.Float64frombits(u.uint(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return lua.LNumber(u.uint(1 << (c - 0xcc)))
	case 0xd0:
		return lua.LNumber(int8(u.uint(1)))
	case 0xd1:
		return lua.LNumber(int16(u.uint(2)))
	case 0xd2:
		return lua.LNumber(int32(u.uint(4)))
	case 0xd3:
		return lua.LNumber(int64(u.uint(8)))
	case 0xc4, 0xc5, 0xc6:
		return lua.LString(u.bytes(int(u.uint(1 << (c - 0xc4)))))
	case 0xd9, 0xda, 0xdb:
		return lua.LString(u.bytes(int(u.uint(1 << (c - 0xd9)))))
	case 0xdc, 0xdd:
		return u.array(int(u.uint(2<<(c-0xdc))), depth)
	case 0xde, 0xdf:
		return u.pairs(int(u.uint(2<<(c-0xde))), depth)
	}
	u.l.RaiseError("Bad data format in input.")
	return lua.LNil
}

func (u *unpacker) array(n, depth int) lua.LValue {
	t := u.l.CreateTable(min(n, len(u.in)-u.at), 0)
	for i := 1; i <= n; i++ {
		t.RawSetInt(i, u.value(depth+1))
	}
	return t
}

func (u *unpacker) pairs(n, depth int) lua.LValue {
	t := u.l.NewTable()
	for range n {
		k := u.value(depth + 1)
		v := u.value(depth + 1)
		if f, ok := k.(lua.LNumber); k == lua.LNil || ok && f != f {
			u.l.RaiseError("Bad data format in input.")
		}
		t.RawSet(k, v)
	}
	return t
}
