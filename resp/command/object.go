package command

import (
	"strings"

	"cvmstore/kvs"
)

func objectCommands() []Command {
	const g = "generic"
	sub := func(name, summary string, handler func(*Ctx) error) Command {
		return Command{Name: name, Arity: 3, Flags: ReadOnly, Group: g, First: 2, Last: 2, Step: 1, Since: "2.2.3", Summary: summary, Handler: handler}
	}
	return []Command{{
		Name: "object", Arity: -2, Group: g, Since: "2.2.3", Summary: "Tells how a key's value is held.",
		Subs: []Command{
			sub("encoding", "Names the representation that the value has in Redis.", objectEncoding),
			sub("freq", "Tells how often the key is used, under an LFU policy.", objectFreq),
			sub("idletime", "Tells for how many seconds the key has not been used.", objectIdleTime),
			sub("refcount", "Counts the references that the value has in Redis.", objectRefCount),
		},
	}}
}

func objectEncoding(c *Ctx) error {
	name, err := kvs.Encoding(c.Tx, c.Args[2])
	if err != nil {
		return err
	}
	if name == "" {
		c.Reply.Null()
	} else {
		c.Reply.String(name)
	}
	return nil
}

// lfu reports whether the eviction policy counts uses rather than noting the last one.
func lfu(c *Ctx) bool { return strings.HasSuffix(setting(c, "maxmemory-policy"), "-lfu") }

// setting is the value of one parameter.
func setting(c *Ctx, name string) (value string) {
	c.Srv.ConfigGet([][]byte{[]byte(name)}, func(_, v string) { value = v })
	return value
}

func objectFreq(c *Ctx) error {
	n, found, err := c.Tx.Frequency(c.Args[2])
	if err != nil {
		return err
	}
	switch {
	case !found:
		c.Reply.Null()
	case !lfu(c):
		return Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	default:
		c.Reply.Int(n)
	}
	return nil
}

func objectIdleTime(c *Ctx) error {
	idle, found, err := c.Tx.IdleTime(c.Args[2])
	if err != nil {
		return err
	}
	switch {
	case !found:
		c.Reply.Null()
	case lfu(c):
		return Error("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	default:
		c.Reply.Int(idle)
	}
	return nil
}

func objectRefCount(c *Ctx) error {
	n, err := kvs.RefCount(c.Tx, c.Args[2])
	if err != nil {
		return err
	}
	if n == 0 {
		c.Reply.Null()
	} else {
		c.Reply.Int(n)
	}
	return nil
}
