package script

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Reply is what a script's result is written to, in the client's protocol version.
type Reply struct {
	Buf    []byte
	Proto  int
	Failed bool // the result is an error
	Error  string
	Quiet  bool // an error that was counted already, when the command failed that the script called
}

// replyDepthMax bounds how deep a result may nest.
const replyDepthMax = 1000

// replyMax is the longest result, in bytes: tables may contain one another many times.
const replyMax = 2 * stringMax

func (r *Reply) line(kind byte, s string) {
	r.Buf = append(r.Buf, kind)
	for i := range len(s) {
		c := s[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		r.Buf = append(r.Buf, c)
	}
	r.Buf = append(r.Buf, '\r', '\n')
}

func (r *Reply) error(s string) {
	s = strings.TrimRight(s, "\r\n")
	r.Failed, r.Error = true, s
	r.line('-', s)
}

func (r *Reply) int(n int64) { r.line(':', strconv.FormatInt(n, 10)) }

func (r *Reply) bulk(s string) {
	r.line('$', strconv.Itoa(len(s)))
	r.Buf = append(append(r.Buf, s...), '\r', '\n')
}

func (r *Reply) null() {
	if r.Proto == 3 {
		r.Buf = append(r.Buf, "_\r\n"...)
	} else {
		r.Buf = append(r.Buf, "$-1\r\n"...)
	}
}

// value appends what a script returned; script is the protocol version that it has chosen. It returns false if that is too long.
func (r *Reply) value(v lua.LValue, script int) bool {
	r.put(v, script, 0, true)
	return len(r.Buf) <= replyMax
}

func (r *Reply) put(v lua.LValue, script, depth int, outermost bool) {
	if len(r.Buf) > replyMax {
		return
	}
	switch v := v.(type) {
	case lua.LString:
		r.bulk(string(v))
	case lua.LNumber:
		r.int(toInt(float64(v)))
	case lua.LBool:
		switch {
		case script == 3 && r.Proto == 3 && bool(v):
			r.Buf = append(r.Buf, "#t\r\n"...)
		case script == 3 && r.Proto == 3:
			r.Buf = append(r.Buf, "#f\r\n"...)
		case bool(v):
			r.int(1)
		case script == 3:
			r.int(0)
		default:
			r.null()
		}
	case *lua.LTable:
		r.table(v, script, depth, outermost)
	default:
		r.null()
	}
}

func toInt(f float64) int64 {
	if math.IsNaN(f) || f >= 9.3e18 || f <= -9.3e18 {
		return math.MinInt64
	}
	return int64(f)
}

func (r *Reply) table(t *lua.LTable, script, depth int, outermost bool) {
	if depth >= replyDepthMax {
		r.error("ERR reached lua stack limit")
		return
	}
	if s, ok := text(t.RawGetString("err")); ok {
		if outermost {
			r.Quiet = lua.LVAsBool(t.RawGetString("ignore_error_stats_update"))
			r.error(s)
		} else {
			r.line('-', s)
		}
		return
	}
	if s, ok := text(t.RawGetString("ok")); ok {
		r.line('+', s)
		return
	}
	if n, ok := t.RawGetString("double").(lua.LNumber); ok {
		r.double(float64(n))
		return
	}
	if m, ok := t.RawGetString("map").(*lua.LTable); ok {
		r.pairs(m, '%', script, depth)
		return
	}
	if m, ok := t.RawGetString("set").(*lua.LTable); ok {
		r.pairs(m, '~', script, depth)
		return
	}
	if s, ok := text(t.RawGetString("big_number")); ok {
		s = strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
		if r.Proto == 3 {
			r.line('(', s)
		} else {
			r.bulk(s)
		}
		return
	}
	if m, ok := t.RawGetString("verbatim_string").(*lua.LTable); ok {
		format, ok1 := text(m.RawGetString("format"))
		s, ok2 := text(m.RawGetString("string"))
		if ok1 && ok2 {
			r.verbatim(format, s)
			return
		}
	}
	n := 0
	for t.RawGetInt(n+1) != lua.LNil {
		n++
	}
	r.line('*', strconv.Itoa(n))
	for i := 1; i <= n; i++ {
		r.put(t.RawGetInt(i), script, depth+1, false)
	}
}

func (r *Reply) double(f float64) {
	s := formatG(f, 17)
	if short := strconv.FormatFloat(f, 'g', -1, 64); len(short) < len(s) && !math.IsInf(f, 0) && !math.IsNaN(f) {
		s = short
	}
	if r.Proto == 3 {
		r.line(',', s)
	} else {
		r.bulk(s)
	}
}

func (r *Reply) verbatim(format, s string) {
	if r.Proto != 3 {
		r.bulk(s)
		return
	}
	format = (format + "   ")[:3]
	r.line('=', strconv.Itoa(len(s)+4))
	r.Buf = append(r.Buf, format...)
	r.Buf = append(r.Buf, ':')
	r.Buf = append(append(r.Buf, s...), '\r', '\n')
}

func (r *Reply) pairs(t *lua.LTable, kind byte, script, depth int) {
	n := 0
	t.ForEach(func(lua.LValue, lua.LValue) { n++ })
	switch {
	case r.Proto == 3:
		r.line(kind, strconv.Itoa(n))
	case kind == '%':
		r.line('*', strconv.Itoa(2*n))
	default:
		r.line('*', strconv.Itoa(n))
	}
	t.ForEach(func(k, v lua.LValue) {
		r.put(k, script, depth+1, false)
		if kind == '%' {
			r.put(v, script, depth+1, false)
		}
	})
}

// parser turns a reply of the server, which is well formed, into a value of the script.
type parser struct {
	l *lua.LState
	b []byte
}

func (p *parser) head() (kind byte, rest string) {
	for i := range p.b {
		if p.b[i] == '\n' {
			kind, rest = p.b[0], string(p.b[1:i-1])
			p.b = p.b[i+1:]
			return kind, rest
		}
	}
	panic("internal error: script: a reply that ends early")
}

func (p *parser) take(n int) string {
	s := string(p.b[:n])
	p.b = p.b[n+2:]
	return s
}

// value returns the next value.
func (p *parser) value() lua.LValue {
	kind, rest := p.head()
	switch kind {
	case '+':
		return p.field("ok", lua.LString(rest))
	case '-':
		return p.field("err", lua.LString(rest))
	case ':':
		n, _ := strconv.ParseInt(rest, 10, 64)
		return lua.LNumber(n)
	case '_':
		return lua.LNil
	case '#':
		return lua.LBool(rest == "t")
	case ',':
		f, _ := strconv.ParseFloat(rest, 64)
		return p.field("double", lua.LNumber(f))
	case '(':
		return p.field("big_number", lua.LString(rest))
	}
	n, _ := strconv.Atoi(rest)
	if n < 0 {
		return lua.LFalse
	}
	switch kind {
	case '$':
		return lua.LString(p.take(n))
	case '=':
		s := p.take(n)
		t := p.l.NewTable()
		t.RawSetString("format", lua.LString(s[:3]))
		t.RawSetString("string", lua.LString(s[4:]))
		return p.field("verbatim_string", t)
	case '%':
		t := p.l.CreateTable(0, n)
		for range n {
			k := p.value()
			v := p.value()
			if k != lua.LNil {
				t.RawSet(k, v)
			}
		}
		return p.field("map", t)
	case '~':
		t := p.l.CreateTable(0, n)
		for range n {
			if k := p.value(); k != lua.LNil {
				t.RawSet(k, lua.LTrue)
			}
		}
		return p.field("set", t)
	case '|': // attributes are not shown to scripts
		for range 2 * n {
			p.value()
		}
		return p.value()
	}
	t := p.l.CreateTable(n, 0)
	for i := 1; i <= n; i++ {
		t.RawSetInt(i, p.value())
	}
	return t
}

func (p *parser) field(name string, v lua.LValue) *lua.LTable {
	t := p.l.NewTable()
	t.RawSetString(name, v)
	return t
}
