package command

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"cvmstore/keyspace"
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
		return Error("NOGROUP No such consumer group '" + string(group) + "' for key name '" + string(key) + "'")
	}
	return err
}

// noKeyOrGroup words the absence of either.
func noKeyOrGroup(err error, key, group []byte) error {
	if errors.Is(err, streams.ErrNoGroup) {
		return Error("NOGROUP No such key '" + string(key) + "' or consumer group '" + string(group) + "'")
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

func cmdXAck(c *Ctx) error {
	ok, err := streams.GroupExists(c.Tx, c.Args[1], c.Args[2])
	if err != nil || !ok {
		return intReply(c, 0, err)
	}
	ids, err := parseIDs(c.Args[3:])
	if err != nil {
		return err
	}
	n, err := streams.Ack(c.Tx, c.Args[1], c.Args[2], ids)
	return intReply(c, int64(n), err)
}

func cmdXPending(c *Ctx) (err error) {
	if len(c.Args) != 3 && (len(c.Args) < 6 || len(c.Args) > 9) {
		return errSyntax
	}
	var o streams.PendingOptions
	if args := c.Args[3:]; len(args) > 0 {
		if o, err = pendingOptions(args); err != nil {
			return err
		}
		list, err := streams.Pending(c.Tx, c.Args[1], c.Args[2], o)
		if err != nil {
			return noKeyOrGroup(err, c.Args[1], c.Args[2])
		}
		now := c.Tx.Now()
		c.Reply.Array(len(list))
		for _, p := range list {
			c.Reply.Array(4)
			c.Reply.id(p.ID)
			c.Reply.String(p.Consumer)
			c.Reply.Int(max(now-p.Delivered, 0))
			c.Reply.Int(int64(p.Count))
		}
		return nil
	}
	g, err := streams.Group(c.Tx, c.Args[1], c.Args[2])
	if err != nil {
		return noKeyOrGroup(err, c.Args[1], c.Args[2])
	}
	r := &c.Reply
	r.Array(4)
	r.Int(int64(g.Pending))
	if g.Pending == 0 {
		r.Null()
		r.Null()
		r.NullArray()
		return nil
	}
	r.id(g.List[0].ID)
	r.id(g.List[1].ID)
	n := 0
	for _, x := range g.Consumers {
		if x.Pending > 0 {
			n++
		}
	}
	r.Array(n)
	for _, x := range g.Consumers {
		if x.Pending > 0 {
			r.Array(2)
			r.String(x.Name)
			r.String(strconv.Itoa(x.Pending))
		}
	}
	return nil
}

func pendingOptions(args [][]byte) (o streams.PendingOptions, err error) {
	if equalFold(args[0], "idle") {
		if o.MinIdle, err = parseInt(args[1]); err != nil {
			return o, err
		}
		if args = args[2:]; len(args) < 3 {
			return o, errSyntax
		}
	}
	n, err := parseInt(args[2])
	if err != nil {
		return o, err
	}
	o.Count = int(max(n, 0))
	if o.From, o.To, err = interval(args[0], args[1]); err != nil {
		return o, err
	}
	if len(args) > 3 {
		o.Consumer, o.One = args[3], true
	}
	return o, nil
}

// minIdle parses the idle time of XCLAIM and XAUTOCLAIM.
func minIdle(c *Ctx) (int64, error) {
	n, err := parseInt(c.Args[4])
	if err != nil {
		return 0, Error("ERR Invalid min-idle-time argument for " + strings.ToUpper(c.Cmd.Name))
	}
	return max(n, 0), nil
}

func cmdXClaim(c *Ctx) error {
	key, group := c.Args[1], c.Args[2]
	ok, err := streams.GroupExists(c.Tx, key, group)
	if err != nil {
		return err
	}
	if !ok {
		return noKeyOrGroup(streams.ErrNoGroup, key, group)
	}
	o := streams.ClaimOptions{Delivered: -1, Count: -1}
	if o.MinIdle, err = minIdle(c); err != nil {
		return err
	}
	args := c.Args[5:]
	var ids []streams.ID
	for ; len(args) > 0; args = args[1:] {
		id, err := strictID(args[0])
		if err != nil {
			break
		}
		ids = append(ids, id)
	}
	if err := claimOptions(c, args, &o); err != nil {
		return err
	}
	list, err := streams.Claim(c.Tx, key, group, c.Args[3], ids, o)
	if err != nil {
		return err
	}
	c.Reply.claimed(list, o.JustID)
	return nil
}

func (r *Reply) claimed(list []streams.Entry, justID bool) {
	if !justID {
		r.entries(list)
		return
	}
	r.Array(len(list))
	for i := range list {
		r.id(list[i].ID)
	}
}

func claimOptions(c *Ctx, args [][]byte, o *streams.ClaimOptions) (err error) {
	now := c.Tx.Now()
	number := func(name string) (n int64) {
		args = args[1:]
		if n, err = parseInt(args[0]); err != nil {
			err = Error("ERR Invalid " + name + " option argument for XCLAIM")
		}
		return n
	}
	for ; len(args) > 0 && err == nil; args = args[1:] {
		switch more := len(args) > 1; {
		case equalFold(args[0], "force"):
			o.Force = true
		case equalFold(args[0], "justid"):
			o.JustID = true
		case more && equalFold(args[0], "idle"):
			o.Delivered = now - number("IDLE")
		case more && equalFold(args[0], "time"):
			o.Delivered = number("TIME")
		case more && equalFold(args[0], "retrycount"):
			o.Count = number("RETRYCOUNT")
		case more && equalFold(args[0], "lastid"):
			args = args[1:]
			o.Last, err = strictID(args[0])
		default:
			return Error("ERR Unrecognized XCLAIM option '" + clip(args[0], math.MaxInt32) + "'")
		}
	}
	if o.Delivered < 0 || o.Delivered > now {
		o.Delivered = now
	}
	return err
}

// autoClaimMax bounds XAUTOCLAIM's count, as Redis does.
const autoClaimMax = math.MaxInt64 / 16

func cmdXAutoClaim(c *Ctx) (err error) {
	o := streams.ClaimOptions{Count: -1}
	if o.MinIdle, err = minIdle(c); err != nil {
		return err
	}
	from, open, err := rangeID(c.Args[5], 0)
	if err != nil {
		return err
	}
	if open {
		var ok bool
		if from, ok = from.Next(); !ok {
			return Error("ERR invalid start ID for the interval")
		}
	}
	count := int64(100)
	for args := c.Args[6:]; len(args) > 0; args = args[1:] {
		switch {
		case len(args) > 1 && equalFold(args[0], "count"):
			args = args[1:]
			if count, err = parseInt(args[0]); err != nil || count < 1 || count > autoClaimMax {
				return Error("ERR COUNT must be > 0")
			}
		case equalFold(args[0], "justid"):
			o.JustID = true
		default:
			return errSyntax
		}
	}
	o.Delivered = c.Tx.Now()
	list, deleted, next, err := streams.AutoClaim(c.Tx, c.Args[1], c.Args[2], c.Args[3], from, int(count), o)
	if err != nil {
		return noKeyOrGroup(err, c.Args[1], c.Args[2])
	}
	c.Reply.Array(3)
	c.Reply.id(next)
	c.Reply.claimed(list, o.JustID)
	c.Reply.Array(len(deleted))
	for _, id := range deleted {
		c.Reply.id(id)
	}
	return nil
}

// served is what one stream of an XREADGROUP has for the consumer.
type served struct {
	key     []byte
	history bool
	list    []streams.Entry
	pending []streams.HistoryEntry
	change  streams.Change
}

func cmdXReadGroup(c *Ctx) error {
	o, err := parseRead(c)
	if err != nil {
		return err
	}
	if o.group == nil {
		return Error("ERR Missing GROUP option for XREADGROUP")
	}
	if c.Resume == ResumeNone || c.Multi {
		if done, err := readGroupNow(c, &o); done || err != nil {
			return err
		}
		if !o.block {
			c.Reply.NullArray()
			return nil
		}
	}
	return c.Block(Wait{
		Keys: o.keys, Type: keyspace.TypeStream, Timeout: o.timeout, None: c.Reply.NullArray,
		Try: func(key []byte) (bool, error) {
			if c.Resume != ResumeReady {
				return false, nil
			}
			return readGroupOne(c, &o, key)
		},
	})
}

// serve finds what a stream has for the consumer. after is nil for new entries.
func serve(c *Ctx, o *readOptions, key []byte, after *streams.ID, count int) (s served, err error) {
	s.key = key
	if s.history = after != nil; s.history {
		s.pending, s.change, err = streams.History(c.Tx, key, o.group, o.who, *after, count)
	} else {
		s.list, s.change, err = streams.Deliver(c.Tx, key, o.group, o.who, count, o.noack)
	}
	return s, err
}

// readGroupNow replies with what there is of all streams, and reports whether there is any.
func readGroupNow(c *Ctx, o *readOptions) (bool, error) {
	after := make([]*streams.ID, len(o.keys))
	for i, key := range o.keys {
		switch ok, err := streams.GroupExists(c.Tx, key, o.group); {
		case err != nil:
			return false, err
		case !ok:
			return false, noGroupOfRead(key, o.group)
		}
		switch arg := string(o.idArgs[i]); arg {
		case "$":
			return false, Error("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.")
		case ">":
		default:
			id, err := strictID(o.idArgs[i])
			if err != nil {
				return false, err
			}
			after[i] = &id
		}
	}
	var all []served
	var changes []streams.Change
	var missed error
	for i, key := range o.keys {
		if after[i] == nil && !c.Multi && c.Srv.Ahead(c, key) {
			continue // somebody who has waited is being served
		}
		s, err := serve(c, o, key, after[i], o.count)
		if err != nil {
			if miss, _ := Retry(err); !miss {
				return false, err
			}
			missed = err
		}
		changes = append(changes, s.change)
		if s.history || len(s.list) > 0 {
			all = append(all, s)
		}
	}
	if missed != nil {
		return false, missed
	}
	if err := streams.Apply(c.Tx, changes...); err != nil || len(all) == 0 {
		return false, err
	}
	c.Reply.beginStreams(len(all))
	for i := range all {
		c.Reply.served(&all[i])
	}
	return true, nil
}

func noGroupOfRead(key, group []byte) error {
	return Error("NOGROUP No such key '" + string(key) + "' or consumer group '" + string(group) + "' in XREADGROUP with GROUP option")
}

func (r *Reply) served(s *served) {
	r.nameStream(s.key)
	if !s.history {
		r.entries(s.list)
		return
	}
	r.Array(len(s.pending))
	for i := range s.pending {
		if e := &s.pending[i]; e.Gone {
			r.Array(2)
			r.id(e.ID)
			r.NullArray()
		} else {
			r.entry(&e.Entry)
		}
	}
}

// readGroupOne replies with the new entries of one stream, to a client that has waited.
func readGroupOne(c *Ctx, o *readOptions, key []byte) (bool, error) {
	it, err := c.Tx.Find(key)
	switch {
	case err != nil:
		return false, err
	case it.Type != keyspace.TypeStream: // it is told, where other commands go on waiting
		return false, Error("UNBLOCKED the stream key no longer exists")
	}
	if ok, err := streams.GroupExists(c.Tx, key, o.group); err != nil || !ok {
		return false, errors.Join(err, Error("NOGROUP the consumer group this client was blocked on no longer exists"))
	}
	count := o.count
	if count == 0 {
		count = blockedCount
	}
	s, err := serve(c, o, key, nil, count)
	if err != nil || len(s.list) == 0 {
		return false, err
	}
	if err := streams.Apply(c.Tx, s.change); err != nil {
		return false, err
	}
	c.Reply.beginStreams(1)
	c.Reply.served(&s)
	return true, nil
}
