package resp

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/resp/acl"
	"cvmstore/resp/command"
	"cvmstore/resp/script"
)

// scriptHost executes the commands of one run of a script, in the transaction of the command that runs it.
type scriptHost struct {
	l      *loop
	s      *session
	c      *command.Ctx
	outer  command.Ctx
	shadow command.Session // what the script does to its connection ends with it
	info   *running
	flags  script.Flags
	ro     bool
	oom    bool // there is too little memory, as of the beginning
	failed bool // the last command failed, and was counted
	looked int64
	buf    []byte
}

// scriptReruns is how often a script is run again because it needs a value from the device; after that, such values are read while
// everything is locked.
const scriptReruns = 4

// admit decides by its flags whether a script may run.
func (h *scriptHost) admit(flags script.Flags, ro bool) error {
	h.flags, h.ro = flags, ro || flags&script.NoWrites != 0
	h.oom = errors.Is(h.l.makeRoom(), errOOM)
	if flags&script.Declared == 0 {
		return nil
	}
	if ro && flags&script.NoWrites == 0 {
		return errScriptWrite
	}
	if h.oom && flags&(script.AllowOOM|script.NoWrites) == 0 {
		return errScriptOOM
	}
	return nil
}

func (h *scriptHost) begin() {
	h.outer, h.shadow = *h.c, h.s.Session
	h.c.S = &h.shadow
	if h.s.misses >= scriptReruns {
		_ = h.c.Tx.Here() // a volume that takes no batch now lets it be run again
	}
	if !h.outer.Multi {
		h.l.called = nil
	}
	h.l.srv.scripts.running.Store(h.info)
}

func (h *scriptHost) end() {
	c, buf, depends := h.c, h.c.Reply.Buf, h.c.Depends
	multi := h.outer.Multi
	*c = h.outer
	c.Reply.Buf, c.Depends, c.Multi = buf, max(depends, c.Depends), multi
	h.l.srv.scripts.running.Store(nil)
	h.l.now = max(h.l.now, h.looked)
}

const (
	errScriptUnknown = command.Error("ERR Unknown Redis command called from script")
	errScriptArity   = command.Error("ERR Wrong number of args calling Redis command from script")
	errScriptDenied  = command.Error("ERR This Redis command is not allowed from script")
	errScriptRO      = command.Error("ERR Write commands are not allowed from read-only scripts.")
)

// Call implements script.Host.
func (h *scriptHost) Call(args [][]byte, proto int) ([]byte, error) {
	c, l := h.c, h.l
	h.failed = false
	cmd, err := h.allow(args)
	if err != nil {
		if cmd != nil {
			bump(&l.stats.perCommand[cmd.Index].rejected, 1)
		}
		return h.refused(err), nil
	}
	l.now = nanos()
	q := &queued{cmd: cmd, args: args}
	outer := c.Reply
	c.Reply = command.Reply{Buf: h.buf[:0], Proto: proto}
	l.enter(c, q)
	c.Multi, c.Script = true, true
	if cmd.Flags&command.Blocking == 0 {
		c.Resume = command.ResumeNone
	}
	misses := l.tellsOfMisses(cmd)
	c.Tx.NoteAbsent(misses)
	err = cmd.Handler(c)
	if misses {
		h.s.transaction().noteMisses(c)
	}
	if err == nil && len(c.Reply.Blobs) > 0 {
		err = command.Error("ERR a value of this size cannot be read by a script")
	}
	if h.s.Tracking.On {
		l.remember(h.s, c)
	}
	if c.Tx.HasChanged() {
		h.info.wrote.Store(true)
	}
	c.Reply.Cut(len(c.Reply.Buf))
	reply := c.Reply.Buf
	for _, b := range c.Reply.Blobs {
		b.Blob.Release(0)
	}
	c.Reply = outer
	if miss, busy := command.Retry(err); (miss || busy) && !c.Tx.HasChanged() {
		return nil, err
	}
	l.count(cmd, err)
	if l.srv.monitors.Load() > 0 && cmd.Flags&command.Admin == 0 {
		shown := h.shadow
		shown.Addr = "lua"
		l.called = append(l.called, command.AppendMonitor(nil, time.Now(), &shown, cmd, args))
	}
	if err != nil {
		return h.refused(err), nil
	}
	h.buf = reply
	return reply, nil
}

// refused is the reply of a command that failed. It counts as an error now, not once more when the script ends with it.
func (h *scriptHost) refused(err error) []byte {
	text := command.Text(err)
	h.failed = true
	bump(&h.l.stats.errors, 1)
	h.l.srv.errors.add(text)
	r := command.Reply{Buf: h.buf[:0]}
	r.Error(text)
	h.buf = r.Buf
	return r.Buf
}

// allow looks a command up, and decides whether a script may call it now.
func (h *scriptHost) allow(args [][]byte) (*command.Command, error) {
	cmd, err := command.Lookup(args)
	switch {
	case cmd == nil:
		return nil, errScriptUnknown
	case err != nil:
		return cmd, errScriptArity
	case cmd.Container() == "debug" && cmd.Name != "reload" && cmd.Name != "loadaof" && h.l.srv.scripts.mayDebug.Load():
		return cmd, nil
	case cmd.Flags&(command.NoScript|command.NoMulti) != 0 || cmd.Flags&command.Early != 0 && cmd.Name != "info" || cmd.Locks == command.LockScript:
		return cmd, errScriptDenied
	case blocks(cmd, args):
		return cmd, command.Error("ERR " + cmd.Name + " command is not allowed with BLOCK option from scripts")
	case (cmd.Flags&command.Write != 0 || leaves[cmd.Name]) && h.ro:
		return cmd, errScriptRO
	case cmd.Flags&command.DenyOOM != 0 && h.oom && h.flags&script.AllowOOM == 0 && !h.info.wrote.Load():
		return cmd, errOOM
	}
	if err := h.l.permits(h.s, cmd, args, "lua"); err != nil {
		return cmd, command.Error("NOPERM ACL failure in script: " + strings.TrimPrefix(err.Error(), "NOPERM "))
	}
	return cmd, nil
}

// blocks reports whether a command that reads streams asks to wait for more.
func blocks(cmd *command.Command, args [][]byte) bool {
	if cmd.Name != "xread" && cmd.Name != "xreadgroup" {
		return false
	}
	for _, a := range args {
		switch strings.ToLower(string(a)) {
		case "block":
			return true
		case "streams":
			return false
		}
	}
	return false
}

// leaves are commands that change no key, but that a script which changes nothing must not call, as in Redis.
var leaves = map[string]bool{"publish": true, "spublish": true, "pfcount": true}

// Allowed implements script.Host.
func (h *scriptHost) Allowed(args [][]byte) (may, known bool) {
	cmd, err := command.Lookup(args)
	if cmd == nil || err != nil {
		return false, false
	}
	user := h.l.user(h.s)
	if user == nil {
		return false, true
	}
	denial, _ := command.Permitted(user, cmd, args)
	return denial == acl.Allowed, true
}

// Log implements script.Host.
func (h *scriptHost) Log(level int, text string) {
	levels := [...]zerolog.Level{zerolog.DebugLevel, zerolog.DebugLevel, zerolog.InfoLevel, zerolog.WarnLevel}
	h.l.srv.log.WithLevel(levels[level]).Str("text", text[:min(len(text), 1024)]).Msg("a script says")
}

// Tick implements script.Host: a script that runs for long lets the loop answer its clients.
func (h *scriptHost) Tick() error {
	l, now := h.l, nanos()
	limit := l.config.LuaTimeLimit * int64(time.Millisecond)
	switch {
	case l.srv.stopping.Load():
		return h.giveUp()
	case limit == 0 || now-h.info.since < limit || now-h.looked < int64(time.Millisecond):
		return nil
	}
	h.looked = now
	if !h.info.slow.Load() {
		args := make([][]byte, len(h.info.args))
		for i, a := range h.info.args {
			args[i] = bytes.Clone(a) // others may look at them when it has ended
		}
		h.info.args = args
		h.info.slow.Store(true)
		l.srv.log.Warn().Str("script", h.info.name[:min(len(h.info.name), 64)]).Int64("milliseconds", (now-h.info.since)/1e6).Msg("a script runs for long: clients are answered BUSY")
	}
	l.answerAside(0)
	switch {
	case h.info.kill.Load() && !h.info.wrote.Load() && h.info.function:
		return errKilledFunc
	case h.info.kill.Load() && !h.info.wrote.Load():
		return errKilled
	}
	return nil
}

// giveUp ends a script because the server stops. One that has written must not leave half of it: the volume takes no more.
func (h *scriptHost) giveUp() error {
	if h.info.wrote.Load() {
		h.c.Tx.Abandon(errors.New("a script that had written was stopped"))
	}
	return errStopped
}
