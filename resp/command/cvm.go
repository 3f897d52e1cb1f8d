package command

import (
	"encoding/hex"

	"cvmstore/volume"
)

func cvmCommands() []Command {
	const g = "cvm"
	return []Command{
		{Name: "cvm.durability", Arity: -1, Flags: Fast | NoScript | Loading | Stale | NoLevel, Group: g, Since: "1.0.0", Summary: "Returns, or chooses, the level that replies to this connection wait for: fresh, durable or everysec.", Handler: cmdDurability},
		{Name: "cvm.status", Arity: 1, Flags: Early | Admin | NoScript | Loading | Stale | NoLevel, Group: g, Since: "1.0.0", Summary: "Describes the volume: generation, epoch, counters, and what is not committed yet.", Handler: cmdStatus},
	}
}

func cmdDurability(c *Ctx) error {
	if len(c.Args) == 1 {
		level := c.S.Level
		if level == 0 {
			level = c.Srv.DefaultLevel()
		}
		c.Reply.String(level.String())
		return nil
	}
	if len(c.Args) != 2 {
		return errSyntax
	}
	for _, level := range []volume.Level{volume.LevelEverySec, volume.LevelDurable, volume.LevelFresh} {
		if equalFold(c.Args[1], level.String()) {
			c.S.Level = level
			c.Reply.OK()
			return nil
		}
	}
	return Error("ERR unknown durability level: choose fresh, durable or everysec")
}

func cmdStatus(c *Ctx) error {
	v := c.Srv.Volume()
	if v == nil {
		return Error("ERR this server has no volume")
	}
	lines := statusFields(v.Status())
	c.Reply.Map(len(lines))
	for _, f := range lines {
		c.Reply.String(f.name)
		if f.text != "" {
			c.Reply.String(f.text)
		} else {
			c.Reply.Int(f.number)
		}
	}
	return nil
}

// statusField is a number, or a text that is not empty.
type statusField struct {
	name   string
	number int64
	text   string
}

// statusFields is what CVM.STATUS and INFO's section cvm say of the volume.
func statusFields(s volume.Status) []statusField {
	num := func(name string, n int64) statusField { return statusField{name: name, number: n} }
	text := func(name, t string) statusField {
		if t == "" {
			t = "none"
		}
		return statusField{name: name, text: t}
	}
	failure, counterErr := "", ""
	if s.Failure != nil {
		failure = s.Failure.Error()
	}
	if s.LastCounterError != nil {
		counterErr = s.LastCounterError.Error()
	}
	return []statusField{
		text("store", hex.EncodeToString(s.Store[:])),
		text("volume", hex.EncodeToString(s.Volume[:])),
		text("device", s.Device),
		text("suite", s.Suite),
		num("generation", int64(s.Generation)),
		num("epoch", int64(s.Epoch)),
		num("counter_applied", int64(s.Applied)),
		num("counter_durable", int64(s.Durable)),
		num("counter_fresh", int64(s.Fresh)),
		num("uncommitted_ops", int64(s.UncommittedOps)),
		num("uncommitted_bytes", int64(s.UncommittedBytes)),
		num("uncommitted_ms", s.UncommittedAge.Milliseconds()),
		num("uncommitted_epochs", int64(s.Waiting)),
		num("window_epochs", int64(s.WindowEpochs)),
		text("epoch_mode", s.Mode),
		num("epochs_per_second", int64(s.EpochRate+0.5)),
		num("committed_value", int64(s.Committed.Value)),
		text("committed_tag", hex.EncodeToString(s.Committed.Tag[:])),
		num("counter_round_trip_us", s.RoundTrip.Microseconds()),
		num("lease_ms", s.Lease.Milliseconds()),
		num("lease_left_ms", s.LeaseLeft.Milliseconds()),
		num("frames", int64(s.Frames)),
		num("commits", int64(s.Commits)),
		num("bytes_written", int64(s.BytesWritten)),
		num("bytes_read", int64(s.BytesRead)),
		num("segments", int64(s.Segments)),
		num("segment_bytes", int64(s.SegmentBytes)),
		num("volume_bytes", int64(s.VolumeBytes)),
		num("free_bytes", int64(s.FreeBytes)),
		num("full", boolInt(s.Full)),
		num("store_time_ms", s.StoreTime),
		text("failure", failure),
		text("counter_error", counterErr),
	}
}
