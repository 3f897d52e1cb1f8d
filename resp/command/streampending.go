package command

import (
	"math"
	"strconv"
	"strings"

	"cvmstore/streams"
)

// What is pending in a group: XACK, XPENDING, XCLAIM, XAUTOCLAIM.

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
