package script

import (
	"math"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// formatNumber is a number as Lua prints it (%.14g).
func formatNumber(n lua.LNumber) string { return formatG(float64(n), 14) }

// formatArgument is a number as an argument of a command (%.17g).
func formatArgument(n lua.LNumber) string { return formatG(float64(n), 17) }

func formatG(f float64, digits int) string {
	switch {
	case f == math.Trunc(f) && math.Abs(f) < 1e14:
		return strconv.FormatInt(int64(f), 10)
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	return strconv.FormatFloat(f, 'g', digits, 64)
}

// text returns what a string or a number is as a string.
func text(v lua.LValue) (string, bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return formatNumber(v), true
	}
	return "", false
}
