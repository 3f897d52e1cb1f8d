package command

import (
	"encoding/hex"
	"time"

	"cvmstore/volume"
)

func holdCommands() []Command {
	return []Command{
		{Name: "cvm.hold", Arity: 2, Flags: Early | Admin | NoScript | NoLevel, Group: "cvm", Since: "1.0.0", Summary: "Keeps freed blocks of the device from being used again for some seconds, for a backup: returns the hold's number and the newest committed state. END ends it.", Handler: cmdHold},
	}
}

// cmdHold answers with a state that is on the device for certain: a copy of the device that is begun after it, and ends while the hold
// has the same number, holds that state.
func cmdHold(c *Ctx) error {
	v := c.Srv.Volume()
	if v == nil {
		return Error("ERR this server has no volume")
	}
	if equalFold(c.Args[1], "end") {
		v.Unhold()
		c.Reply.OK()
		return nil
	}
	seconds, err := parseInt(c.Args[1])
	if err != nil {
		return err
	}
	if seconds < 1 || seconds > int64(volume.HoldMax/time.Second) {
		return Error("ERR a hold lasts from 1 to 300 seconds")
	}
	if err := v.Err(); err != nil {
		return Error("ERR " + err.Error())
	}
	number := v.Hold(time.Duration(seconds) * time.Second)
	s := v.Status()
	if s.Committed.Value == 0 || s.Durable < s.Committed.Value {
		return Error("BUSY the newest committed state is not on the device yet, try again")
	}
	c.Reply.Array(5)
	c.Reply.Int(int64(number))
	c.Reply.String(hex.EncodeToString(s.Store[:]))
	c.Reply.Int(int64(s.Generation))
	c.Reply.Int(int64(s.Committed.Value))
	c.Reply.String(hex.EncodeToString(s.Committed.Tag[:]))
	return nil
}
