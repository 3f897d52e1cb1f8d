package command

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/streams"
)

// XREADGROUP.

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
	return Error("NOGROUP No such key '" + clip(key, len(key)) + "' or consumer group '" + clip(group, len(group)) + "' in XREADGROUP with GROUP option")
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
