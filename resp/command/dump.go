package command

import (
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/kvs/rdb"
)

func dumpCommands() []Command {
	const g = "generic"
	return []Command{
		{Name: "dump", Arity: 2, Flags: ReadOnly, Group: g, First: 1, Last: 1, Step: 1, Since: "2.6.0", Summary: "Returns a key's value in the format of RDB files.", Handler: cmdDump},
		{Name: "restore", Arity: -4, Flags: Write | DenyOOM | Dangerous, Group: g, First: 1, Last: 1, Step: 1, Since: "2.6.0", Summary: "Sets a key from what DUMP returned.", Handler: cmdRestore},
		{Name: "restore-asking", Arity: -4, Flags: Write | DenyOOM | Dangerous, Group: g, First: 1, Last: 1, Step: 1, Since: "3.0.0", Summary: "RESTORE, by the name that clusters use.", Handler: cmdRestore},
	}
}

func cmdDump(c *Ctx) error {
	switch it, err := c.Tx.Find(c.Args[1]); {
	case err != nil:
		return err
	case it.Type == keyspace.TypeStream:
		return dumpStream(c)
	}
	p, ok, err := kvs.Dump(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.BulkOrNull(p, ok)
	return nil
}

func cmdRestore(c *Ctx) error {
	o, absolute, err := restoreOptions(c.Args[4:])
	if err != nil {
		return err
	}
	key := c.Args[1]
	if !o.Replace { // it comes before what is wrong with the rest
		switch it, err := c.Tx.Find(key); {
		case err != nil:
			return err
		case it.Exists():
			return kvs.ErrBusyKey
		}
	}
	ttl, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	if ttl < 0 {
		return Error("ERR Invalid TTL value, must be >= 0")
	}
	if ttl > 0 {
		o.Expire, o.Expiry = true, ttl
		if !absolute {
			o.Expiry += c.Tx.Now() // one beyond all time wraps around and has come already, as in Redis
		}
	}
	restore := kvs.Restore
	if rdb.IsStream(c.Args[3]) {
		restore = restoreStream
	}
	if err := restore(c.Tx, key, c.Args[3], o); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func restoreOptions(args [][]byte) (o kvs.RestoreOptions, absolute bool, err error) {
	o.Idle, o.Uses = -1, -1
	for ; len(args) > 0; args = args[1:] {
		switch {
		case equalFold(args[0], "replace"):
			o.Replace = true
		case equalFold(args[0], "absttl"):
			absolute = true
		case equalFold(args[0], "idletime") && len(args) > 1 && o.Uses < 0:
			args = args[1:]
			if o.Idle, err = parseInt(args[0]); err != nil {
				return o, false, err
			}
			if o.Idle < 0 {
				return o, false, Error("ERR Invalid IDLETIME value, must be >= 0")
			}
		case equalFold(args[0], "freq") && len(args) > 1 && o.Idle < 0:
			args = args[1:]
			if o.Uses, err = parseInt(args[0]); err != nil {
				return o, false, err
			}
			if o.Uses < 0 || o.Uses > 255 {
				return o, false, Error("ERR Invalid FREQ value, must be >= 0 and <= 255")
			}
		default:
			return o, false, errSyntax
		}
	}
	return o, absolute, nil
}
