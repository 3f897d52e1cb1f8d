package script

import (
	"strings"
	"unsafe" // for the link name, and for a frame that is passed on and not looked into

	lua "github.com/yuin/gopher-lua"
)

// The interpreter's instruction that joins strings has no bound, and a loop of a few instructions that doubles a string would
// take all memory before the hook looks again. It also prints numbers in another way than Lua does. So it is replaced, in the
// interpreter's table of instructions, by one that is right in both; what it does not know it leaves to the one before.

//go:linkname jumpTable github.com/yuin/gopher-lua.jumpTable
var jumpTable [lua.OP_NOP + 1]func(*lua.LState, uint32, unsafe.Pointer) int

var concatBefore func(*lua.LState, uint32, unsafe.Pointer) int

func init() {
	concatBefore = jumpTable[lua.OP_CONCAT]
	jumpTable[lua.OP_CONCAT] = concat
}

// stringMax is the longest string that a script may make in one step, in bytes.
const stringMax = 64 << 20

const tooLong = "string length overflow: strings of a script have at most 64 MiB"

// concat is R(A) := R(B) .. ... .. R(C). Registers count from 0, the stack of the interpreter's interface from 1.
func concat(l *lua.LState, inst uint32, frame unsafe.Pointer) int {
	a, b, c := int(inst>>18)&0xff, int(inst&0x1ff), int(inst>>9)&0x1ff
	total, plain := 0, true
	for i := b; i <= c; i++ {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			total += len(v)
		case lua.LNumber:
			total += 24
		default:
			plain = false
		}
	}
	if total > stringMax {
		l.RaiseError(tooLong)
	}
	if !plain {
		return concatBefore(l, inst, frame)
	}
	var out strings.Builder
	out.Grow(total)
	for i := b; i <= c; i++ {
		s, _ := text(l.Get(i + 1))
		out.WriteString(s)
	}
	v := lua.LString(out.String())
	l.Replace(a+1, v)
	if l.Get(a+1) != lua.LValue(v) {
		return concatBefore(l, inst, frame)
	}
	return 0
}
