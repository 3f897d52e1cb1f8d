package command

import (
	"time"

	"cvmstore/volume"
)

// Commands about saving and replication. There are no snapshots and no replicas: every acknowledged write is on the volume. The
// saving commands wait until everything that was applied before them is durable and committed to the trusted counter, so a
// script that calls them before it takes a copy of the disk gets what it means.
func savingCommands() []Command {
	const g = "server"
	const f = Admin | NoScript | NoLevel
	return []Command{
		{Name: "save", Arity: 1, Flags: f | NoMulti, Group: g, Since: "1.0.0", Summary: "Waits until everything is durable and committed to the trusted counter.", Handler: saveThen("OK")},
		{Name: "bgsave", Arity: -1, Flags: f, Group: g, Since: "1.0.0", Summary: "Does what SAVE does: it waits until everything is durable and committed.", Handler: saveThen("Background saving started")},
		{Name: "bgrewriteaof", Arity: 1, Flags: f, Group: g, Since: "1.0.0", Summary: "Does what SAVE does: it waits until everything is durable and committed.", Handler: saveThen("Background append only file rewriting started")},
		{Name: "lastsave", Arity: 1, Flags: Loading | Stale | Fast | Admin | NoLevel, Group: g, Since: "1.0.0", Summary: "Returns when SAVE was last answered, or the server started.", Handler: cmdLastSave},
		{Name: "role", Arity: 1, Flags: NoScript | Loading | Stale | Fast | Admin | NoLevel, Group: g, Since: "2.8.12", Summary: "Says that this server is a master without replicas.", Handler: cmdRole},
		{Name: "replicaof", Arity: 3, Flags: f | Stale, Group: g, Since: "5.0.0", Summary: "Accepts NO ONE; a replica cannot be trusted to be as fresh as the counter.", Handler: cmdReplicaOf},
		{Name: "slaveof", Arity: 3, Flags: f | Stale, Group: g, Since: "1.0.0", Summary: "The old name of REPLICAOF.", Handler: cmdReplicaOf},
	}
}

func saveThen(answer string) func(*Ctx) error {
	return func(c *Ctx) error {
		if len(c.Args) > 1 && !(len(c.Args) == 2 && equalFold(c.Args[1], "schedule")) {
			return errSyntax
		}
		v := c.Srv.Volume()
		if v != nil {
			if c.Resume == ResumeNone || c.Park.Counter == 0 {
				c.Park.Counter, _, _ = v.Watermarks()
			}
			if !v.Reached(c.Park.Counter, volume.LevelFresh) {
				if err := v.Err(); err != nil {
					return err
				}
				c.Park = Park{Counter: c.Park.Counter, Level: volume.LevelFresh}
				return ErrPark
			}
		}
		o := c.Srv.Observed()
		o.LastSave.Store(time.Now().Unix())
		o.SavedAt.Store(uint64(c.Park.Counter))
		c.Reply.Simple(answer)
		return nil
	}
}

func cmdLastSave(c *Ctx) error {
	c.Reply.Int(c.Srv.Observed().LastSave.Load())
	return nil
}

func cmdRole(c *Ctx) error {
	c.Reply.Array(3)
	c.Reply.String("master")
	c.Reply.Int(0)
	c.Reply.Array(0)
	return nil
}

func cmdReplicaOf(c *Ctx) error {
	if equalFold(c.Args[1], "no") && equalFold(c.Args[2], "one") {
		c.Reply.OK()
		return nil
	}
	return Error("ERR this server cannot be a replica: what a master sends has no proof of being the newest state")
}
