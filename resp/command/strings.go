package command

import "cvmstore/kvs"

// valueScratch is where MGET collects values.
type valueScratch []kvs.Value

func stringCommands() []Command {
	const read, write = ReadOnly, Write | DenyOOM
	const g = "string"
	return []Command{
		{Name: "get", Arity: 2, Flags: read | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Returns the string value of a key.", Handler: cmdGet},
		{Name: "set", Body: 2, Arity: -3, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Sets the string value of a key, with conditions and an expiry if asked for.", Handler: cmdSet},
		{Name: "setnx", Body: 2, Arity: 3, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Sets the string value of a key that does not exist.", Handler: cmdSetNX},
		{Name: "setex", Body: 3, Arity: 4, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Since: "2.0.0", Summary: "Sets a string value that expires after seconds.", Handler: cmdSetEX},
		{Name: "psetex", Body: 3, Arity: 4, Flags: write, Group: g, First: 1, Last: 1, Step: 1, Since: "2.6.0", Summary: "Sets a string value that expires after milliseconds.", Handler: cmdSetEX},
		{Name: "mget", Arity: -2, Flags: read | Fast, Group: g, First: 1, Last: -1, Step: 1, Since: "1.0.0", Summary: "Returns the string values of several keys.", Handler: cmdMGet},
		{Name: "mset", Arity: -3, Flags: write, Group: g, First: 1, Last: -1, Step: 2, Since: "1.0.1", Summary: "Sets several keys as one atomic batch.", Handler: cmdMSet},
		{Name: "msetnx", Arity: -3, Flags: write, Group: g, First: 1, Last: -1, Step: 2, Since: "1.0.1", Summary: "Sets several keys as one atomic batch if none of them exists.", Handler: cmdMSetNX},
		{Name: "getdel", Arity: 2, Flags: Write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "6.2.0", Summary: "Returns the string value of a key and deletes the key.", Handler: cmdGetDel},
		{Name: "getex", Arity: -2, Flags: Write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "6.2.0", Summary: "Returns the string value of a key and sets or removes its expiry.", Handler: cmdGetEx},
		{Name: "getset", Body: 2, Arity: 3, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Sets a string value and returns the one before.", Handler: cmdGetSet},
		{Name: "strlen", Arity: 2, Flags: read | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "2.2.0", Summary: "Returns the length of a string value.", Handler: cmdStrLen},
		{Name: "getrange", Arity: 4, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "2.4.0", Summary: "Returns a part of a string value.", Handler: cmdGetRange},
		{Name: "substr", Arity: 4, Flags: read, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Returns a part of a string value (the old name of GETRANGE).", Handler: cmdGetRange},
		{Name: "incr", Arity: 2, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Adds one to an integer value.", Handler: cmdIncr},
		{Name: "decr", Arity: 2, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Takes one from an integer value.", Handler: cmdDecr},
		{Name: "incrby", Arity: 3, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Adds a number to an integer value.", Handler: cmdIncrBy},
		{Name: "decrby", Arity: 3, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Takes a number from an integer value.", Handler: cmdDecrBy},
		{Name: "append", Body: 2, Arity: 3, Flags: write | Fast, Group: g, First: 1, Last: 1, Step: 1, Since: "2.0.0", Summary: "Appends to a string value.", Handler: cmdAppend},
	}
}

func cmdGet(c *Ctx) error {
	v, err := kvs.View(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	return c.value(c.Args[1], v)
}

func cmdSet(c *Ctx) error {
	var o kvs.SetOptions
	if len(c.Args) > 3 {
		opts, err := stringOptions(c.Args[3:], false)
		if err != nil {
			return err
		}
		o.NX, o.XX, o.KeepTTL = opts.nx, opts.xx, opts.keepTTL
		if opts.get {
			o.Before = c.answer
		}
		if opts.at != nil {
			if o.Expiry, err = opts.unit.positiveExpiry(c, opts.at); err != nil {
				return err
			}
		}
	}
	o.Body = c.Body
	res, err := kvs.Set(c.Tx, c.Args[1], c.Args[2], o)
	if err != nil {
		return err
	}
	switch {
	case o.Before != nil: // has answered
	case res.Set:
		c.Reply.OK()
	default:
		c.Reply.Null()
	}
	return nil
}

// options are what may follow SET key value and GETEX key.
type options struct {
	nx, xx, get, keepTTL, persist bool

	unit timeUnit
	at   []byte // the expiry as written; nil: none
}

// stringOptions parses the options of SET, or of GETEX (getex). The expiry itself is looked at later, as Redis does: a syntax
// error comes first. The same option may stand twice, the last one counts.
func stringOptions(args [][]byte, getex bool) (o options, err error) {
	for i := 0; i < len(args); i++ {
		unit, timed := expiryOption(args[i])
		switch {
		case !getex && equalFold(args[i], "nx") && !o.xx:
			o.nx = true
		case !getex && equalFold(args[i], "xx") && !o.nx:
			o.xx = true
		case !getex && equalFold(args[i], "get"):
			o.get = true
		case !getex && equalFold(args[i], "keepttl") && o.at == nil:
			o.keepTTL = true
		case getex && equalFold(args[i], "persist") && o.at == nil:
			o.persist = true
		case timed && !o.keepTTL && !o.persist && (o.at == nil || o.unit == unit) && i+1 < len(args):
			i++
			o.unit, o.at = unit, args[i]
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func expiryOption(arg []byte) (timeUnit, bool) {
	switch {
	case equalFold(arg, "ex"):
		return unitEX, true
	case equalFold(arg, "px"):
		return unitPX, true
	case equalFold(arg, "exat"):
		return unitEXAT, true
	case equalFold(arg, "pxat"):
		return unitPXAT, true
	}
	return timeUnit{}, false
}

func cmdSetNX(c *Ctx) error {
	res, err := kvs.Set(c.Tx, c.Args[1], c.Args[2], kvs.SetOptions{NX: true, Body: c.Body})
	if err != nil {
		return err
	}
	c.Reply.Int(boolInt(res.Set))
	return nil
}

func cmdSetEX(c *Ctx) error {
	unit := unitEX
	if c.Cmd.Name == "psetex" {
		unit = unitPX
	}
	at, err := unit.positiveExpiry(c, c.Args[2])
	if err != nil {
		return err
	}
	if _, err := kvs.Set(c.Tx, c.Args[1], c.Args[3], kvs.SetOptions{Expiry: at, Body: c.Body}); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdMGet(c *Ctx) error {
	keys := c.Args[1:]
	for len(c.values) < len(keys) {
		c.values = append(c.values, kvs.Value{})
	}
	out := c.values[:len(keys)]
	defer clear(out)
	if err := kvs.MGet(c.Tx, keys, out); err != nil {
		return err
	}
	var miss error
	for i := range out { // small ones are loaded all at once, before the reply begins
		if err := c.inMemory(&out[i]); err != nil {
			miss = err
		}
	}
	if miss != nil {
		return miss
	}
	c.Reply.Array(len(out))
	for i := range out {
		if err := c.value(keys[i], out[i]); err != nil {
			return err
		}
	}
	return nil
}

func cmdMSet(c *Ctx) error {
	if len(c.Args)%2 == 0 {
		return wrongArity(c.Cmd.Name)
	}
	if err := kvs.MSet(c.Tx, c.Args[1:]); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdMSetNX(c *Ctx) error {
	if len(c.Args)%2 == 0 {
		return wrongArity(c.Cmd.Name)
	}
	set, err := kvs.MSetNX(c.Tx, c.Args[1:])
	if err != nil {
		return err
	}
	c.Reply.Int(boolInt(set))
	return nil
}

func cmdGetDel(c *Ctx) error {
	return kvs.TakeDel(c.Tx, c.Args[1], c.answer)
}

// answer is a kvs.Before: it answers with the value that the command finds. If the command fails after all, the reply is dropped.
func (c *Ctx) answer(old kvs.Value) error { return c.value(c.Args[1], old) }

func cmdGetEx(c *Ctx) error {
	opts, err := stringOptions(c.Args[2:], true)
	if err != nil {
		return err
	}
	o := kvs.GetExOptions{Persist: opts.persist}
	if opts.at != nil {
		// An absent key is answered before the expiry is looked at.
		if v, err := kvs.View(c.Tx, c.Args[1]); err != nil || !v.OK {
			c.Reply.Null()
			return err
		}
		o.Expire = true
		if o.Expiry, err = opts.unit.positiveExpiry(c, opts.at); err != nil {
			return err
		}
	}
	return kvs.GetEx(c.Tx, c.Args[1], o, c.answer)
}

func cmdGetSet(c *Ctx) error {
	_, err := kvs.Set(c.Tx, c.Args[1], c.Args[2], kvs.SetOptions{Before: c.answer, Body: c.Body})
	return err
}

func cmdStrLen(c *Ctx) error {
	n, err := kvs.StrLen(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Int(int64(n))
	return nil
}

func cmdGetRange(c *Ctx) error {
	start, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	end, err := parseInt(c.Args[3])
	if err != nil {
		return err
	}
	v, err := kvs.ViewRange(c.Tx, c.Args[1], start, end)
	if err != nil {
		return err
	}
	v.OK = true
	return c.value(c.Args[1], v)
}

func cmdAppend(c *Ctx) error {
	n, err := 0, error(nil)
	if c.Body != nil {
		n, err = kvs.AppendBody(c.Tx, c.Args[1], c.Body)
	} else {
		n, err = kvs.Append(c.Tx, c.Args[1], c.Args[2])
	}
	if err != nil {
		return err
	}
	c.Reply.Int(int64(n))
	return nil
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
