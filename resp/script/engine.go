package script

import (
	"errors"
	"regexp"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Host is what a running script may ask for.
type Host interface {
	// Call executes a command and returns its reply in the protocol version that the script chose; it is valid until the next
	// call. An error ends the script, whatever it catches.
	Call(args [][]byte, proto int) (reply []byte, err error)
	// Allowed reports whether the user may execute a command, and whether there is such a command.
	Allowed(args [][]byte) (may, known bool)
	// Log writes a line into the server's log; level is one of redis.LOG_DEBUG to LOG_WARNING.
	Log(level int, text string)
	// Tick is called now and then while the script runs. An error ends it.
	Tick() error
}

// Options of an Engine.
type Options struct {
	Version string // what redis.REDIS_VERSION says, three numbers
}

// Engine is an interpreter with what Redis offers to scripts. One goroutine uses it at a time.
type Engine struct {
	l     *lua.LState
	hook  *hook
	guard *guarded
	o     Options

	globals      *lua.LTable // of scripts; behind env
	env          *lua.LTable // what scripts and functions see as _G
	envMeta      *lua.LTable
	loading      *lua.LTable // what a library sees while it is loaded
	nextFunction *lua.LFunction
	stringMeta   *lua.LTable
	onError      *lua.LFunction

	run     *run // what runs now; nil: nothing
	library *Library
	scripts map[string]*lua.LFunction // by digest
}

// run is one execution.
type run struct {
	host  Host
	proto int // that the script asked its replies in
	name  string
	out   *Reply
	args  [][]byte
}

const (
	callStack    = 16000
	registrySize = 1024
	registryMax  = 256 << 10
	// scriptsMax bounds the compiled scripts that are kept.
	scriptsMax = 10000
)

// New makes an engine.
func New(o Options) *Engine {
	e := &Engine{o: o, scripts: map[string]*lua.LFunction{}}
	e.reset()
	return e
}

// reset makes the interpreter anew: what scripts and functions left behind is gone.
func (e *Engine) reset() {
	l := lua.NewState(lua.Options{
		CallStackSize: callStack, RegistrySize: registrySize, RegistryMaxSize: registryMax, RegistryGrowStep: 1024,
		SkipOpenLibs: true, MinimizeStackMemory: true,
	})
	e.l, e.hook, e.guard = l, newHook(), newGuarded(l)
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenString, lua.OpenTable, lua.OpenMath, lua.OpenCoroutine} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	e.sandbox()
	l.SetContext(e.hook)
	clear(e.scripts)
}

// sandbox builds the tables that scripts see.
func (e *Engine) sandbox() {
	l := e.l
	g := e.base()
	e.nextFunction = g.RawGetString("next").(*lua.LFunction)
	libraries := map[string]*lua.LTable{
		"string": e.stringLibrary(), "table": e.tableLibrary(), "math": mathLibrary(l), "coroutine": e.coroutineLibrary(),
		"os": osLibrary(l), "bit": bitLibrary(l), "cjson": jsonLibrary(l), "cmsgpack": msgpackLibrary(l), "struct": structLibrary(l),
		"redis": e.redisLibrary(),
	}
	for name, t := range libraries {
		g.RawSetString(name, e.guard.front(l, t))
	}
	missing := l.NewTable()
	missing.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
		name, ok := text(l.Get(2))
		if !ok {
			name = l.Get(2).Type().String()
		}
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", name)
		return 0
	}))
	g.Metatable = missing
	e.globals = g
	e.env = e.guard.front(l, g)
	e.envMeta = e.env.Metatable.(*lua.LTable)
	g.RawSetString("_G", e.env)
	meta := l.GetMetatable(lua.LString("")).(*lua.LTable)
	meta.RawSetString("__index", libraries["string"])
	e.stringMeta = e.guard.bare(l, meta, meta)
	e.loading = e.loadingGlobals(g, missing)
	e.onError = l.NewFunction(e.describe)
}

// loadingGlobals is what a library sees while it is loaded: nothing but the means to register functions.
func (e *Engine) loadingGlobals(g, missing *lua.LTable) *lua.LTable {
	l := e.l
	t, redis, full := l.NewTable(), l.NewTable(), e.guard.behind(g.RawGetString("redis").(*lua.LTable))
	for _, name := range []string{
		"log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM",
	} {
		redis.RawSetString(name, full.RawGetString(name))
	}
	redis.RawSetString("register_function", l.NewFunction(e.register))
	redis.Metatable = missing
	t.RawSetString("redis", e.guard.front(l, redis))
	t.Metatable = missing
	return t
}

// CompileError says that a script does not compile.
type CompileError struct{ Text string }

func (e *CompileError) Error() string { return e.Text }

// Check reports whether a script's body compiles. Any goroutine may call it.
func Check(body string) error {
	_, err := compile(body, scriptSource)
	return err
}

const (
	scriptSource   = "user_script"
	functionSource = "user_function"
)

// Eval runs a script, kept under its digest. memory is how many bytes it may hold.
func (e *Engine) Eval(h Host, digest, body string, keys, args [][]byte, out *Reply, memory int64) error {
	f := e.scripts[digest]
	if f == nil {
		proto, err := compile(body, scriptSource)
		if err != nil {
			return &CompileError{"ERR Error compiling script (new function): " + err.Error()}
		}
		if len(e.scripts) >= scriptsMax {
			clear(e.scripts)
		}
		f = e.l.NewFunctionFromProto(proto)
		f.Env = e.env
		e.scripts[digest] = f
	}
	e.globals.RawSetString("KEYS", e.strings(keys))
	e.globals.RawSetString("ARGV", e.strings(args))
	defer func() {
		e.globals.RawSetString("KEYS", lua.LNil)
		e.globals.RawSetString("ARGV", lua.LNil)
	}()
	return e.call(f, &run{host: h, proto: 2, name: digest, out: out}, memory)
}

func (e *Engine) strings(list [][]byte) *lua.LTable {
	t := e.l.CreateTable(len(list), 0)
	for _, s := range list {
		t.Append(lua.LString(s))
	}
	return t
}

// call runs a function to its end and converts what it returns. An error of the script itself becomes an error reply; what is
// returned is an error of the host, after which nothing was replied.
func (e *Engine) call(f *lua.LFunction, r *run, memory int64, args ...lua.LValue) error {
	l := e.l
	e.run = r
	e.hook.begin(r.host, memory)
	start := len(r.out.Buf)
	defer func() {
		e.run = nil
		e.hook.host = nil
		l.SetTop(0)
	}()
	l.Push(f)
	for _, a := range args {
		l.Push(a)
	}
	err := l.PCall(len(args), 1, e.onError)
	if cause := e.hook.cause; cause != nil {
		r.out.Buf = r.out.Buf[:start]
		return cause
	}
	if err != nil {
		r.out.error(errorText(err, r.name))
		return nil
	}
	if !r.out.value(l.Get(-1), r.proto) {
		r.out.Buf = r.out.Buf[:start]
		return memoryError(stringMax)
	}
	return nil
}

// describe is the handler of errors: it makes each a table with text, source and line.
func (e *Engine) describe(l *lua.LState) int {
	t, ok := l.Get(1).(*lua.LTable)
	if !ok {
		t = l.NewTable()
		s, ok := text(l.Get(1))
		if !ok {
			s = l.Get(1).Type().String()
		}
		s = reword(s)
		if what := calledNil(l); what != "" {
			s = strings.Replace(s, "attempt to call a nil value", "attempt to call "+what+" (a nil value)", 1)
		}
		t.RawSetString("err", lua.LString("ERR "+s))
	}
	if t.RawGetString("source") != lua.LNil || e.guard.real[t] != nil {
		l.Push(t)
		return 1
	}
	for level := 1; level < 10; level++ {
		d, ok := l.GetStack(level)
		if !ok {
			break
		}
		if _, err := l.GetInfo("Sl", d, lua.LNil); err == nil && d.What != "G" && d.CurrentLine > 0 {
			t.RawSetString("source", lua.LString("@"+d.Source))
			t.RawSetString("line", lua.LNumber(d.CurrentLine))
			break
		}
	}
	l.Push(t)
	return 1
}

var (
	callNil  = regexp.MustCompile(`attempt to call a non-function object`)
	indexNil = regexp.MustCompile(`attempt to index a non-table object\((\w+)\) with key '.*'`)
	traced   = regexp.MustCompile(`(?s)\nstack traceback:.*`)
)

// reword makes the interpreter's errors those that Lua gives.
func reword(s string) string {
	s = traced.ReplaceAllString(s, "")
	s = callNil.ReplaceAllString(s, "attempt to call a nil value")
	s = indexNil.ReplaceAllString(s, "attempt to index a $1 value")
	return strings.TrimSpace(s)
}

// errorText is what the client is told of an error that the script did not catch.
func errorText(err error, name string) string {
	var api *lua.ApiError
	if !errors.As(err, &api) {
		return "ERR " + reword(err.Error())
	}
	t, ok := api.Object.(*lua.LTable)
	if !ok {
		return "ERR " + reword(api.Object.String())
	}
	msg, ok := text(t.RawGetString("err"))
	if !ok {
		msg = "ERR unknown error"
	}
	source, ok := text(t.RawGetString("source"))
	line, hasLine := text(t.RawGetString("line"))
	if ok && hasLine {
		msg += " script: " + name + ", on " + source + ":" + line + "."
	}
	return msg
}

// Flush forgets all compiled scripts, and the interpreter with them.
func (e *Engine) Flush() { clear(e.scripts) }

// Forget drops the code of one script.
func (e *Engine) Forget(digest string) { delete(e.scripts, digest) }
