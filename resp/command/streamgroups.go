package command

import (
	"errors"
	"strings"

	"cvmstore/streams"
)

func streamGroupCommands() []Command {
	const g = "stream"
	key := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, First: 1, Last: 1, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	return []Command{
		{Name: "xreadgroup", Arity: -7, Flags: Write | Blocking, Group: g, Movable: streamKeys, Since: "5.0.0", Summary: "Gives new entries of streams to a consumer of a group, or those that it has pending.", Handler: cmdXReadGroup},
		key("xack", -4, Write|Fast, "5.0.0", "Acknowledges entries that were pending.", cmdXAck),
		key("xpending", -3, ReadOnly, "5.0.0", "Lists the pending entries of a group.", cmdXPending),
		key("xclaim", -6, Write|Fast, "5.0.0", "Makes pending entries another consumer's.", cmdXClaim),
		key("xautoclaim", -6, Write|Fast, "6.2.0", "Makes entries that have been pending for long another consumer's.", cmdXAutoClaim),
		xgroupCommand(),
	}
}

func xgroupCommand() Command {
	const g = "stream"
	sub := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, First: 2, Last: 2, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	return Command{
		Name: "xgroup", Arity: -2, Group: g, Since: "5.0.0", Summary: "Makes, changes and removes consumer groups and consumers.",
		Subs: []Command{
			sub("create", -5, Write|DenyOOM, "5.0.0", "Makes a group.", xgroupCreate),
			sub("setid", -5, Write, "5.0.0", "Sets the last delivered ID of a group.", xgroupSetID),
			sub("destroy", 4, Write, "5.0.0", "Removes a group with its pending entries.", xgroupDestroy),
			sub("createconsumer", 5, Write|DenyOOM, "6.2.0", "Makes a consumer.", xgroupCreateConsumer),
			sub("delconsumer", 5, Write, "5.0.0", "Removes a consumer with its pending entries.", xgroupDelConsumer),
		},
	}
}

// errSubSyntax is for a subcommand whose arguments make no sense.
func errSubSyntax(c *Ctx) error {
	return Error("ERR unknown subcommand or wrong number of arguments for '" + clip(c.Args[1], 128) + "'. Try " + strings.ToUpper(c.Cmd.parent.Name) + " HELP.")
}

// noGroup words the absence of a group of a key that exists.
func noGroup(err error, key, group []byte) error {
	if errors.Is(err, streams.ErrNoGroup) {
		return Error("NOGROUP No such consumer group '" + clip(group, len(group)) + "' for key name '" + clip(key, len(key)) + "'")
	}
	return err
}

// noKeyOrGroup words the absence of either.
func noKeyOrGroup(err error, key, group []byte) error {
	if errors.Is(err, streams.ErrNoGroup) {
		return Error("NOGROUP No such key '" + clip(key, len(key)) + "' or consumer group '" + clip(group, len(group)) + "'")
	}
	return err
}

const errGroupKey = Error("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.")

// groupOptions parses what follows the ID of XGROUP CREATE and SETID.
func groupOptions(c *Ctx, create bool) (o streams.GroupOptions, err error) {
	o.Read = -1
	for args := c.Args[5:]; len(args) > 0; args = args[1:] {
		switch {
		case create && equalFold(args[0], "mkstream"):
			o.MakeStream = true
		case len(args) > 1 && equalFold(args[0], "entriesread"):
			args = args[1:]
			if o.Read, err = parseInt(args[0]); err != nil {
				return o, err
			}
			if o.Read < -1 {
				return o, Error("ERR value for ENTRIESREAD must be positive or -1")
			}
		default:
			return o, errSubSyntax(c)
		}
	}
	return o, nil
}

// groupKey checks that the key of an XGROUP subcommand is a stream that exists.
func groupKey(c *Ctx) error {
	_, ok, err := streams.Stat(c.Tx, c.Args[2])
	if err == nil && !ok {
		err = errGroupKey
	}
	return err
}

func xgroupCreate(c *Ctx) error {
	o, err := groupOptions(c, true)
	if err != nil {
		return err
	}
	if err := groupKey(c); err != nil && (err != errGroupKey || !o.MakeStream) {
		return err
	}
	if string(c.Args[4]) == "$" {
		o.Last = true
	} else if o.ID, err = strictID(c.Args[4]); err != nil {
		return err
	}
	if err := streams.CreateGroup(c.Tx, c.Args[2], c.Args[3], o); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func xgroupSetID(c *Ctx) error {
	o, err := groupOptions(c, false)
	if err != nil {
		return err
	}
	if err := groupKey(c); err != nil {
		return err
	}
	if ok, err := streams.GroupExists(c.Tx, c.Args[2], c.Args[3]); err != nil || !ok {
		return errors.Join(err, noGroup(streams.ErrNoGroup, c.Args[2], c.Args[3]))
	}
	if string(c.Args[4]) == "$" {
		o.Last = true
	} else if o.ID, _, err = rangeID(c.Args[4], 0); err != nil {
		return err
	}
	if err := streams.SetGroup(c.Tx, c.Args[2], c.Args[3], o); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func xgroupDestroy(c *Ctx) error {
	if err := groupKey(c); err != nil {
		return err
	}
	done, err := streams.DestroyGroup(c.Tx, c.Args[2], c.Args[3])
	return intReply(c, boolInt(done), err)
}

func xgroupCreateConsumer(c *Ctx) error {
	if err := groupKey(c); err != nil {
		return err
	}
	made, err := streams.CreateConsumer(c.Tx, c.Args[2], c.Args[3], c.Args[4])
	return intReply(c, boolInt(made), noGroup(err, c.Args[2], c.Args[3]))
}

func xgroupDelConsumer(c *Ctx) error {
	if err := groupKey(c); err != nil {
		return err
	}
	n, err := streams.DeleteConsumer(c.Tx, c.Args[2], c.Args[3], c.Args[4])
	return intReply(c, int64(n), noGroup(err, c.Args[2], c.Args[3]))
}
