package command

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

func debugCommands() []Command {
	const g = "server"
	const f = Admin | NoScript | Loading | Stale | NoLevel
	gate := func(h func(*Ctx) error) func(*Ctx) error {
		return func(c *Ctx) error {
			if !c.Srv.DebugAllowed(c.S) {
				return errDebug
			}
			return h(c)
		}
	}
	sub := func(name string, arity int, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: f, Group: g, Since: "1.0.0", Summary: summary, Handler: gate(h)}
	}
	return []Command{{
		Name: "debug", Arity: -2, Flags: f, Group: g, Since: "1.0.0", Summary: "Commands for testing; see enable-debug-command.",
		Subs: []Command{
			sub("sleep", 3, "Stops the event loop of this connection for some seconds.", debugSleep),
			{Name: "object", Arity: -3, Flags: Admin | NoScript | ReadOnly, Group: g, First: 2, Last: 2, Step: 1, Since: "1.0.0", Summary: "Tells how a key's value is held.", Handler: gate(debugObject)},
			sub("stringmatch-len", 4, "Matches a pattern with a string of the letter a.", debugStringMatch),
			sub("set-active-expire", 3, "Turns the deletion of expired keys in the background on (1) or off (0).", debugActiveExpire),
			sub("set-disable-deny-scripts", 3, "Lets scripts call DEBUG (1), or not (0).", debugDenyScripts),
			sub("protocol", 3, "Replies with a value of some kind.", debugProtocol),
			sub("log", 3, "Writes a line into the log.", debugLog),
			sub("reload", -2, "Closes the volume and recovers it in place, as a restart would.", debugReload),
			sub("loadaof", 2, "The same: the volume is the journal.", debugReload),
		},
	}}
}

const errDebug = Error("ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.")

func debugSleep(c *Ctx) error {
	seconds, err := strconv.ParseFloat(string(c.Args[2]), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > 3600 {
		return Error("ERR value is not a valid float")
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	c.Reply.OK()
	return nil
}

func debugObject(c *Ctx) error {
	key := c.Args[2]
	it, err := c.Tx.Peek(key)
	if err != nil {
		return err
	}
	if !it.Exists() {
		return Error("ERR no such key")
	}
	encoding, err := kvs.Encoding(c.Tx, key)
	if err != nil {
		return err
	}
	refs, err := kvs.RefCount(c.Tx, key)
	if err != nil {
		return err
	}
	idle, _, err := c.Tx.IdleTime(key)
	if err != nil {
		return err
	}
	c.Reply.Simple(fmt.Sprintf("Value at:0x0 refcount:%d encoding:%s serializedlength:%d lru:0 lru_seconds_idle:%d", refs, encoding, it.ValueSize+1, idle))
	return nil
}

func debugStringMatch(c *Ctx) error {
	n, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	if n < 0 || n > 1<<20 {
		return errNotInteger
	}
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a'
	}
	c.Reply.Int(boolInt(keyspace.Match(c.Args[3], text)))
	return nil
}

func debugActiveExpire(c *Ctx) error {
	c.Srv.SetActiveExpire(string(c.Args[2]) != "0")
	c.Reply.OK()
	return nil
}

func debugLog(c *Ctx) error {
	c.Srv.LogLine(clip(c.Args[2], 1024))
	c.Reply.OK()
	return nil
}

// debugReload takes Redis' options: what was not saved is nothing, and the volume always replaces what is in memory.
func debugReload(c *Ctx) error {
	for _, arg := range c.Args[2:] {
		if !equalFold(arg, "nosave") && !equalFold(arg, "noflush") && !equalFold(arg, "merge") {
			return Error("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
		}
	}
	if err := c.Srv.Reload(c); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}
