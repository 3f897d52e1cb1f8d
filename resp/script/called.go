package script

import lua "github.com/yuin/gopher-lua"

// calledNil names what the line that is executed calls, as Lua does, if it is clear from the code: one call on that line, of a
// global or of a field.
func calledNil(l *lua.LState) string {
	d, ok := l.GetStack(1)
	if !ok {
		return ""
	}
	v, err := l.GetInfo("Slf", d, lua.LNil)
	f, isFunction := v.(*lua.LFunction)
	if err != nil || !isFunction || f.Proto == nil {
		return ""
	}
	code, lines, found := f.Proto.Code, f.Proto.DbgSourcePositions, ""
	calls := 0
	for pc, inst := range code {
		op := int(inst >> 26)
		if op != lua.OP_CALL && op != lua.OP_TAILCALL || pc >= len(lines) || lines[pc] != d.CurrentLine {
			continue
		}
		calls++
		found = loaded(f.Proto, pc, int(inst>>18)&0xff)
	}
	if calls != 1 {
		return ""
	}
	return found
}

// loaded says what was loaded last into a register before an instruction.
func loaded(p *lua.FunctionProto, pc, register int) string {
	for pc--; pc >= 0; pc-- {
		inst := p.Code[pc]
		if int(inst>>18)&0xff != register {
			continue
		}
		constant := func(i int) string {
			if i >= len(p.Constants) {
				return ""
			}
			return p.Constants[i].String()
		}
		switch int(inst >> 26) {
		case lua.OP_GETGLOBAL:
			return "global '" + constant(int(inst&0x3ffff)) + "'"
		case lua.OP_GETTABLEKS:
			return "field '" + constant(int(inst>>9)&0xff) + "'"
		case lua.OP_SELF:
			return "method '" + constant(int(inst>>9)&0xff) + "'"
		}
		return ""
	}
	return ""
}
