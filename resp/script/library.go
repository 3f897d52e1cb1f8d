package script

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Library is the functions that one source registers.
type Library struct {
	Name   string
	Source string
	funcs  map[string]*Function
}

// Function is one function of a library.
type Function struct {
	Name        string
	Description string
	Flags       Flags
	described   bool
	call        *lua.LFunction
}

// Described reports whether the function came with a description.
func (f *Function) Described() bool { return f.described }

// Functions lists the library's functions by name.
func (b *Library) Functions() (list []*Function) {
	for _, name := range slices.Sorted(maps.Keys(b.funcs)) {
		list = append(list, b.funcs[name])
	}
	return list
}

// Function returns the function of that name.
func (b *Library) Function(name string) *Function { return b.funcs[name] }

const badName = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"

func goodName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		default:
			return false
		}
	}
	return s != ""
}

func (b *Library) add(f *Function) error {
	if !goodName(f.Name) {
		return errors.New(badName)
	}
	if b.funcs[f.Name] != nil {
		return errors.New("Function already exists in the library")
	}
	b.funcs[f.Name] = f
	return nil
}

// named reads the arguments of redis.register_function from a table.
func (f *Function) named(t *lua.LTable) (err error) {
	fail := func(s string) {
		if err == nil {
			err = errors.New(s)
		}
	}
	t.ForEach(func(k, v lua.LValue) {
		key, ok := k.(lua.LString)
		if !ok {
			fail("named argument key given to redis.register_function is not a string")
			return
		}
		switch strings.ToLower(string(key)) {
		case "function_name":
			if s, ok := v.(lua.LString); ok {
				f.Name = string(s)
			} else {
				fail("function_name argument given to redis.register_function must be a string")
			}
		case "description":
			if s, ok := v.(lua.LString); ok {
				f.Description, f.described = string(s), true
			} else {
				fail("description argument given to redis.register_function must be a string")
			}
		case "callback":
			if f.call, ok = v.(*lua.LFunction); !ok {
				fail("callback argument given to redis.register_function must be a function")
			}
		case "flags":
			list, ok := v.(*lua.LTable)
			if !ok {
				fail("flags argument to redis.register_function must be a table representing function flags")
				return
			}
			for i := 1; list.RawGetInt(i) != lua.LNil; i++ {
				flag, known := flagNames[list.RawGetInt(i).String()]
				if !known {
					fail("unknown flag given")
					return
				}
				f.Flags |= flag
			}
		default:
			fail("unknown argument given to redis.register_function")
		}
	})
	switch {
	case err != nil:
	case f.Name == "":
		err = errors.New("redis.register_function must get a function name argument")
	case f.call == nil:
		err = errors.New("redis.register_function must get a callback argument")
	}
	return err
}

// loadTime bounds how long a library may take to load.
const loadTime = 500 * time.Millisecond

// loadMemory bounds what it may hold meanwhile, in bytes.
const loadMemory = 64 << 20

// loader is the host of a library that is being loaded: it can do nothing but log.
type loader struct {
	Host
	until time.Time
}

func (h *loader) Tick() error {
	if time.Now().After(h.until) {
		return errors.New("ERR FUNCTION LOAD timeout")
	}
	return nil
}

// LibraryName reads the first line of a library's source.
func LibraryName(source string) (name string, err error) {
	head, _, found := strings.Cut(source, "\n")
	if !strings.HasPrefix(source, "#!") {
		return "", errors.New("ERR Missing library metadata")
	}
	if !found {
		return "", errors.New("ERR Invalid library metadata")
	}
	words, err := splitWords(strings.TrimPrefix(head, "#!"))
	if err != nil {
		return "", errors.New("ERR Invalid library metadata")
	}
	engine := ""
	if len(words) > 0 && !strings.HasPrefix(head[2:], " ") {
		engine, words = words[0], words[1:]
	}
	given := false
	for _, w := range words {
		value, ok := strings.CutPrefix(w, "name=")
		switch {
		case !ok && !strings.HasPrefix(strings.ToLower(w), "name="):
			return "", errors.New("ERR Invalid metadata value given: " + w)
		case given:
			return "", errors.New("ERR Invalid metadata value, name argument was given multiple times")
		}
		if !ok {
			value = w[len("name="):]
		}
		name, given = value, true
	}
	if !given {
		return "", errors.New("ERR Library name was not given")
	}
	if !goodName(name) {
		return "", errors.New("ERR " + badName)
	}
	if !strings.EqualFold(engine, "lua") {
		return "", fmt.Errorf("ERR Engine '%s' not found", engine)
	}
	return name, nil
}

// splitWords splits a line at blanks; a part in double quotes is taken as it stands.
func splitWords(s string) (words []string, err error) {
	var word strings.Builder
	in, quoted := false, false
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '"':
			quoted, in = !quoted, true
		case !quoted && (c == ' ' || c == '\t' || c == '\r'):
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			in = true
			word.WriteByte(c)
		}
	}
	if quoted {
		return nil, errors.New("unbalanced quotes")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// Load runs a library's source, whose name is known to be good, and returns what it registered.
func (e *Engine) Load(h Host, name, source string) (*Library, error) {
	_, body, _ := strings.Cut(source, "\n")
	proto, err := compile("\n"+body, functionSource)
	if err != nil {
		return nil, errors.New("ERR Error compiling function: " + err.Error())
	}
	b := &Library{Name: name, Source: source, funcs: map[string]*Function{}}
	f := e.l.NewFunctionFromProto(proto)
	f.Env = e.env
	e.library = b
	e.envMeta.RawSetString("__index", e.loading)
	defer func() {
		e.library = nil
		e.envMeta.RawSetString("__index", e.globals)
	}()
	var out Reply
	r := &run{host: &loader{Host: h, until: time.Now().Add(loadTime)}, proto: 2, name: name, out: &out}
	if err := e.call(f, r, loadMemory); err != nil {
		return nil, err
	}
	if out.Failed {
		text := strings.TrimPrefix(out.Error, "ERR ")
		if i := strings.LastIndex(text, " script: "); i >= 0 {
			text = text[:i]
		}
		return nil, errors.New("ERR Error registering functions: " + text)
	}
	if len(b.funcs) == 0 {
		return nil, errors.New("ERR No functions registered")
	}
	return b, nil
}

// Call runs a function.
func (e *Engine) Call(h Host, f *Function, keys, args [][]byte, out *Reply, memory int64) error {
	return e.call(f.call, &run{host: h, proto: 2, name: f.Name, out: out}, memory, e.strings(keys), e.strings(args))
}
