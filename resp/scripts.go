package resp

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/resp/command"
	"cvmstore/resp/script"
	"cvmstore/volume"
)

// Scripts and functions. One runs at a time, on the loop of the client that called it, with all keys locked and no other loop at
// work, as in Redis, where there is one thread. Its commands are executed like those of EXEC (scripthost.go), and what they change
// is one batch. While it runs for long, loops answer clients that it does (aside.go).

// scripts is what all loops share of it.
type scripts struct {
	holder atomic.Int32 // number of the loop whose turn it is, from 1; 0: nobody's
	free   chan struct{}
	freeMu sync.Mutex

	// Of the loop whose turn it is.
	engine  *script.Engine
	funcs   functions
	flushed atomic.Bool // the engine's compiled scripts are to be forgotten

	running  atomic.Pointer[running]
	mayDebug atomic.Bool // DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call DEBUG

	mu    sync.Mutex
	cache map[string]cachedScript // by digest
	bytes int64
}

type cachedScript struct {
	body  string // without the line of flags
	flags script.Flags
	size  int64
}

// running is the script or function that runs.
type running struct {
	name     string
	function bool
	args     [][]byte
	since    int64       // monotonic nanoseconds
	slow     atomic.Bool // others are told of it
	wrote    atomic.Bool
	kill     atomic.Bool
}

const (
	// scriptBytesMax bounds the scripts that are known, scriptsMax their number: beyond, all are forgotten.
	scriptBytesMax = 256 << 20
	scriptsMax     = 100000

	// turnWait bounds how long a script waits for the other loops to end their rounds.
	turnWait = 100 * time.Millisecond
)

func (x *scripts) open(s *Server) error {
	x.cache = map[string]cachedScript{}
	x.engine = script.New(script.Options{Version: command.RedisVersion})
	return x.funcs.open(s, x.engine)
}

// takeTurn makes sure that no other loop is at work. volume.ErrBusy: not now.
func (l *loop) takeTurn() error {
	x := &l.srv.scripts
	if len(l.srv.loops) == 1 {
		return nil
	}
	if !x.holder.CompareAndSwap(0, int32(l.num)+1) {
		return fmt.Errorf("another script runs: %w", volume.ErrBusy)
	}
	x.freeMu.Lock()
	x.free = make(chan struct{})
	x.freeMu.Unlock()
	until := nanos() + int64(turnWait)
	for _, other := range l.srv.loops {
		for other != l && other.inRound.Load() {
			if nanos() > until { // it may wait for this one (DEBUG RELOAD)
				l.leaveTurn()
				return fmt.Errorf("another loop is busy: %w", volume.ErrBusy)
			}
			time.Sleep(20 * time.Microsecond)
		}
	}
	return nil
}

func (l *loop) leaveTurn() {
	x := &l.srv.scripts
	if len(l.srv.loops) == 1 {
		return
	}
	x.freeMu.Lock()
	x.holder.Store(0)
	close(x.free)
	x.freeMu.Unlock()
}

// enterRound waits, before the loop looks at anything, until no other loop runs a script. If that takes long, clients are told.
func (l *loop) enterRound() {
	x := &l.srv.scripts
	if len(l.srv.loops) == 1 {
		return
	}
	for {
		l.inRound.Store(true)
		h := x.holder.Load()
		if h == 0 || h == int32(l.num)+1 {
			return
		}
		l.inRound.Store(false)
		x.freeMu.Lock()
		free := x.free
		x.freeMu.Unlock()
		if r := x.running.Load(); r != nil && r.slow.Load() {
			l.answerAside(5 * time.Millisecond)
			continue
		}
		if free == nil {
			continue
		}
		pause := time.NewTimer(5 * time.Millisecond)
		select {
		case <-free:
		case <-pause.C:
		}
		pause.Stop()
	}
}

const (
	errNoScript    = command.Error("NOSCRIPT No matching script. Please use EVAL.")
	errNotBusy     = command.Error("NOTBUSY No scripts in execution right now.")
	errUnkillable  = command.Error("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.")
	errBusyScript  = command.Error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
	errBusyFunc    = command.Error("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.")
	errKilled      = command.Error("ERR Error running script: Script killed by user with SCRIPT KILL.")
	errKilledFunc  = command.Error("ERR Error running script: Script killed by user with FUNCTION KILL.")
	errStopped     = command.Error("ERR Error running script: the server stops")
	errScriptWrite = command.Error("ERR Can not execute a script with write flag using *_ro command.")
	errScriptOOM   = command.Error("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
	errNoFunction  = command.Error("ERR Function not found")
)

func (r *running) busy() error {
	if r.function {
		return errBusyFunc
	}
	return errBusyScript
}

// whileBusy are the commands that are executed while a script runs for long: they touch no data.
var whileBusy = map[string]bool{
	"auth": true, "hello": true, "quit": true, "reset": true, "multi": true, "discard": true, "shutdown": true,
	"script|kill": true, "function|kill": true, "function|stats": true,
}

// refuses says whether a command cannot be executed while a script runs.
func (x *scripts) refuses(cmd *command.Command) error {
	if r := x.running.Load(); r != nil && !whileBusy[cmd.Full()] {
		return r.busy()
	}
	return nil
}

// keep makes a script known.
func (x *scripts) keep(body []byte) (digest string, c cachedScript, err error) {
	digest = script.Digest(body)
	x.mu.Lock()
	defer x.mu.Unlock()
	if c, ok := x.cache[digest]; ok {
		return digest, c, nil
	}
	flags, code, err := script.Shebang(string(body))
	if err != nil {
		return "", c, err
	}
	if err := script.Check(code); err != nil {
		return "", c, command.Error("ERR Error compiling script (new function): " + err.Error())
	}
	c = cachedScript{code, flags, int64(len(body)) + 128}
	if x.bytes+c.size > scriptBytesMax || len(x.cache) >= scriptsMax {
		x.flushLocked()
	}
	x.cache[digest] = c
	x.bytes += c.size
	return digest, c, nil
}

func (x *scripts) flushLocked() {
	clear(x.cache)
	x.bytes = 0
	x.flushed.Store(true)
}

func (v *view) LoadScript(body []byte) (string, error) {
	digest, _, err := v.s.scripts.keep(body)
	return digest, err
}

func (x *scripts) known(digest []byte) (string, cachedScript, bool) {
	name := string(lower(digest))
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.cache[name]
	return name, c, ok
}

func lower(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		out[i] = c
	}
	return out
}

func (v *view) HasScript(digest []byte) bool {
	_, _, ok := v.s.scripts.known(digest)
	return ok
}

func (v *view) FlushScripts() {
	x := &v.s.scripts
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flushLocked()
}

func (v *view) KillScript(function bool) error {
	r := v.s.scripts.running.Load()
	switch {
	case r == nil:
		return errNotBusy
	case r.function != function:
		return r.busy()
	case r.wrote.Load():
		return errUnkillable
	}
	r.kill.Store(true)
	return nil
}

// ScriptsMayDebug implements command.Scripts.
func (v *view) ScriptsMayDebug(may bool) { v.s.scripts.mayDebug.Store(may) }

func (v *view) ScriptFigures() (cached, libraries, funcs int, bytes int64) {
	x := &v.s.scripts
	st := x.funcs.stats.Load()
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.cache), int(st >> 32), int(st & 0xffffffff), x.bytes
}

// Eval runs a script or function.
func (v *view) Eval(c *command.Ctx, o command.EvalOptions) error {
	if c.Rehearsal {
		return nil // what it needs shows when it runs
	}
	l, x := v.l, &v.s.scripts
	h := &scriptHost{l: l, s: v.session(c.S), c: c}
	var f *script.Function
	var code cachedScript
	var err error
	name, known := "", true
	switch {
	case o.Function != nil:
		if f = x.funcs.find(c.Tx, string(o.Function)); f == nil {
			return errNoFunction
		}
		name, code.flags = f.Name, f.Flags|script.Declared
	case o.Digest != nil:
		if name, code, known = x.known(o.Digest); !known {
			return errNoScript
		}
	default:
		if name, code, err = x.keep(o.Body); err != nil {
			return err
		}
	}
	if err := h.admit(code.flags, o.ReadOnly); err != nil {
		return err
	}
	h.info = &running{name: name, function: f != nil, args: c.Args, since: l.now}
	out := &script.Reply{Buf: c.Reply.Buf, Proto: c.Reply.Proto}
	h.begin()
	defer h.end()
	if x.flushed.Swap(false) {
		x.engine.Flush()
	}
	if f != nil {
		err = x.engine.Call(h, f, o.Keys, o.Args, out, l.config.LuaMemory)
	} else {
		err = x.engine.Eval(h, name, code.body, o.Keys, o.Args, out, l.config.LuaMemory)
	}
	return h.result(out, err)
}

// result takes what came out of a script.
func (h *scriptHost) result(out *script.Reply, err error) error {
	if err != nil {
		return err
	}
	if !out.Failed {
		h.c.Reply.Buf = out.Buf
		return nil
	}
	if out.Quiet || h.failed {
		return counted{command.Error(out.Error)}
	}
	return command.Error(out.Error)
}

// counted is an error that the statistics of errors have already.
type counted struct{ err command.Error }

func (e counted) Error() string { return e.err.Error() }
func (e counted) Unwrap() error { return e.err }

// isCounted reports whether an error was counted when a script's command failed.
func isCounted(err error) bool {
	var c counted
	return errors.As(err, &c)
}

// scriptWrites says whether a script may write, as far as can be told before it runs: for CLIENT PAUSE.
func (l *loop) scriptWrites(c *command.Ctx) bool {
	if c.Cmd.Flags&command.ReadOnly != 0 {
		return false
	}
	x := &l.srv.scripts
	var flags script.Flags
	switch c.Cmd.Name {
	case "eval":
		flags, _, _ = script.Shebang(string(c.Args[1]))
	case "evalsha":
		_, s, _ := x.known(c.Args[1])
		flags = s.flags
	case "fcall":
		flags = x.funcs.flagsOf(string(c.Args[1]))
	default:
		return c.Cmd.Flags&command.Write != 0
	}
	return flags&script.NoWrites == 0
}

// scriptEnded publishes what a script that was no part of EXEC has published.
func (l *loop) scriptEnded(s *session, err error) {
	m := s.multi
	if m == nil || m.open {
		return
	}
	messages := m.messages
	m.messages = nil
	if len(m.watches) == 0 {
		s.multi = nil
	}
	if miss, busy := command.Retry(err); miss || busy {
		return
	}
	for _, p := range messages {
		p.seen = max(l.tx.Seen(), s.lastSeen)
		if s.tx != nil {
			p.seen = max(p.seen, s.tx.Seen())
		}
		l.publish(p)
	}
}
