package script

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// stringFormat is string.format as C has it.
func stringFormat(l *lua.LState) int {
	s := l.CheckString(1)
	var out strings.Builder
	arg := 1
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			l.RaiseError("invalid option '%%' to 'format'")
		}
		if s[i] == '%' {
			out.WriteByte('%')
			continue
		}
		from := i
		for i < len(s) && strings.IndexByte("-+ #.0123456789", s[i]) >= 0 {
			i++
		}
		spec := s[from:i]
		if i == len(s) {
			l.RaiseError("invalid option '%%%s' to 'format'", spec)
		}
		if !goodSpec(spec) {
			l.RaiseError("invalid format (width or precision too long)")
		}
		arg++
		out.WriteString(formatOne(l, spec, s[i], arg))
		if out.Len() > stringMax {
			l.RaiseError(tooLong)
		}
	}
	l.Push(lua.LString(out.String()))
	return 1
}

// goodSpec allows what Lua allows: two digits of width and of precision.
func goodSpec(spec string) bool {
	width, precision, _ := strings.Cut(strings.TrimLeft(spec, "-+ #0"), ".")
	return len(width) <= 2 && len(precision) <= 2 && !strings.ContainsAny(width+precision, "-+ #.")
}

func formatOne(l *lua.LState, spec string, verb byte, arg int) string {
	switch verb {
	case 'd', 'i':
		return fmt.Sprintf("%"+spec+"d", toInt(float64(l.CheckNumber(arg))))
	case 'u':
		return fmt.Sprintf("%"+spec+"d", uint64(toInt(float64(l.CheckNumber(arg)))))
	case 'x', 'X', 'o':
		return fmt.Sprintf("%"+spec+string(verb), uint64(toInt(float64(l.CheckNumber(arg)))))
	case 'c':
		return string([]byte{byte(toInt(float64(l.CheckNumber(arg))))})
	case 'e', 'E', 'f', 'g', 'G':
		f := float64(l.CheckNumber(arg))
		if math.IsInf(f, 0) || math.IsNaN(f) {
			width, _, _ := strings.Cut(strings.TrimLeft(spec, "+ #0"), ".")
			return fmt.Sprintf("%"+width+"s", formatG(f, 14))
		}
		if (verb == 'g' || verb == 'G') && !strings.Contains(spec, ".") {
			spec += ".6"
		}
		return fmt.Sprintf("%"+spec+string(verb), f)
	case 's':
		l.CheckAny(arg)
		v, ok := text(l.Get(arg))
		if !ok {
			v = l.ToStringMeta(l.Get(arg)).String()
		}
		return fmt.Sprintf("%"+spec+"s", v)
	case 'q':
		return quote(l.CheckString(arg))
	}
	l.RaiseError("invalid option '%%%c' to 'format'", verb)
	return ""
}

func quote(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			out.WriteByte('\\')
			out.WriteByte(c)
		case '\r':
			out.WriteString(`\r`)
		case 0:
			out.WriteString(`\000`)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}
