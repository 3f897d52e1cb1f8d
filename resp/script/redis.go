package script

import (
	"crypto/sha1" // names scripts, as in Redis; nothing rests on it
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The table redis.

// Log levels.
const (
	LogDebug = iota
	LogVerbose
	LogNotice
	LogWarning
)

// Digest is the name of a script: the SHA-1 of its text.
func Digest(body []byte) string {
	sum := sha1.Sum(body)
	return hex.EncodeToString(sum[:])
}

func (e *Engine) redisLibrary() *lua.LTable {
	l := e.l
	t := l.NewTable()
	l.SetFuncs(t, map[string]lua.LGFunction{
		"call":               func(l *lua.LState) int { return e.command(l, true) },
		"pcall":              func(l *lua.LState) int { return e.command(l, false) },
		"sha1hex":            e.digest,
		"error_reply":        redisErrorReply,
		"status_reply":       redisStatusReply,
		"log":                e.log,
		"setresp":            e.setResp,
		"set_repl":           e.setRepl,
		"replicate_commands": func(l *lua.LState) int { l.Push(lua.LTrue); return 1 },
		"breakpoint":         func(l *lua.LState) int { l.Push(lua.LFalse); return 1 },
		"debug":              func(*lua.LState) int { return 0 },
		"acl_check_cmd":      e.allowed,
	})
	for name, n := range map[string]int{
		"LOG_DEBUG": LogDebug, "LOG_VERBOSE": LogVerbose, "LOG_NOTICE": LogNotice, "LOG_WARNING": LogWarning,
		"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3,
	} {
		t.RawSetString(name, lua.LNumber(n))
	}
	t.RawSetString("REDIS_VERSION", lua.LString(e.o.Version))
	num := 0
	for _, part := range strings.SplitN(e.o.Version, ".", 3) {
		n, _ := strconv.Atoi(part)
		num = num<<8 | n&0xff
	}
	t.RawSetString("REDIS_VERSION_NUM", lua.LNumber(num))
	return t
}

// fail returns an error table to the script, or raises it.
func (e *Engine) fail(l *lua.LState, raise bool, msg string, counted bool) int {
	t := l.NewTable()
	t.RawSetString("err", lua.LString(msg))
	if counted {
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
	}
	if !raise {
		l.Push(t)
		return 1
	}
	if source, line, ok := strings.Cut(strings.TrimSuffix(l.Where(1), ":"), ":"); ok {
		t.RawSetString("source", lua.LString("@"+source))
		t.RawSetString("line", lua.LString(line))
	}
	l.Error(t, 0)
	return 0
}

// arguments converts what the script passed; ok is false if something is neither a string nor a number.
func (e *Engine) arguments(l *lua.LState) (args [][]byte, ok bool) {
	n := l.GetTop()
	args = e.run.args[:0]
	for i := 1; i <= n; i++ {
		switch v := l.Get(i).(type) {
		case lua.LString:
			args = append(args, []byte(v))
		case lua.LNumber:
			args = append(args, []byte(formatArgument(v)))
		default:
			return nil, false
		}
	}
	e.run.args = args
	return args, true
}

// command is redis.call and, without raise, redis.pcall.
func (e *Engine) command(l *lua.LState, raise bool) int {
	if e.run == nil || e.run.host == nil {
		l.RaiseError("redis.call can only be called inside a script invocation")
	}
	if l.GetTop() == 0 {
		return e.fail(l, raise, "ERR Please specify at least one argument for this redis lib call", false)
	}
	args, ok := e.arguments(l)
	if !ok {
		return e.fail(l, raise, "ERR Lua redis lib command arguments must be strings or integers", false)
	}
	reply, err := e.run.host.Call(args, e.run.proto)
	if err != nil {
		e.hook.stop(err)
		l.RaiseError("%s", err.Error())
	}
	if len(reply) == 0 {
		return 0
	}
	if reply[0] == '-' {
		return e.fail(l, raise, string(reply[1:len(reply)-2]), true)
	}
	p := parser{l, reply}
	l.Push(p.value())
	return 1
}

func (e *Engine) digest(l *lua.LState) int {
	if l.GetTop() != 1 {
		return e.fail(l, true, "ERR wrong number of arguments", false)
	}
	s, _ := text(l.Get(1))
	l.Push(lua.LString(Digest([]byte(s))))
	return 1
}

func single(l *lua.LState) (string, bool) {
	s, ok := l.Get(1).(lua.LString)
	if l.GetTop() != 1 || !ok {
		t := l.NewTable()
		t.RawSetString("err", lua.LString("ERR wrong number or type of arguments"))
		l.Push(t)
		return "", false
	}
	return string(s), true
}

func redisErrorReply(l *lua.LState) int {
	s, ok := single(l)
	if !ok {
		return 1
	}
	code, rest, found := strings.Cut(strings.TrimPrefix(s, "-"), " ")
	switch {
	case !found && code == "":
		s = "ERR"
	case !found:
		s = "ERR " + code
	default:
		s = code + " " + rest
	}
	t := l.NewTable()
	t.RawSetString("err", lua.LString(strings.TrimRight(s, "\r\n")))
	l.Push(t)
	return 1
}

func redisStatusReply(l *lua.LState) int {
	s, ok := single(l)
	if !ok {
		return 1
	}
	t := l.NewTable()
	t.RawSetString("ok", lua.LString(s))
	l.Push(t)
	return 1
}

func (e *Engine) log(l *lua.LState) int {
	if l.GetTop() < 2 {
		return e.fail(l, true, "ERR redis.log() requires two arguments or more.", false)
	}
	level, ok := l.Get(1).(lua.LNumber)
	if !ok {
		return e.fail(l, true, "ERR First argument must be a number (log level).", false)
	}
	if level < LogDebug || level > LogWarning {
		return e.fail(l, true, "ERR Invalid debug level.", false)
	}
	var words []string
	for i := 2; i <= l.GetTop(); i++ {
		if s, ok := text(l.Get(i)); ok {
			words = append(words, s)
		}
	}
	if e.run != nil && e.run.host != nil {
		e.run.host.Log(int(level), strings.Join(words, " "))
	}
	return 0
}

func (e *Engine) setResp(l *lua.LState) int {
	if l.GetTop() != 1 {
		return e.fail(l, true, "ERR redis.setresp() requires one argument.", false)
	}
	n, ok := l.Get(1).(lua.LNumber)
	if !ok || n != 2 && n != 3 {
		return e.fail(l, true, "ERR RESP version must be 2 or 3.", false)
	}
	if e.run != nil {
		e.run.proto = int(n)
	}
	return 0
}

func (e *Engine) setRepl(l *lua.LState) int {
	n, ok := l.Get(1).(lua.LNumber)
	switch {
	case l.GetTop() != 1:
		return e.fail(l, true, "ERR redis.set_repl() requires one argument.", false)
	case !ok || n < 0 || n > 3:
		return e.fail(l, true, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.", false)
	}
	return 0
}

func (e *Engine) allowed(l *lua.LState) int {
	if l.GetTop() == 0 {
		return e.fail(l, true, "ERR Please specify at least one argument for this redis.acl_check_cmd() call", false)
	}
	args, ok := e.arguments(l)
	if !ok {
		return e.fail(l, true, "ERR redis.acl_check_cmd() command arguments must be strings or integers", false)
	}
	may, known := e.run.host.Allowed(args)
	if !known {
		return e.fail(l, true, "ERR Invalid command passed to redis.acl_check_cmd()", false)
	}
	l.Push(lua.LBool(may))
	return 1
}

func (e *Engine) register(l *lua.LState) int {
	if e.library == nil {
		l.RaiseError("redis.register_function can only be called on FUNCTION LOAD command")
	}
	f, err := functionOf(l)
	if err == nil {
		err = e.library.add(f)
	}
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	return 0
}

// functionOf reads the arguments of redis.register_function, by position or by name.
func functionOf(l *lua.LState) (*Function, error) {
	f := &Function{}
	switch l.GetTop() {
	case 1:
		t, ok := l.Get(1).(*lua.LTable)
		if !ok {
			return nil, errors.New("calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)")
		}
		return f, f.named(t)
	case 2:
	default:
		return nil, errors.New("wrong number of arguments to redis.register_function")
	}
	name, ok := l.Get(1).(lua.LString)
	if !ok {
		return nil, errors.New("first argument to redis.register_function must be a string")
	}
	call, ok := l.Get(2).(*lua.LFunction)
	if !ok {
		return nil, errors.New("second argument to redis.register_function must be a function")
	}
	f.Name, f.call = string(name), call
	return f, nil
}
