package script

import (
	"math"
	"strconv"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// The library cjson: settings, encoder and decoder, with the defaults and the messages of lua-cjson.

// jsonDepthDefault is how deep objects may nest unless a script says otherwise.
const jsonDepthDefault = 1000

// jsonDepthMax bounds what a script may say.
const jsonDepthMax = 10000

type jsonSettings struct {
	encodeDepth, decodeDepth int
	sparseConvert            bool
	sparseRatio, sparseSafe  int
	invalidEncode            string // on, off, null
	invalidDecode            bool
	precision                int
	keepBuffer               bool
}

func jsonLibrary(l *lua.LState) *lua.LTable {
	s := &jsonSettings{
		encodeDepth: jsonDepthDefault, decodeDepth: jsonDepthDefault, sparseRatio: 2, sparseSafe: 10,
		invalidEncode: "off", invalidDecode: true, precision: 14, keepBuffer: true,
	}
	null := l.NewUserData() // lua-cjson's null is a light userdata; it prints as such and is equal to itself only
	t := l.NewTable()
	l.SetFuncs(t, map[string]lua.LGFunction{
		"encode": func(l *lua.LState) int {
			if l.GetTop() != 1 {
				l.ArgError(1, "expected 1 argument")
			}
			e := jsonEncoder{l: l, s: s, null: null}
			e.value(l.Get(1), 0)
			l.Push(lua.LString(e.b))
			return 1
		},
		"decode": func(l *lua.LState) int {
			if l.GetTop() != 1 {
				l.ArgError(1, "expected 1 argument")
			}
			d := jsonDecoder{l: l, s: s, null: null, in: l.CheckString(1)}
			v := d.value(0)
			if d.blank(); d.at < len(d.in) {
				d.fail("the end", d.at)
			}
			l.Push(v)
			return 1
		},
		"encode_max_depth": func(l *lua.LState) int { return s.depth(l, &s.encodeDepth) },
		"decode_max_depth": func(l *lua.LState) int { return s.depth(l, &s.decodeDepth) },
		"encode_number_precision": func(l *lua.LState) int {
			return intSetting(l, 1, &s.precision, 1, 14)
		},
		"encode_keep_buffer": func(l *lua.LState) int { return boolSetting(l, 1, &s.keepBuffer) },
		"encode_sparse_array": func(l *lua.LState) int {
			return boolSetting(l, 1, &s.sparseConvert) + intSetting(l, 2, &s.sparseRatio, 0, math.MaxInt32) +
				intSetting(l, 3, &s.sparseSafe, 0, math.MaxInt32)
		},
		"encode_invalid_numbers": func(l *lua.LState) int { return s.invalid(l) },
		"decode_invalid_numbers": func(l *lua.LState) int { return boolSetting(l, 1, &s.invalidDecode) },
	})
	t.RawSetString("null", null)
	t.RawSetString("_NAME", lua.LString("cjson"))
	t.RawSetString("_VERSION", lua.LString("2.1.0"))
	return t
}

func (s *jsonSettings) depth(l *lua.LState, p *int) int { return intSetting(l, 1, p, 1, jsonDepthMax) }

func intSetting(l *lua.LState, arg int, p *int, least, most int) int {
	if l.GetTop() >= arg && l.Get(arg) != lua.LNil {
		n := l.CheckInt(arg)
		if n < least || n > most {
			l.ArgError(arg, "expected integer between "+strconv.Itoa(least)+" and "+strconv.Itoa(most))
		}
		*p = n
	}
	l.Push(lua.LNumber(*p))
	return 1
}

func boolSetting(l *lua.LState, arg int, p *bool) int {
	if l.GetTop() >= arg && l.Get(arg) != lua.LNil {
		*p = onOff(l, arg)
	}
	l.Push(lua.LBool(*p))
	return 1
}

func onOff(l *lua.LState, arg int) bool {
	switch v := l.Get(arg).(type) {
	case lua.LBool:
		return bool(v)
	case lua.LString:
		return v == "on"
	}
	l.ArgError(arg, "boolean expected")
	return false
}

func (s *jsonSettings) invalid(l *lua.LState) int {
	if l.GetTop() >= 1 {
		switch {
		case l.Get(1).String() == "null":
			s.invalidEncode = "null"
		case onOff(l, 1):
			s.invalidEncode = "on"
		default:
			s.invalidEncode = "off"
		}
	}
	if s.invalidEncode == "null" {
		l.Push(lua.LString("null"))
	} else {
		l.Push(lua.LBool(s.invalidEncode == "on"))
	}
	return 1
}

type jsonEncoder struct {
	l    *lua.LState
	s    *jsonSettings
	null *lua.LUserData
	b    []byte
}

func (e *jsonEncoder) fail(what, why string) {
	e.l.RaiseError("Cannot serialise %s: %s", what, why)
}

func (e *jsonEncoder) value(v lua.LValue, depth int) {
	if len(e.b) > stringMax {
		e.l.RaiseError(tooLong)
	}
	switch v := v.(type) {
	case lua.LString:
		e.string(string(v))
	case lua.LNumber:
		e.number(float64(v))
	case lua.LBool:
		e.b = strconv.AppendBool(e.b, bool(v))
	case *lua.LNilType:
		e.b = append(e.b, "null"...)
	case *lua.LUserData:
		if v != e.null {
			e.fail("userdata", "type not supported")
		}
		e.b = append(e.b, "null"...)
	case *lua.LTable:
		if depth++; depth > e.s.encodeDepth {
			e.l.RaiseError("Cannot serialise, excessive depth (%d)", depth)
		}
		if n := e.arrayLength(v); n > 0 {
			e.array(v, n, depth)
		} else {
			e.object(v, depth)
		}
	default:
		e.fail(v.Type().String(), "type not supported")
	}
}

// arrayLength is the length of a table that is an array, and -1 for one that is not.
func (e *jsonEncoder) arrayLength(t *lua.LTable) int {
	most, items, array := 0, 0, true
	t.ForEach(func(k, _ lua.LValue) {
		n, ok := k.(lua.LNumber)
		if !ok || n < 1 || float64(n) != math.Floor(float64(n)) || n > math.MaxInt32 {
			array = false
			return
		}
		most, items = max(most, int(n)), items+1
	})
	if !array {
		return -1
	}
	if e.s.sparseRatio > 0 && most > items*e.s.sparseRatio && most > e.s.sparseSafe {
		if !e.s.sparseConvert {
			e.fail("table", "excessively sparse array")
		}
		return -1
	}
	return most
}

func (e *jsonEncoder) array(t *lua.LTable, n, depth int) {
	e.b = append(e.b, '[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			e.b = append(e.b, ',')
		}
		e.value(t.RawGetInt(i), depth)
	}
	e.b = append(e.b, ']')
}

func (e *jsonEncoder) object(t *lua.LTable, depth int) {
	e.b = append(e.b, '{')
	first := true
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if !first {
			e.b = append(e.b, ',')
		}
		first = false
		switch k := k.(type) {
		case lua.LString:
			e.string(string(k))
		case lua.LNumber:
			e.b = append(e.b, '"')
			e.number(float64(k))
			e.b = append(e.b, '"')
		default:
			e.fail("table", "table key must be a number or string")
		}
		e.b = append(e.b, ':')
		e.value(v, depth)
	}
	e.b = append(e.b, '}')
}

func (e *jsonEncoder) number(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		switch e.s.invalidEncode {
		case "off":
			e.fail("number", "must not be NaN or Inf")
		case "null":
			e.b = append(e.b, "null"...)
			return
		}
	}
	e.b = append(e.b, formatG(f, e.s.precision)...)
}

const hexDigits = "0123456789abcdef"

func (e *jsonEncoder) string(s string) {
	e.b = append(e.b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '/':
			e.b = append(e.b, '\\', c)
		case '\b':
			e.b = append(e.b, '\\', 'b')
		case '\t':
			e.b = append(e.b, '\\', 't')
		case '\n':
			e.b = append(e.b, '\\', 'n')
		case '\f':
			e.b = append(e.b, '\\', 'f')
		case '\r':
			e.b = append(e.b, '\\', 'r')
		default:
			if c < 0x20 || c == 0x7f {
				e.b = append(e.b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				e.b = append(e.b, c)
			}
		}
	}
	e.b = append(e.b, '"')
}

type jsonDecoder struct {
	l    *lua.LState
	s    *jsonSettings
	null *lua.LUserData
	in   string
	at   int
}

func (d *jsonDecoder) blank() {
	for d.at < len(d.in) && (d.in[d.at] == ' ' || d.in[d.at] == '\t' || d.in[d.at] == '\n' || d.in[d.at] == '\r') {
		d.at++
	}
}

// fail raises the error; positions count from 1.
func (d *jsonDecoder) fail(expected string, at int) {
	found := "invalid token"
	if at >= len(d.in) {
		found = "T_END"
	}
	d.l.RaiseError("Expected %s but found %s at character %d", expected, found, at+1)
}

func (d *jsonDecoder) value(depth int) lua.LValue {
	d.blank()
	if d.at >= len(d.in) {
		d.fail("value", d.at)
	}
	switch c := d.in[d.at]; c {
	case '{', '[':
		if depth++; depth > d.s.decodeDepth {
			d.l.RaiseError("Found too many nested data structures (%d)", depth)
		}
		d.at++
		if c == '{' {
			return d.object(depth)
		}
		return d.array(depth)
	case '"':
		return lua.LString(d.string())
	}
	for word, v := range map[string]lua.LValue{"true": lua.LTrue, "false": lua.LFalse, "null": d.null} {
		if len(d.in) >= d.at+len(word) && d.in[d.at:d.at+len(word)] == word {
			d.at += len(word)
			return v
		}
	}
	return d.number()
}

func (d *jsonDecoder) number() lua.LValue {
	from := d.at
	for d.at < len(d.in) {
		c := d.in[d.at]
		if c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			d.at++
			continue
		}
		break
	}
	word := d.in[from:d.at]
	f, err := strconv.ParseFloat(word, 64)
	if err != nil && !math.IsInf(f, 0) || word == "" {
		d.fail("value", from)
	}
	if (math.IsNaN(f) || math.IsInf(f, 0)) && !d.s.invalidDecode {
		d.fail("value", from)
	}
	return lua.LNumber(f)
}

func (d *jsonDecoder) array(depth int) lua.LValue {
	t := d.l.NewTable()
	if d.blank(); d.at < len(d.in) && d.in[d.at] == ']' {
		d.at++
		return t
	}
	for {
		t.Append(d.value(depth))
		d.blank()
		switch {
		case d.at < len(d.in) && d.in[d.at] == ',':
			d.at++
		case d.at < len(d.in) && d.in[d.at] == ']':
			d.at++
			return t
		default:
			d.fail("comma or array end", d.at)
		}
	}
}

func (d *jsonDecoder) object(depth int) lua.LValue {
	t := d.l.NewTable()
	if d.blank(); d.at < len(d.in) && d.in[d.at] == '}' {
		d.at++
		return t
	}
	for {
		if d.blank(); d.at >= len(d.in) || d.in[d.at] != '"' {
			d.fail("object key string", d.at)
		}
		key := d.string()
		if d.blank(); d.at >= len(d.in) || d.in[d.at] != ':' {
			d.fail("colon", d.at)
		}
		d.at++
		t.RawSetString(key, d.value(depth))
		d.blank()
		switch {
		case d.at < len(d.in) && d.in[d.at] == ',':
			d.at++
		case d.at < len(d.in) && d.in[d.at] == '}':
			d.at++
			return t
		default:
			d.fail("comma or object end", d.at)
		}
	}
}

func (d *jsonDecoder) string() string {
	from := d.at
	d.at++
	var out []byte
	for d.at < len(d.in) {
		c := d.in[d.at]
		d.at++
		switch {
		case c == '"':
			return string(out)
		case c < 0x20:
			d.fail("value", d.at-1)
		case c != '\\':
			out = append(out, c)
		default:
			out = d.escape(out)
		}
	}
	d.fail("value", from)
	return ""
}

var jsonEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (d *jsonDecoder) escape(out []byte) []byte {
	if d.at >= len(d.in) {
		return out
	}
	c := d.in[d.at]
	if plain, ok := jsonEscapes[c]; ok {
		d.at++
		return append(out, plain)
	}
	r, ok := d.hex()
	if c != 'u' || !ok {
		d.fail("value", d.at-1)
	}
	if r >= 0xd800 && r < 0xdc00 && d.at+1 < len(d.in) && d.in[d.at] == '\\' {
		d.at++
		low, ok := d.hex()
		if !ok || low < 0xdc00 || low > 0xdfff {
			d.fail("value", d.at)
		}
		r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
	} else if r >= 0xd800 && r <= 0xdfff {
		d.fail("value", d.at)
	}
	return utf8.AppendRune(out, r)
}

// hex reads uXXXX.
func (d *jsonDecoder) hex() (rune, bool) {
	if d.at+5 > len(d.in) || d.in[d.at] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(d.in[d.at+1:d.at+5], 16, 16)
	if err != nil {
		return 0, false
	}
	d.at += 5
	return rune(n), true
}
