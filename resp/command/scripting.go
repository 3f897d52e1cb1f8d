package command

// Scripts is the part of Server that scripts and functions need.
type Scripts interface {
	// Eval runs a script, or with sha the one of that digest.
	Eval(c *Ctx, o EvalOptions) error
	// LoadScript keeps a script and returns its digest.
	LoadScript(body []byte) (digest string, err error)
	HasScript(digest []byte) bool
	FlushScripts()
	// KillScript ends the script, or the function, that runs.
	KillScript(function bool) error
	// Functions does what FUNCTION asks for.
	Functions() Functions
	// ScriptsMayDebug lets scripts call DEBUG: for tests.
	ScriptsMayDebug(may bool)
	// ScriptFigures are for INFO.
	ScriptFigures() (cached, libraries, functions int, bytes int64)
}

// EvalOptions say what is to be run.
type EvalOptions struct {
	Body     []byte // the script's text
	Digest   []byte // or its digest
	Function []byte // or a function's name
	Keys     [][]byte
	Args     [][]byte
	ReadOnly bool
}

func scriptCommands() []Command {
	const g = "scripting"
	const f = NoScript | Stale
	eval := func(name, since, summary string, more Flag, of func(c *Ctx, arg []byte) EvalOptions) Command {
		return Command{
			Name: name, Arity: -3, Flags: f | more, Group: g, Locks: LockScript, Since: since, Summary: summary, Movable: evalKeys,
			Handler: func(c *Ctx) error {
				o := of(c, c.Args[1])
				var err error
				if o.Keys, o.Args, err = evalArgs(c.Args, o.Function != nil); err != nil {
					return err
				}
				o.ReadOnly = more&ReadOnly != 0
				return c.Srv.Eval(c, o)
			},
		}
	}
	body := func(_ *Ctx, a []byte) EvalOptions { return EvalOptions{Body: a} }
	digest := func(_ *Ctx, a []byte) EvalOptions { return EvalOptions{Digest: a} }
	function := func(_ *Ctx, a []byte) EvalOptions { return EvalOptions{Function: a} }
	const quick = NoScript | NoLevel
	return []Command{
		eval("eval", "2.6.0", "Runs a Lua script.", 0, body),
		eval("evalsha", "2.6.0", "Runs a script that is known, by its digest.", 0, digest),
		eval("eval_ro", "7.0.0", "Runs a Lua script that changes nothing.", ReadOnly, body),
		eval("evalsha_ro", "7.0.0", "Runs a known script that changes nothing.", ReadOnly, digest),
		eval("fcall", "7.0.0", "Calls a function.", 0, function),
		eval("fcall_ro", "7.0.0", "Calls a function that changes nothing.", ReadOnly, function),
		{Name: "script", Arity: -2, Group: g, Since: "2.6.0", Summary: "Commands about scripts.", Subs: []Command{
			{Name: "load", Arity: 3, Flags: quick | Stale, Group: g, Since: "2.6.0", Summary: "Makes a script known.", Handler: scriptLoad},
			{Name: "exists", Arity: -3, Flags: quick, Group: g, Since: "2.6.0", Summary: "Says which digests are known.", Handler: scriptExists},
			{Name: "flush", Arity: -2, Flags: quick, Group: g, Since: "2.6.0", Summary: "Forgets all scripts.", Handler: scriptFlush},
			{Name: "kill", Arity: 2, Flags: quick, Group: g, Since: "2.6.0", Summary: "Ends the script that runs.", Handler: scriptKill(false)},
			{Name: "debug", Arity: 3, Flags: quick, Group: g, Since: "3.2.0", Summary: "There is no debugger.", Handler: scriptDebug},
		}},
	}
}

// evalArgs splits the arguments behind the script into keys and others.
func evalArgs(args [][]byte, function bool) (keys, rest [][]byte, err error) {
	n, err := parseInt(args[2])
	switch {
	case err != nil && function:
		return nil, nil, Error("ERR Bad number of keys provided")
	case err != nil:
		return nil, nil, err
	case n > int64(len(args)-3):
		return nil, nil, Error("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return nil, nil, Error("ERR Number of keys can't be negative")
	}
	return args[3 : 3+n], args[3+n:], nil
}

func evalKeys(args [][]byte) [][]byte {
	keys, _, _ := evalArgs(args, false)
	return keys
}

func scriptLoad(c *Ctx) error {
	digest, err := c.Srv.LoadScript(c.Args[2])
	if err != nil {
		return err
	}
	c.Reply.String(digest)
	return nil
}

func scriptExists(c *Ctx) error {
	c.Reply.Array(len(c.Args) - 2)
	for _, d := range c.Args[2:] {
		c.Reply.Int(boolInt(c.Srv.HasScript(d)))
	}
	return nil
}

func scriptFlush(c *Ctx) error {
	if len(c.Args) > 3 || len(c.Args) == 3 && !equalFold(c.Args[2], "sync") && !equalFold(c.Args[2], "async") {
		return Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.Srv.FlushScripts()
	c.Reply.OK()
	return nil
}

func scriptKill(function bool) func(*Ctx) error {
	return func(c *Ctx) error {
		if err := c.Srv.KillScript(function); err != nil {
			return err
		}
		c.Reply.OK()
		return nil
	}
}

func scriptDebug(c *Ctx) error {
	if equalFold(c.Args[2], "no") {
		c.Reply.OK()
		return nil
	}
	return Error("ERR the script debugger is not offered")
}
