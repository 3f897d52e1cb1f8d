package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The functions of Lua's base library that scripts get: those of the interpreter where they are harmless, ours where they would
// look behind read-only tables, cost memory without bound, or print numbers differently.

// baseKept are taken from the interpreter as they are.
var baseKept = []string{
	"assert", "error", "ipairs", "rawequal", "select", "tonumber", "type", "xpcall", "_VERSION",
}

func (e *Engine) base() *lua.LTable {
	l, g := e.l, e.guard
	t := l.NewTable()
	for _, name := range baseKept {
		t.RawSetString(name, l.GetGlobal(name))
	}
	own := map[string]lua.LGFunction{
		"tostring":       baseToString,
		"pcall":          basePCall,
		"collectgarbage": baseCollect,
		"gcinfo": func(l *lua.LState) int {
			l.Push(lua.LNumber(gcKiB))
			l.Push(lua.LNumber(0))
			return 2
		},
		"unpack":     baseUnpack,
		"loadstring": e.loadString,
		"load":       e.load,
		"rawget": func(l *lua.LState) int {
			l.Push(g.behind(l.CheckTable(1)).RawGet(l.CheckAny(2)))
			return 1
		},
		"rawset": func(l *lua.LState) int {
			t := l.CheckTable(1)
			g.writable(l, t)
			checkKey(l, l.CheckAny(2))
			t.RawSet(l.Get(2), l.CheckAny(3))
			l.SetTop(1)
			return 1
		},
		"setmetatable": e.setMetatable,
		"getmetatable": e.getMetatable,
		"next":         e.next,
		"pairs":        e.pairs,
	}
	l.SetFuncs(t, own)
	return t
}

func checkKey(l *lua.LState, key lua.LValue) {
	if key == lua.LNil {
		l.RaiseError("table index is nil")
	}
	if n, ok := key.(lua.LNumber); ok && n != n {
		l.RaiseError("table index is NaN")
	}
}

// basePCall returns the text of an error that is a reply, as Redis does.
func basePCall(l *lua.LState) int {
	l.CheckAny(1)
	if err := l.PCall(l.GetTop()-1, lua.MultRet, nil); err != nil {
		var v lua.LValue = lua.LString(err.Error())
		if api, ok := err.(*lua.ApiError); ok {
			v = api.Object
		}
		if t, ok := v.(*lua.LTable); ok {
			if e, isText := t.RawGetString("err").(lua.LString); isText {
				v = e
			}
		} else if s, ok := v.(lua.LString); ok {
			v = lua.LString(reword(string(s)))
		}
		l.SetTop(0)
		l.Push(lua.LFalse)
		l.Push(v)
		return 2
	}
	l.Insert(lua.LTrue, 1)
	return l.GetTop()
}

func baseToString(l *lua.LState) int {
	if n, ok := l.CheckAny(1).(lua.LNumber); ok {
		l.Push(lua.LString(formatNumber(n)))
		return 1
	}
	l.Push(l.ToStringMeta(l.Get(1)))
	return 1
}

// gcKiB is what scripts are told of the interpreter's memory: the server's collector is none of their business.
const gcKiB = 40

func baseCollect(l *lua.LState) int {
	if l.OptString(1, "collect") == "count" {
		l.Push(lua.LNumber(gcKiB))
	} else {
		l.Push(lua.LNumber(0))
	}
	return 1
}

// unpackMax is how many values unpack returns at most: what Redis' Lua has room for.
const unpackMax = 8000

func baseUnpack(l *lua.LState) int {
	t := l.CheckTable(1)
	from, to := l.OptInt64(2, 1), int64(t.Len())
	if l.Get(3) != lua.LNil {
		to = l.CheckInt64(3)
	}
	from, to = int64(int32(from)), int64(int32(to))
	if from > to {
		return 0
	}
	if to-from >= unpackMax {
		l.RaiseError("too many results to unpack")
	}
	for i := from; i <= to; i++ {
		l.Push(t.RawGet(lua.LNumber(i)))
	}
	return int(to - from + 1)
}

func (e *Engine) setMetatable(l *lua.LState) int {
	t := l.CheckTable(1)
	e.guard.writable(l, t)
	switch m := l.Get(2).(type) {
	case *lua.LNilType, *lua.LTable:
		if mt, ok := t.Metatable.(*lua.LTable); ok && mt.RawGetString("__metatable") != lua.LNil {
			l.RaiseError("cannot change a protected metatable")
		}
		t.Metatable = m
	default:
		l.ArgError(2, "nil or table expected")
	}
	l.SetTop(1)
	return 1
}

func (e *Engine) getMetatable(l *lua.LState) int {
	m := l.GetMetatable(l.CheckAny(1))
	if t, ok := m.(*lua.LTable); ok {
		if p := t.RawGetString("__metatable"); p != lua.LNil {
			m = p
		} else if f := e.guard.metas[t]; f != nil {
			m = f
		} else if _, isString := l.Get(1).(lua.LString); isString {
			m = e.stringMeta
		}
	}
	l.Push(m)
	return 1
}

func (e *Engine) next(l *lua.LState) int {
	k, v := e.guard.behind(l.CheckTable(1)).Next(l.Get(2))
	if k == lua.LNil {
		l.Push(lua.LNil)
		return 1
	}
	l.Push(k)
	l.Push(v)
	return 2
}

func (e *Engine) pairs(l *lua.LState) int {
	l.Push(e.nextFunction)
	l.Push(l.CheckTable(1))
	l.Push(lua.LNil)
	return 3
}

func (e *Engine) loadString(l *lua.LState) int {
	return e.loadChunk(l, l.CheckString(1), l.OptString(2, ""))
}

func (e *Engine) load(l *lua.LState) int {
	if s, ok := l.Get(1).(lua.LString); ok {
		return e.loadChunk(l, string(s), l.OptString(2, ""))
	}
	f := l.CheckFunction(1)
	var source strings.Builder
	for {
		l.Push(f)
		l.Call(0, 1)
		piece := l.Get(-1)
		l.Pop(1)
		s, ok := piece.(lua.LString)
		if !ok || s == "" {
			break
		}
		if source.Len()+len(s) > sourceMax {
			l.RaiseError(errSourceLong)
		}
		source.WriteString(string(s))
	}
	return e.loadChunk(l, source.String(), l.OptString(2, ""))
}

func (e *Engine) loadChunk(l *lua.LState, source, name string) int {
	if name == "" {
		name = source
		if i := strings.IndexByte(name, '\n'); i >= 0 {
			name = name[:i] + "..."
		}
		name = `[string "` + name[:min(len(name), 60)] + `"]`
	}
	proto, err := compile(source, strings.TrimLeft(name, "@="))
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	f := l.NewFunctionFromProto(proto)
	f.Env = e.env
	l.Push(f)
	return 1
}
