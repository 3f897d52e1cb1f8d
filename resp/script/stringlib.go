package script

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/pm"
)

// The libraries string, table, math, os and coroutine: the interpreter's, but for what is unbounded or different there.

func (e *Engine) take(name string) *lua.LTable {
	t := e.l.NewTable()
	e.l.GetGlobal(name).(*lua.LTable).ForEach(func(k, v lua.LValue) { t.RawSet(k, v) })
	return t
}

func (e *Engine) stringLibrary() *lua.LTable {
	t := e.take("string")
	e.l.SetFuncs(t, map[string]lua.LGFunction{
		"rep":  stringRep,
		"gsub": stringGsub,
		"dump": func(l *lua.LState) int {
			l.CheckFunction(1)
			l.Push(lua.LString("\x1bLua"))
			return 1
		},
		"format": stringFormat,
	})
	t.RawSetString("gfind", lua.LNil)
	return t
}

func stringRep(l *lua.LState) int {
	s, n := l.CheckString(1), l.CheckNumber(2)
	if n < 1 || len(s) == 0 {
		l.Push(lua.LString(""))
		return 1
	}
	if float64(len(s))*float64(n) > stringMax {
		l.RaiseError(tooLong)
	}
	l.Push(lua.LString(strings.Repeat(s, int(n))))
	return 1
}

// stringGsub is the interpreter's, with a bound of the result.
func stringGsub(l *lua.LState) int {
	s, pattern := l.CheckString(1), l.CheckString(2)
	limit := l.OptInt(4, -1)
	switch l.CheckAny(3).(type) {
	case lua.LString, lua.LNumber, *lua.LTable, *lua.LFunction:
	default:
		l.ArgError(3, "string/function/table expected")
	}
	matches, err := pm.Find(pattern, []byte(s), 0, limit)
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	var out strings.Builder
	at := 0
	for _, m := range matches {
		from, to := m.Capture(0), m.Capture(1)
		out.WriteString(s[at:from])
		out.WriteString(replacement(l, s, m))
		at = to
		if out.Len() > stringMax {
			l.RaiseError(tooLong)
		}
	}
	out.WriteString(s[at:])
	l.SetTop(0)
	l.Push(lua.LString(out.String()))
	l.Push(lua.LNumber(len(matches)))
	return 2
}

func capture(s string, m *pm.MatchData, i int) lua.LValue {
	if m.IsPosCapture(2 * i) {
		return lua.LNumber(m.Capture(2 * i))
	}
	return lua.LString(s[m.Capture(2*i):m.Capture(2*i+1)])
}

// replacement is what takes the place of one match.
func replacement(l *lua.LState, s string, m *pm.MatchData) string {
	whole, captures := s[m.Capture(0):m.Capture(1)], m.CaptureLength()/2-1
	first := min(captures, 1)
	var v lua.LValue
	switch by := l.Get(3).(type) {
	case *lua.LTable:
		v = l.GetTable(by, capture(s, m, first))
	case *lua.LFunction:
		l.Push(by)
		n := max(captures, 1)
		for i := range n {
			l.Push(capture(s, m, i+first))
		}
		l.Call(n, 1)
		v = l.Get(-1)
		l.Pop(1)
	default:
		return expand(l, s, m, captures)
	}
	if v == lua.LNil || v == lua.LFalse {
		return whole
	}
	r, ok := text(v)
	if !ok {
		l.RaiseError("invalid replacement value (a %s)", v.Type().String())
	}
	return r
}

func expand(l *lua.LState, s string, m *pm.MatchData, captures int) string {
	r, _ := text(l.Get(3))
	if !strings.Contains(r, "%") {
		return r
	}
	var out strings.Builder
	for i := 0; i < len(r); i++ {
		if r[i] != '%' || i+1 == len(r) {
			out.WriteByte(r[i])
			continue
		}
		i++
		switch c := r[i]; {
		case c < '0' || c > '9':
			out.WriteByte(c)
		case c == '0' || c == '1' && captures == 0:
			out.WriteString(s[m.Capture(0):m.Capture(1)])
		case int(c-'0') > captures:
			l.RaiseError("invalid capture index")
		default:
			v, _ := text(capture(s, m, int(c-'0')))
			out.WriteString(v)
		}
		if out.Len() > stringMax {
			l.RaiseError(tooLong)
		}
	}
	return out.String()
}

func (e *Engine) tableLibrary() *lua.LTable {
	t := e.take("table")
	for _, name := range []string{"insert", "remove", "sort"} {
		f := t.RawGetString(name).(*lua.LFunction).GFunction
		t.RawSetString(name, e.l.NewFunction(func(l *lua.LState) int {
			e.guard.writable(l, l.Get(1))
			return f(l)
		}))
	}
	t.RawSetString("concat", e.l.NewFunction(tableConcat))
	return t
}

func tableConcat(l *lua.LState) int {
	t, sep := l.CheckTable(1), l.OptString(2, "")
	from, to := l.OptInt(3, 1), l.OptInt(4, t.Len())
	var out strings.Builder
	for i := from; i <= to; i++ {
		v := t.RawGetInt(i)
		s, ok := text(v)
		if !ok {
			l.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type().String(), i)
		}
		out.WriteString(s)
		if i < to {
			out.WriteString(sep)
		}
		if out.Len() > stringMax {
			l.RaiseError(tooLong)
		}
	}
	l.Push(lua.LString(out.String()))
	return 1
}

// mathLibrary has a generator of random numbers of its own.
func mathLibrary(l *lua.LState) *lua.LTable {
	t := l.NewTable()
	l.GetGlobal("math").(*lua.LTable).ForEach(func(k, v lua.LValue) { t.RawSet(k, v) })
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	l.SetFuncs(t, map[string]lua.LGFunction{
		"randomseed": func(l *lua.LState) int {
			seed := math.Float64bits(float64(l.CheckNumber(1)))
			random = rand.New(rand.NewPCG(seed, seed))
			return 0
		},
		"random": func(l *lua.LState) int {
			from, to := 1.0, 0.0
			switch l.GetTop() {
			case 0:
				l.Push(lua.LNumber(random.Float64()))
				return 1
			case 1:
				to = math.Floor(float64(l.CheckNumber(1)))
			default:
				from, to = math.Floor(float64(l.CheckNumber(1))), math.Floor(float64(l.CheckNumber(2)))
			}
			if !(from <= to) {
				l.ArgError(max(l.GetTop(), 1), "interval is empty")
			}
			l.Push(lua.LNumber(from + math.Floor(random.Float64()*(to-from+1))))
			return 1
		},
		"log10": func(l *lua.LState) int {
			l.Push(lua.LNumber(math.Log10(float64(l.CheckNumber(1)))))
			return 1
		},
	})
	return t
}

func osLibrary(l *lua.LState) *lua.LTable {
	t, start := l.NewTable(), time.Now()
	t.RawSetString("clock", l.NewFunction(func(l *lua.LState) int {
		l.Push(lua.LNumber(time.Since(start).Seconds()))
		return 1
	}))
	return t
}

// coroutineLibrary has coroutines ask the same hook as their script.
func (e *Engine) coroutineLibrary() *lua.LTable {
	t := e.take("coroutine")
	create := t.RawGetString("create").(*lua.LFunction).GFunction
	resume := t.RawGetString("resume")
	make1 := func(l *lua.LState) *lua.LState {
		e.hook.quiet = true
		create(l)
		e.hook.quiet = false
		co := l.Get(-1).(*lua.LState)
		co.SetContext(e.hook)
		return co
	}
	e.l.SetFuncs(t, map[string]lua.LGFunction{
		"create": func(l *lua.LState) int {
			make1(l)
			return 1
		},
		"wrap": func(l *lua.LState) int {
			co := make1(l)
			l.Push(l.NewFunction(func(l *lua.LState) int {
				n := l.GetTop()
				l.Insert(resume, 1)
				l.Insert(co, 2)
				l.Call(n+1, lua.MultRet)
				if l.Get(1) == lua.LFalse {
					l.Error(l.Get(2), 0)
				}
				return l.GetTop() - 1
			}))
			return 1
		},
	})
	return t
}
