package command

import (
	"crypto/sha256"
	"encoding/hex"

	"cvmstore/epoch/wire"
	"cvmstore/kvs"
	"cvmstore/volume"
)

func epochCommands() []Command {
	const g = "cvm"
	return []Command{
		{Name: "cvm.epoch", Arity: -1, Flags: NoScript | NoLevel | Blocking, Group: g, Since: "1.0.0", Summary: "Returns the number of the open epoch. SYNC ends it and waits until all that was applied is committed to the trusted counter.", Handler: cmdEpoch},
		{Name: "cvm.receipt", Arity: 2, Flags: ReadOnly | NoScript, Group: g, First: 1, Last: 1, Step: 1, Since: "1.0.0", Summary: "Returns a signed proof, in hexadecimal, that a string key's value was committed to the trusted counter.", Handler: cmdReceipt},
	}
}

// errNoWait answers a command that would have to wait inside a transaction.
const errNoWait = Error("ERR this command waits for the trusted counter, which a transaction cannot")

func cmdEpoch(c *Ctx) error {
	v := c.Srv.Volume()
	switch {
	case v == nil:
		return Error("ERR this server has no volume")
	case len(c.Args) == 1:
		c.Reply.Int(int64(v.Status().Epoch))
		return nil
	case len(c.Args) != 2 || !equalFold(c.Args[1], "sync"):
		return errSyntax
	case c.Multi:
		return errNoWait
	case c.Resume == ResumeReady:
		c.Reply.OK()
		return nil
	case c.Resume == ResumeTimeout:
		return Error(Unreached(v.Err(), c.Srv.ReplyTimeout()))
	}
	applied, _, _ := v.Watermarks()
	if v.Reached(applied, volume.LevelFresh) {
		c.Reply.OK()
		return nil
	}
	if err := v.Err(); err != nil {
		return Error(Unreached(err, c.Srv.ReplyTimeout()))
	}
	c.Park = Park{Counter: applied, Level: volume.LevelFresh, Until: c.Now + int64(c.Srv.ReplyTimeout())}
	return ErrPark
}

// cmdReceipt waits until the key's newest change is committed, then asks the counter service for its signature on that state. What
// was claimed when it asked is what the receipt says, whatever happened to the key since.
func cmdReceipt(c *Ctx) error {
	if c.Multi {
		return errNoWait
	}
	if c.Resume == ResumeReady {
		receipt, asked, err := c.Srv.Receipt(c, nil)
		if err != nil {
			return err
		}
		if asked {
			c.Reply.String(hex.EncodeToString(receipt))
			return nil
		}
	}
	v := c.Srv.Volume()
	if v == nil {
		return Error("ERR this server has no volume")
	}
	it, err := c.Tx.Find(c.Args[1])
	if err != nil {
		return err
	}
	if !it.Exists() {
		c.Reply.Null()
		return nil
	}
	value, _, err := kvs.Get(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	if c.Resume == ResumeTimeout {
		return Error(Unreached(v.Err(), c.Srv.ReplyTimeout()))
	}
	until := c.Now + int64(c.Srv.ReplyTimeout())
	if !v.Reached(it.Counter, volume.LevelFresh) {
		if err := v.Err(); err != nil {
			return Error(Unreached(err, c.Srv.ReplyTimeout()))
		}
		c.Park = Park{Counter: it.Counter, Level: volume.LevelFresh, Until: until}
		return ErrPark
	}
	s := v.Status()
	claim := wire.Claim{
		Kind: wire.ObjectKey, Store: s.Store, Gen: s.Generation, Epoch: s.Epoch, Counter: it.Counter,
		Name: sha256.Sum256(c.Args[1]), Object: sha256.Sum256(value),
	}
	if _, _, err := c.Srv.Receipt(c, &claim); err != nil {
		return err
	}
	c.Park = Park{Answer: true, Until: until}
	return ErrPark
}
