package command

import (
	"time"

	"cvmstore/keyspace"
	"cvmstore/streams"
)

// streamKeys finds the keys of XREAD and XREADGROUP: the first half of what follows STREAMS.
func streamKeys(args [][]byte) [][]byte {
	for i := 1; i < len(args); i++ {
		switch {
		case equalFold(args[i], "streams"):
			rest := args[i+1:]
			if len(rest)%2 != 0 {
				return nil
			}
			return rest[:len(rest)/2]
		case equalFold(args[i], "block"), equalFold(args[i], "count"):
			i++
		case equalFold(args[i], "group"):
			i += 2
		case equalFold(args[i], "noack"):
		default:
			return nil
		}
	}
	return nil
}

// readOptions of XREAD and XREADGROUP.
type readOptions struct {
	count        int
	block        bool
	timeout      time.Duration
	noack        bool
	group, who   []byte
	keys, idArgs [][]byte
}

func parseRead(c *Ctx) (o readOptions, err error) {
	grouped := c.Cmd.Name == "xreadgroup"
	args := c.Args[1:]
	for ; len(args) > 0; args = args[1:] {
		more := len(args) - 1
		switch {
		case equalFold(args[0], "block") && more > 0:
			args = args[1:]
			if o.timeout, err = streamTimeout(args[0]); err != nil {
				return o, err
			}
			o.block = true
		case equalFold(args[0], "count") && more > 0:
			args = args[1:]
			n, err := parseInt(args[0])
			if err != nil {
				return o, err
			}
			o.count = int(max(n, 0))
		case equalFold(args[0], "streams") && more > 0:
			if more%2 != 0 {
				return o, Error("ERR Unbalanced '" + c.Cmd.Name + "' list of streams: for each stream key an ID or '$' must be specified.")
			}
			o.keys, o.idArgs = args[1:1+more/2], args[1+more/2:]
			return o, nil
		case equalFold(args[0], "group") && more > 1:
			if !grouped {
				return o, Error("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
			}
			o.group, o.who = args[1], args[2]
			args = args[2:]
		case equalFold(args[0], "noack"):
			if !grouped {
				return o, Error("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
			}
			o.noack = true
		default:
			return o, errSyntax
		}
	}
	return o, errSyntax
}

// streamTimeout parses the timeout of BLOCK, in milliseconds; 0: for ever.
func streamTimeout(arg []byte) (time.Duration, error) {
	n, err := parseInt(arg)
	switch {
	case err != nil:
		return 0, errTimeoutInt
	case n < 0:
		return 0, errTimeoutNeg
	}
	return time.Duration(min(n, int64(1)<<42)) * time.Millisecond, nil
}

// readIDs resolves the IDs of XREAD. Those of a command that has waited are what they were at first.
func readIDs(c *Ctx, o *readOptions) ([]streams.ID, error) {
	if c.Park.Since != nil {
		return c.Park.Since, nil
	}
	ids := make([]streams.ID, len(o.keys))
	for i, key := range o.keys {
		info, _, err := streams.Stat(c.Tx, key)
		if err != nil {
			return nil, err
		}
		switch arg := string(o.idArgs[i]); arg {
		case "$":
			ids[i] = info.Last
		case ">":
			return nil, Error("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.")
		default:
			if ids[i], err = strictID(o.idArgs[i]); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// blockedCount bounds what a client is given that has waited and named no count.
const blockedCount = 1000

func cmdXRead(c *Ctx) error {
	o, err := parseRead(c)
	if err != nil {
		return err
	}
	ids, err := readIDs(c, &o)
	if err != nil {
		return err
	}
	if c.Resume == ResumeNone || c.Multi {
		if done, err := readNow(c, &o, ids); done || err != nil {
			return err
		}
		if !o.block {
			c.Reply.NullArray()
			return nil
		}
	}
	err = c.Block(Wait{
		Keys: o.keys, Type: keyspace.TypeStream, Timeout: o.timeout, None: c.Reply.NullArray,
		Try: func(key []byte) (bool, error) {
			if c.Resume != ResumeReady {
				return false, nil
			}
			for i, k := range o.keys {
				if string(k) == string(key) {
					return readOne(c, &o, i, ids[i])
				}
			}
			return false, nil
		},
	})
	if err == ErrPark {
		c.Park.Since = ids
	}
	return err
}

// readNow replies with what there is of all streams, and reports whether there is any.
func readNow(c *Ctx, o *readOptions, ids []streams.ID) (bool, error) {
	lists := make([][]streams.Entry, len(o.keys))
	n := 0
	var missed error
	for i, key := range o.keys {
		from, ok := ids[i].Next()
		if !ok {
			continue
		}
		list, err := streams.Range(c.Tx, key, streams.RangeOptions{From: from, To: streams.IDMax, Count: o.count})
		if err != nil {
			if miss, _ := Retry(err); !miss {
				return false, err
			}
			missed = err
		}
		if lists[i] = list; len(list) > 0 {
			n++
		}
	}
	if missed != nil || n == 0 {
		return false, missed
	}
	c.Reply.beginStreams(n)
	for i, key := range o.keys {
		if len(lists[i]) > 0 {
			c.Reply.nameStream(key)
			c.Reply.entries(lists[i])
		}
	}
	return true, nil
}

// readOne replies with what there is of one stream, to a client that has waited.
func readOne(c *Ctx, o *readOptions, i int, after streams.ID) (bool, error) {
	from, ok := after.Next()
	if !ok {
		return false, nil
	}
	count := o.count
	if count == 0 {
		count = blockedCount
	}
	list, err := streams.Range(c.Tx, o.keys[i], streams.RangeOptions{From: from, To: streams.IDMax, Count: count})
	if err != nil || len(list) == 0 {
		return false, err
	}
	c.Reply.beginStreams(1)
	c.Reply.nameStream(o.keys[i])
	c.Reply.entries(list)
	return true, nil
}

// beginStreams begins the reply for n streams: a map of name to entries, or in RESP2 an array of pairs.
func (r *Reply) beginStreams(n int) {
	if r.Proto == 3 {
		r.Map(n)
	} else {
		r.Array(n)
	}
}

func (r *Reply) nameStream(key []byte) {
	if r.Proto != 3 {
		r.Array(2)
	}
	r.Bulk(key)
}
