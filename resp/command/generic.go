package command

import (
	"strconv"
	"strings"

	"cvmstore/keyspace"
)

func genericCommands() []Command {
	const g = "generic"
	const key = 1
	return []Command{
		{Name: "del", Arity: -2, Flags: Write, Group: g, First: key, Last: -1, Step: 1, Since: "1.0.0", Summary: "Deletes keys.", Handler: cmdDel},
		{Name: "unlink", Arity: -2, Flags: Write | Fast, Group: g, First: key, Last: -1, Step: 1, Since: "4.0.0", Summary: "Deletes keys.", Handler: cmdDel},
		{Name: "exists", Arity: -2, Flags: ReadOnly | Fast, Group: g, First: key, Last: -1, Step: 1, Since: "1.0.0", Summary: "Counts which of the keys exist.", Handler: cmdExists},
		{Name: "touch", Arity: -2, Flags: ReadOnly | Fast, Group: g, First: key, Last: -1, Step: 1, Since: "3.2.1", Summary: "Counts which of the keys exist, and marks them as used.", Handler: cmdTouch},
		{Name: "type", Arity: 2, Flags: ReadOnly | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "1.0.0", Summary: "Names the type of a key's value.", Handler: cmdType},
		{Name: "expire", Arity: -3, Flags: Write | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "1.0.0", Summary: "Makes a key expire after seconds.", Handler: expireHandler(unitEX)},
		{Name: "pexpire", Arity: -3, Flags: Write | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "2.6.0", Summary: "Makes a key expire after milliseconds.", Handler: expireHandler(unitPX)},
		{Name: "expireat", Arity: -3, Flags: Write | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "1.2.0", Summary: "Makes a key expire at a time in seconds.", Handler: expireHandler(unitEXAT)},
		{Name: "pexpireat", Arity: -3, Flags: Write | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "2.6.0", Summary: "Makes a key expire at a time in milliseconds.", Handler: expireHandler(unitPXAT)},
		{Name: "ttl", Arity: 2, Flags: ReadOnly | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "1.0.0", Summary: "Returns the seconds until a key expires.", Handler: ttlHandler(unitEX)},
		{Name: "pttl", Arity: 2, Flags: ReadOnly | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "2.6.0", Summary: "Returns the milliseconds until a key expires.", Handler: ttlHandler(unitPX)},
		{Name: "expiretime", Arity: 2, Flags: ReadOnly | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "7.0.0", Summary: "Returns the time in seconds at which a key expires.", Handler: ttlHandler(unitEXAT)},
		{Name: "pexpiretime", Arity: 2, Flags: ReadOnly | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "7.0.0", Summary: "Returns the time in milliseconds at which a key expires.", Handler: ttlHandler(unitPXAT)},
		{Name: "persist", Arity: 2, Flags: Write | Fast, Group: g, First: key, Last: 1, Step: 1, Since: "2.2.0", Summary: "Removes a key's expiry.", Handler: cmdPersist},
		{Name: "randomkey", Arity: 1, Flags: ReadOnly, Group: g, Locks: LockAll, Since: "1.0.0", Summary: "Returns some key of the database.", Handler: cmdRandomKey},
		{Name: "scan", Arity: -2, Flags: ReadOnly, Group: g, Locks: LockSelf, Since: "2.8.0", Summary: "Goes through the keys of the database in steps.", Handler: cmdScan},
		{Name: "keys", Arity: 2, Flags: ReadOnly | Dangerous, Group: g, Locks: LockAll, Since: "1.0.0", Summary: "Lists all keys that match a pattern.", Handler: cmdKeys},
	}
}

func cmdDel(c *Ctx) error {
	n, err := c.Tx.Del(c.Args[1:])
	return intReply(c, int64(n), err)
}

func cmdExists(c *Ctx) error {
	n, err := c.Tx.Exists(c.Args[1:])
	return intReply(c, int64(n), err)
}

func cmdTouch(c *Ctx) error {
	n, err := c.Tx.Touch(c.Args[1:])
	return intReply(c, int64(n), err)
}

func intReply(c *Ctx, n int64, err error) error {
	if err != nil {
		return err
	}
	c.Reply.Int(n)
	return nil
}

func cmdType(c *Ctx) error {
	name, err := c.Tx.TypeName(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Simple(name)
	return nil
}

func expireHandler(unit timeUnit) func(*Ctx) error {
	return func(c *Ctx) error {
		cond, err := expireCondition(c.Args[3:])
		if err != nil {
			return err
		}
		n, err := parseInt(c.Args[2])
		if err != nil {
			return err
		}
		at, ok := unit.expiry(n, c.Tx.Now())
		if !ok {
			return invalidExpire(c)
		}
		set, err := c.Tx.Expire(c.Args[1], at, cond)
		return intReply(c, boolInt(set), err)
	}
}

func expireCondition(args [][]byte) (cond keyspace.ExpireCond, err error) {
	for _, a := range args {
		switch {
		case equalFold(a, "nx"):
			cond |= keyspace.ExpireNX
		case equalFold(a, "xx"):
			cond |= keyspace.ExpireXX
		case equalFold(a, "gt"):
			cond |= keyspace.ExpireGT
		case equalFold(a, "lt"):
			cond |= keyspace.ExpireLT
		default:
			return 0, Error("ERR Unsupported option " + clip(a, 128))
		}
	}
	if cond&keyspace.ExpireNX != 0 && cond != keyspace.ExpireNX {
		return 0, Error("ERR NX and XX, GT or LT options at the same time are not compatible")
	}
	if cond&keyspace.ExpireGT != 0 && cond&keyspace.ExpireLT != 0 {
		return 0, Error("ERR GT and LT options at the same time are not compatible")
	}
	return cond, nil
}

func ttlHandler(unit timeUnit) func(*Ctx) error {
	return func(c *Ctx) error {
		at, found, err := c.Tx.Expiry(c.Args[1])
		if err != nil {
			return err
		}
		switch {
		case !found:
			c.Reply.Int(-2)
		case at == 0:
			c.Reply.Int(-1)
		default:
			if !unit.absolute {
				at = max(at-c.Tx.Now(), 0)
			}
			if unit.seconds {
				at = int64((uint64(at) + 500) / 1000) // the latest time there is must not wrap
			}
			c.Reply.Int(at)
		}
		return nil
	}
}

func cmdPersist(c *Ctx) error {
	done, err := c.Tx.Persist(c.Args[1])
	return intReply(c, boolInt(done), err)
}

func cmdRandomKey(c *Ctx) error {
	key, ok, err := c.Tx.RandomKey()
	if err != nil {
		return err
	}
	c.Reply.BulkOrNull(key, ok)
	return nil
}

func cmdScan(c *Ctx) error {
	return scanReply(c, func(cursor uint64, emit func([]byte)) (uint64, error) {
		o, err := scanOptions(c.Args[2:])
		if err != nil {
			return 0, err
		}
		return c.Space.Scan(c.Tx, c.S.DB, cursor, o, emit)
	})
}

func scanReply(c *Ctx, scan func(cursor uint64, emit func([]byte)) (uint64, error)) error {
	cursor, err := parseCursor(string(c.Args[1]))
	if err != nil {
		return err
	}
	// The number of keys and the next cursor stand before the keys, so the keys are collected behind and then moved.
	start, n := len(c.Reply.Buf), 0
	next, err := scan(cursor, func(key []byte) {
		n++
		c.Reply.Bulk(key)
	})
	if err != nil {
		return err
	}
	keys := append([]byte(nil), c.Reply.Buf[start:]...)
	c.Reply.Buf = c.Reply.Buf[:start]
	c.Reply.Array(2)
	c.Reply.String(strconv.FormatUint(next, 10))
	c.Reply.Array(n)
	c.Reply.Buf = append(c.Reply.Buf, keys...)
	return nil
}

// parseCursor takes what C's strtoul takes without blanks: a sign is allowed, a negative number wraps.
func parseCursor(s string) (uint64, error) {
	digits, neg := strings.CutPrefix(s, "-")
	if !neg {
		digits = strings.TrimPrefix(s, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, Error("ERR invalid cursor")
	}
	if neg {
		n = -n
	}
	return n, nil
}

func scanOptions(args [][]byte) (o keyspace.ScanOptions, err error) {
	for i := 0; i < len(args); i += 2 {
		if i+1 >= len(args) {
			return o, errSyntax
		}
		val := args[i+1]
		switch {
		case equalFold(args[i], "count"):
			n, err := parseInt(val)
			if err != nil {
				return o, err
			}
			if n < 1 {
				return o, errSyntax
			}
			o.Count = int(min(n, 1<<30))
		case equalFold(args[i], "match"):
			o.Match = val
		case equalFold(args[i], "type"):
			if o.Type = strings.ToLower(string(val)); o.Type == "" {
				o.Type = "none" // which no key has
			}
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func cmdKeys(c *Ctx) error {
	start, n := len(c.Reply.Buf), 0
	err := c.Tx.Keys(c.Args[1], func(key []byte) {
		n++
		c.Reply.Bulk(key)
	})
	if err != nil {
		return err
	}
	keys := append([]byte(nil), c.Reply.Buf[start:]...)
	c.Reply.Buf = c.Reply.Buf[:start]
	c.Reply.Array(n)
	c.Reply.Buf = append(c.Reply.Buf, keys...)
	return nil
}
