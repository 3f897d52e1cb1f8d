package command

import (
	"math"

	"cvmstore/keyspace"
	"cvmstore/streams"
)

func streamCommands() []Command {
	const read, write = ReadOnly, Write | DenyOOM
	const g = "stream"
	key := func(name string, arity int, flags Flag, since, summary string, h func(*Ctx) error) Command {
		return Command{Name: name, Arity: arity, Flags: flags, Group: g, First: 1, Last: 1, Step: 1, Since: since, Summary: summary, Handler: h}
	}
	return []Command{
		key("xadd", -5, write|Fast, "5.0.0", "Appends an entry to a stream.", cmdXAdd),
		key("xlen", 2, read|Fast, "5.0.0", "Counts the entries of a stream.", cmdXLen),
		key("xrange", -4, read, "5.0.0", "Returns the entries between two IDs.", cmdXRange),
		key("xrevrange", -4, read, "5.0.0", "Returns the entries between two IDs, from the last one on.", cmdXRange),
		key("xdel", -3, Write|Fast, "5.0.0", "Deletes entries of a stream.", cmdXDel),
		key("xtrim", -4, Write, "5.0.0", "Deletes entries from the front of a stream.", cmdXTrim),
		key("xsetid", -3, write|Fast, "5.0.0", "Sets the last ID of a stream, and what it counts.", cmdXSetID),
		{Name: "xread", Arity: -4, Flags: ReadOnly | Blocking, Group: g, Movable: streamKeys, Since: "5.0.0", Summary: "Returns the entries of streams behind given IDs, and may wait for some.", Handler: cmdXRead},
		xinfoCommand(),
	}
}

// entry appends an entry: its ID, and an array of its fields and values.
func (r *Reply) entry(e *streams.Entry) {
	r.Array(2)
	r.id(e.ID)
	r.fields(e.Fields)
}

func (r *Reply) fields(p []byte) {
	r.Array(2 * streams.FieldCount(p))
	streams.Fields(p, func(field, value []byte) {
		r.Bulk(field)
		r.Bulk(value)
	})
}

func (r *Reply) entries(list []streams.Entry) {
	r.Array(len(list))
	for i := range list {
		r.entry(&list[i])
	}
}

func (r *Reply) id(id streams.ID) {
	var room [48]byte
	r.Bulk(id.Append(room[:0]))
}

// strictID parses an ID that is neither - nor +.
func strictID(b []byte) (streams.ID, error) { return streams.ParseID(b, 0) }

// rangeID parses an end of a range: seq is the sequence number of one that names only milliseconds.
func rangeID(b []byte, seq uint64) (id streams.ID, open bool, err error) {
	switch {
	case len(b) == 1 && b[0] == '-':
		return streams.ID{}, false, nil
	case len(b) == 1 && b[0] == '+':
		return streams.IDMax, false, nil
	case len(b) > 1 && b[0] == '(':
		id, err = streams.ParseID(b[1:], seq)
		return id, true, err
	}
	id, err = streams.ParseID(b, seq)
	return id, false, err
}

// interval parses both ends of a range.
func interval(from, to []byte) (a, b streams.ID, err error) {
	a, open, err := rangeID(from, 0)
	if err != nil {
		return a, b, err
	}
	if open {
		next, ok := a.Next()
		if !ok {
			return a, b, Error("ERR invalid start ID for the interval")
		}
		a = next
	}
	if b, open, err = rangeID(to, math.MaxUint64); err != nil {
		return a, b, err
	}
	if open {
		prev, ok := b.Prev()
		if !ok {
			return a, b, Error("ERR invalid end ID for the interval")
		}
		b = prev
	}
	return a, b, nil
}

// trimOptions parses what XADD and XTRIM have in common, from argument 2 on, and returns where it ends: at XADD's ID.
func trimOptions(c *Ctx, o *streams.AddOptions, add bool) (i int, err error) {
	limited := false
	for i = 2; i < len(c.Args); i++ {
		arg, more := c.Args[i], len(c.Args)-1-i
		switch {
		case add && string(arg) == "*":
			o.Auto = true
			return i, checkLimit(c, o, add, limited)
		case equalFold(arg, "maxlen") && more > 0, equalFold(arg, "minid") && more > 0:
			if o.Trim.By != streams.TrimNone {
				return 0, Error("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
			}
			o.Trim.Approx = false
			if next := string(c.Args[i+1]); more >= 2 && (next == "~" || next == "=") {
				o.Trim.Approx = next == "~"
				i++
			}
			i++
			if err := trimBound(&o.Trim, equalFold(arg, "maxlen"), c.Args[i]); err != nil {
				return 0, err
			}
		case equalFold(arg, "limit") && more > 0:
			n, err := parseInt(c.Args[i+1])
			if err != nil {
				return 0, err
			}
			if n < 0 {
				return 0, Error("ERR The LIMIT argument must be >= 0.")
			}
			o.Trim.Limit, limited = uint64(n), true
			i++
		case add && equalFold(arg, "nomkstream"):
			o.NoMake = true
		case add:
			if err := addID(o, arg); err != nil {
				return 0, err
			}
			return i, checkLimit(c, o, add, limited)
		default:
			return 0, errSyntax
		}
	}
	return i, checkLimit(c, o, add, limited)
}

func trimBound(t *streams.Trim, length bool, arg []byte) error {
	if !length {
		id, err := strictID(arg)
		t.By, t.MinID = streams.TrimMinID, id
		return err
	}
	n, err := parseInt(arg)
	if err != nil {
		return err
	}
	if n < 0 {
		return Error("ERR The MAXLEN argument must be >= 0.")
	}
	t.By, t.MaxLen = streams.TrimMaxLen, uint64(n)
	return nil
}

// addID parses XADD's ID: milliseconds and perhaps a sequence number, which * chooses.
func addID(o *streams.AddOptions, arg []byte) (err error) {
	if n := len(arg); n > 2 && string(arg[n-2:]) == "-*" {
		o.AutoSeq = true
		arg = arg[:n-2]
		for _, b := range arg {
			if b == '-' {
				return streams.ErrID
			}
		}
	}
	o.ID, err = strictID(arg)
	return err
}

// checkLimit checks what belongs together, and sets the limit that Redis sets where none is given.
func checkLimit(c *Ctx, o *streams.AddOptions, add, limited bool) error {
	t := &o.Trim
	switch {
	case t.Limit > 0 && t.By == streams.TrimNone:
		return Error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
	case !add && t.By == streams.TrimNone:
		return Error("ERR syntax error, XTRIM must be called with a trimming strategy")
	case limited && !t.Approx:
		return Error("ERR syntax error, LIMIT cannot be used without the special ~ option")
	case !limited && t.Approx:
		t.Limit = 100 * uint64(streams.Of(c.Space).LeafEntries())
	}
	return nil
}

func cmdXAdd(c *Ctx) error {
	var o streams.AddOptions
	i, err := trimOptions(c, &o, true)
	if err != nil {
		return err
	}
	pairs := c.Args[min(i+1, len(c.Args)):]
	if len(pairs) < 2 || len(pairs)%2 != 0 {
		return wrongArity(c.Cmd.Name)
	}
	if !o.Auto && !o.AutoSeq && o.ID.Zero() {
		return streams.ErrZeroID
	}
	id, added, err := streams.Add(c.Tx, c.Args[1], o, pairs)
	if err != nil {
		return err
	}
	if added {
		c.Reply.id(id)
	} else {
		c.Reply.Null()
	}
	return nil
}

func cmdXLen(c *Ctx) error {
	n, err := streams.Len(c.Tx, c.Args[1])
	return intReply(c, int64(n), err)
}

func cmdXRange(c *Ctx) (err error) {
	o := streams.RangeOptions{Reverse: c.Cmd.Name == "xrevrange"}
	from, to := c.Args[2], c.Args[3]
	if o.Reverse {
		from, to = to, from
	}
	if o.From, o.To, err = interval(from, to); err != nil {
		return err
	}
	none := false
	for args := c.Args[4:]; len(args) > 0; args = args[2:] {
		if len(args) < 2 || !equalFold(args[0], "count") {
			return errSyntax
		}
		n, err := parseInt(args[1])
		if err != nil {
			return err
		}
		none, o.Count = n <= 0, int(max(n, 0))
	}
	if none {
		switch it, err := c.Tx.Find(c.Args[1]); {
		case err != nil:
			return err
		case !it.Exists():
			c.Reply.Array(0)
		case it.Type != keyspace.TypeStream:
			return keyspace.ErrWrongType
		default:
			c.Reply.NullArray()
		}
		return nil
	}
	list, err := streams.Range(c.Tx, c.Args[1], o)
	if err != nil {
		return err
	}
	c.Reply.entries(list)
	return nil
}

func parseIDs(args [][]byte) ([]streams.ID, error) {
	ids := make([]streams.ID, len(args))
	for i, a := range args {
		id, err := strictID(a)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

func cmdXDel(c *Ctx) error {
	n := 0
	_, ok, err := streams.Stat(c.Tx, c.Args[1])
	if err != nil || !ok { // without a key the IDs are not looked at
		return intReply(c, 0, err)
	}
	ids, err := parseIDs(c.Args[2:])
	if err == nil {
		n, err = streams.Delete(c.Tx, c.Args[1], ids)
	}
	return intReply(c, int64(n), err)
}

func cmdXTrim(c *Ctx) error {
	var o streams.AddOptions
	if _, err := trimOptions(c, &o, false); err != nil {
		return err
	}
	n, err := streams.XTrim(c.Tx, c.Args[1], o.Trim)
	return intReply(c, int64(n), err)
}

func cmdXSetID(c *Ctx) (err error) {
	o := streams.SetIDOptions{Added: -1}
	if o.Last, err = strictID(c.Args[2]); err != nil {
		return err
	}
	for args := c.Args[3:]; len(args) > 0; args = args[2:] {
		switch {
		case len(args) > 1 && equalFold(args[0], "entriesadded"):
			if o.Added, err = parseInt(args[1]); err != nil {
				return err
			}
			if o.Added < 0 {
				return Error("ERR entries_added must be positive")
			}
		case len(args) > 1 && equalFold(args[0], "maxdeletedid"):
			if o.MaxDeleted, err = strictID(args[1]); err != nil {
				return err
			}
			if o.Last.Less(o.MaxDeleted) {
				return streams.ErrSetIDDeleted
			}
		default:
			return errSyntax
		}
	}
	if err := streams.SetID(c.Tx, c.Args[1], o); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}
