package command

import (
	"fmt"
	"runtime/debug"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/streams"
)

func memoryCommands() []Command {
	const g = "server"
	return []Command{{
		Name: "memory", Arity: -2, Group: g, Since: "4.0.0", Summary: "Tells where memory goes.",
		Subs: []Command{
			{Name: "usage", Arity: -3, Flags: ReadOnly, Group: g, First: 2, Last: 2, Step: 1, Since: "4.0.0", Summary: "Estimates the bytes that a key takes in memory, its value as if it were cached.", Handler: memoryUsage},
			{Name: "stats", Arity: 2, Flags: Early | NoLevel, Group: g, Since: "4.0.0", Summary: "Returns figures about the server's memory.", Handler: memoryStats},
			{Name: "doctor", Arity: 2, Flags: Early | NoLevel, Group: g, Since: "4.0.0", Summary: "Says what the figures mean.", Handler: memoryDoctor},
			{Name: "purge", Arity: 2, Flags: NoLevel, Group: g, Since: "4.0.0", Summary: "Gives free memory back to the system.", Handler: memoryPurge},
			{Name: "malloc-stats", Arity: 2, Flags: NoLevel, Group: g, Since: "4.0.0", Summary: "Returns the allocator's own figures.", Handler: memoryMalloc},
		},
	}}
}

// entryBytes is what the index takes for a key beyond its name and value: the entry, and its share of the tables.
const entryBytes = 64

func memoryUsage(c *Ctx) error {
	switch args := c.Args[3:]; {
	case len(args) == 0:
	case len(args) == 2 && equalFold(args[0], "samples"):
		n, err := parseInt(args[1])
		if err != nil {
			return err
		}
		if n < 0 {
			return errSyntax
		}
	default:
		return errSyntax
	}
	it, err := c.Tx.Peek(c.Args[2])
	if err != nil {
		return err
	}
	if !it.Exists() {
		c.Reply.Null()
		return nil
	}
	c.Reply.Int(usage(c, c.Args[2], it))
	return nil
}

func usage(c *Ctx, key []byte, it keyspace.Item) int64 {
	n := int64(entryBytes + len(key))
	if it.Type == keyspace.TypeStream {
		return n + streams.Of(c.Space).Memory(it.Ref)
	}
	return n + kvs.Memory(c.Tx, it)
}

func memoryStats(c *Ctx) error {
	m := readMemory()
	cache := int64(0)
	if c.Space != nil {
		cache = int64(c.Space.Stats().CacheBytes)
	}
	s := c.Srv.Stats()
	c.Reply.Map(9)
	num := func(name string, n int64) {
		c.Reply.String(name)
		c.Reply.Int(n)
	}
	num("peak.allocated", m.total)
	num("total.allocated", m.used)
	num("startup.allocated", 0)
	num("replication.backlog", 0)
	num("clients.normal", s.Connected*(1<<10))
	num("dataset.bytes", m.used)
	num("value.cache.bytes", cache)
	num("allocator.resident", m.resident)
	c.Reply.String("fragmentation")
	c.Reply.Double(float64(m.resident) / float64(max(m.used, 1)))
	return nil
}

func memoryDoctor(c *Ctx) error {
	m := readMemory()
	limit, used := c.Srv.MaxMemory(), c.Srv.UsedMemory()
	text := fmt.Sprintf("%s in use, %s resident.", human(used), human(m.resident))
	switch {
	case limit == 0:
		text += " maxmemory is not set: the index grows with the number of keys until most of the system's memory is in use; then writes are refused."
	case used > limit*9/10 && setting(c, "maxmemory-policy") != "noeviction":
		text += " That is close to maxmemory: keys are evicted."
	case used > limit*9/10:
		text += " That is close to maxmemory: writes will soon be refused. Delete keys, lower cache-size or raise maxmemory."
	default:
		text += " That is well below maxmemory."
	}
	c.Reply.Verbatim("txt", text)
	return nil
}

// memoryPurge collects in the background: the loop must not stand still for it.
func memoryPurge(c *Ctx) error {
	go debug.FreeOSMemory()
	c.Reply.OK()
	return nil
}

func memoryMalloc(c *Ctx) error {
	m := readMemory()
	c.Reply.Verbatim("txt", fmt.Sprintf("go: objects %d, mapped %d, returned %d, resident %d bytes", m.used, m.total, m.released, m.resident))
	return nil
}
