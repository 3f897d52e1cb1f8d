package script

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

const (
	// sourceMax is the longest script, in bytes.
	sourceMax = 16 << 20
	// depthMax bounds how deep a script may nest: the compiler calls itself for each level.
	depthMax = 2000

	errSourceLong = "the script is too long: at most 16 MiB"
)

var syntaxError = regexp.MustCompile(`(?s)^(.*) line:(\d+)\(column:\d+\) near '(.*)':\s+(.*?)\s*$`)

// compile turns source text into code. The error is worded as Lua does, place first.
func compile(source, name string) (proto *lua.FunctionProto, err error) {
	switch {
	case strings.HasPrefix(source, "\x1b"):
		return nil, errors.New("bad header in precompiled chunk")
	case len(source) > sourceMax:
		return nil, errors.New(errSourceLong)
	}
	if brackets(source) > depthMax {
		return nil, errors.New(name + ":1: chunk has too many syntax levels")
	}
	defer func() {
		if r := recover(); r != nil {
			proto, err = nil, fmt.Errorf("%s:1: %v", name, r)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		text := strings.TrimSpace(err.Error())
		if m := syntaxError.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s:%s: %s near '%s'", m[1], m[2], m[4], m[3])
		} else if strings.Contains(text, "at EOF") {
			text = fmt.Sprintf("%s:%d: syntax error near '<eof>'", name, 1+strings.Count(source, "\n"))
		}
		return nil, errors.New(text)
	}
	if tooDeep(reflect.ValueOf(chunk), 0) {
		return nil, errors.New(name + ":1: chunk has too many syntax levels")
	}
	return lua.Compile(chunk, name)
}

// brackets bounds the nesting of a source before the parser sees it: the parser's own stack is on the heap and grows with it.
func brackets(source string) (deepest int) {
	depth := 0
	for i := range len(source) {
		switch source[i] {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
	}
	if deepest <= depthMax || strings.ContainsAny(source, "\"'[") && deepest < 50*depthMax {
		return 0 // brackets in strings are none; the tree tells
	}
	return deepest
}

var concatType = reflect.TypeFor[*ast.StringConcatOpExpr]()

// tooDeep walks the tree; what it does not descend into has no depth. Each level of the tree is some of reflection's.
func tooDeep(v reflect.Value, depth int) bool {
	if depth > depthMax {
		return true
	}
	switch v.Kind() {
	case reflect.Interface:
		return !v.IsNil() && tooDeep(v.Elem(), depth)
	case reflect.Pointer:
		if v.IsNil() {
			return false
		}
		if v.Type() == concatType { // compiled in a loop
			for v.Type() == concatType {
				e := v.Interface().(*ast.StringConcatOpExpr)
				if tooDeep(reflect.ValueOf(e.Lhs), depth+1) {
					return true
				}
				v = reflect.ValueOf(e.Rhs)
			}
			return tooDeep(v, depth+1)
		}
		return tooDeep(v.Elem(), depth+1)
	case reflect.Slice:
		for i := range v.Len() {
			if tooDeep(v.Index(i), depth) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				switch f.Type.Kind() {
				case reflect.Interface, reflect.Pointer, reflect.Slice, reflect.Struct:
					if tooDeep(v.Field(i), depth) {
						return true
					}
				}
			}
		}
	}
	return false
}
