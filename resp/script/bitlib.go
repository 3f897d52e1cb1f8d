package script

import (
	"fmt"
	"math"
	"math/bits"

	lua "github.com/yuin/gopher-lua"
)

// The library bit: operations on 32-bit numbers, results signed.

// bitArg takes a number modulo 2^32.
func bitArg(l *lua.LState, i int) uint32 {
	f := float64(l.CheckNumber(i))
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	f = math.RoundToEven(f)
	if math.Abs(f) < 1<<62 {
		return uint32(int64(f))
	}
	return uint32(int64(math.Mod(f, 1<<32)))
}

func bitLibrary(l *lua.LState) *lua.LTable {
	t := l.NewTable()
	result := func(l *lua.LState, v uint32) int {
		l.Push(lua.LNumber(int32(v)))
		return 1
	}
	fold := func(op func(a, b uint32) uint32) lua.LGFunction {
		return func(l *lua.LState) int {
			v := bitArg(l, 1)
			for i := 2; i <= l.GetTop(); i++ {
				v = op(v, bitArg(l, i))
			}
			return result(l, v)
		}
	}
	shift := func(op func(a uint32, n int) uint32) lua.LGFunction {
		return func(l *lua.LState) int { return result(l, op(bitArg(l, 1), int(bitArg(l, 2)&31))) }
	}
	l.SetFuncs(t, map[string]lua.LGFunction{
		"tobit":   func(l *lua.LState) int { return result(l, bitArg(l, 1)) },
		"bnot":    func(l *lua.LState) int { return result(l, ^bitArg(l, 1)) },
		"band":    fold(func(a, b uint32) uint32 { return a & b }),
		"bor":     fold(func(a, b uint32) uint32 { return a | b }),
		"bxor":    fold(func(a, b uint32) uint32 { return a ^ b }),
		"lshift":  shift(func(a uint32, n int) uint32 { return a << n }),
		"rshift":  shift(func(a uint32, n int) uint32 { return a >> n }),
		"arshift": shift(func(a uint32, n int) uint32 { return uint32(int32(a) >> n) }),
		"rol":     shift(bits.RotateLeft32),
		"ror":     shift(func(a uint32, n int) uint32 { return bits.RotateLeft32(a, -n) }),
		"bswap":   func(l *lua.LState) int { return result(l, bits.ReverseBytes32(bitArg(l, 1))) },
		"tohex":   bitToHex,
	})
	return t
}

func bitToHex(l *lua.LState) int {
	v, n := bitArg(l, 1), int32(8)
	if l.GetTop() > 1 {
		n = int32(bitArg(l, 2))
	}
	format := "%08x"
	if n < 0 {
		format = "%08X"
		if n = -n; n < 0 {
			n = 8
		}
	}
	s := fmt.Sprintf(format, v)
	l.Push(lua.LString(s[8-min(n, 8):]))
	return 1
}
