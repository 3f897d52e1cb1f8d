package command

import (
	"math"
	"time"

	"cvmstore/volume"
)

func waitCommands() []Command {
	return []Command{
		{Name: "wait", Arity: 3, Flags: Blocking | NoLevel, Group: "connection", Since: "3.0.0", Summary: "Waits until this connection's writes are committed to the trusted counter, which counts as one replica.", Handler: cmdWait},
		{Name: "waitaof", Arity: 4, Flags: Blocking | NoLevel, Group: "connection", Since: "7.2.0", Summary: "Waits until this connection's writes are durable on the device (first number) and committed to the trusted counter (second).", Handler: cmdWaitAOF},
	}
}

func cmdWait(c *Ctx) error {
	want, err := parseInt(c.Args[1])
	if err != nil {
		return err
	}
	timeout, err := waitTimeout(c.Args[2])
	if err != nil {
		return err
	}
	if !reached(c, volume.LevelFresh) && want > 0 && c.Resume != ResumeTimeout {
		return parkUntil(c, volume.LevelFresh, timeout)
	}
	// More than one can never be had: as Redis does, that waits for the whole timeout.
	if want > 1 && c.Resume != ResumeTimeout {
		return parkUntil(c, 0, timeout)
	}
	c.Reply.Int(boolInt(reached(c, volume.LevelFresh)))
	return nil
}

func cmdWaitAOF(c *Ctx) error {
	local, err := parseInt(c.Args[1])
	if err != nil {
		return err
	}
	if local < 0 || local > 1 {
		return Error("ERR value is out of range, value must between 0 and 1")
	}
	replicas, err := parseInt(c.Args[2])
	if err != nil {
		return err
	}
	if replicas < 0 {
		return Error("ERR value is out of range, must be positive")
	}
	timeout, err := waitTimeout(c.Args[3])
	if err != nil {
		return err
	}
	durable, fresh := reached(c, volume.LevelDurable), reached(c, volume.LevelFresh)
	if c.Resume != ResumeTimeout {
		switch {
		case replicas > 1:
			return parkUntil(c, 0, timeout)
		case replicas == 1 && !fresh:
			return parkUntil(c, volume.LevelFresh, timeout)
		case local == 1 && !durable:
			return parkUntil(c, volume.LevelDurable, timeout)
		}
	}
	c.Reply.Array(2)
	c.Reply.Int(boolInt(durable))
	c.Reply.Int(boolInt(fresh))
	return nil
}

func reached(c *Ctx, l volume.Level) bool {
	v := c.Srv.Volume()
	return v == nil || v.Reached(c.S.LastWrite, l)
}

func waitTimeout(arg []byte) (time.Duration, error) {
	ms, err := parseInt(arg)
	if err != nil {
		return 0, errTimeoutInt
	}
	if ms < 0 {
		return 0, errTimeoutNeg
	}
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, errTimeoutInt
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// parkUntil waits for the session's own writes to reach a level (0: for nothing) or for the timeout (0: none).
func parkUntil(c *Ctx, l volume.Level, timeout time.Duration) error {
	c.Park = Park{Counter: c.S.LastWrite, Level: l, Until: c.Park.Until}
	if c.Park.Until == 0 && timeout > 0 {
		c.Park.Until = c.Now + int64(timeout)
		if c.Park.Until < 0 {
			c.Park.Until = math.MaxInt64
		}
	}
	return ErrPark
}
