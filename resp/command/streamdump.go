package command

import (
	"math"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/kvs/rdb"
	"cvmstore/streams"
)

// DUMP and RESTORE of streams: between what the store holds and Redis' format.

func dumpStream(c *Ctx) error {
	key := c.Args[1]
	i, _, err := streams.Stat(c.Tx, key)
	if err != nil {
		return err
	}
	list, err := streams.Range(c.Tx, key, streams.RangeOptions{To: streams.IDMax})
	if err != nil {
		return err
	}
	groups, _, err := streams.Groups(c.Tx, key, 0)
	if err != nil {
		return err
	}
	s := rdb.Stream{Last: rdb.StreamID(i.Last), First: rdb.StreamID(i.First), MaxDeleted: rdb.StreamID(i.MaxDeleted), Added: i.Added}
	for k := range list {
		e := rdb.StreamEntry{ID: rdb.StreamID(list[k].ID)}
		streams.Fields(list[k].Fields, func(field, value []byte) { e.Pairs = append(e.Pairs, field, value) })
		s.Entries = append(s.Entries, e)
	}
	for k := range groups {
		s.Groups = append(s.Groups, dumpGroup(&groups[k]))
	}
	c.Reply.Bulk(rdb.AppendStream(nil, &s))
	return nil
}

func dumpGroup(g *streams.GroupInfo) rdb.StreamGroup {
	out := rdb.StreamGroup{Name: []byte(g.Name), Last: rdb.StreamID(g.Last), Read: g.Read}
	for _, p := range g.List {
		out.Pending = append(out.Pending, rdb.StreamPending{ID: rdb.StreamID(p.ID), Delivered: p.Delivered, Count: p.Count})
	}
	for _, x := range g.Consumers {
		c := rdb.StreamConsumer{Name: []byte(x.Name), Seen: x.Seen, Active: x.Active}
		for _, p := range x.List {
			c.Pending = append(c.Pending, rdb.StreamID(p.ID))
		}
		out.Consumers = append(out.Consumers, c)
	}
	return out
}

// restoreStream is kvs.Restore for streams.
func restoreStream(t *keyspace.Tx, key, payload []byte, o kvs.RestoreOptions) error {
	it, err := t.Find(key)
	if err != nil {
		return err
	}
	if it.Exists() && !o.Replace {
		return kvs.ErrBusyKey
	}
	s, err := rdb.ParseStream(payload, math.MaxInt32)
	if err != nil {
		return err
	}
	if o.Expire && o.Expiry <= t.Now() {
		_, err := t.Del([][]byte{key})
		return err
	}
	in := streams.Content{Last: streams.ID(s.Last), MaxDeleted: streams.ID(s.MaxDeleted), Added: s.Added}
	if o.Expire {
		in.Expiry = o.Expiry
	}
	for _, e := range s.Entries {
		in.Entries = append(in.Entries, streams.Entry{ID: streams.ID(e.ID), Fields: streams.AppendFields(nil, e.Pairs)})
	}
	for i := range s.Groups {
		in.Groups = append(in.Groups, restoreGroup(&s.Groups[i]))
	}
	if err := streams.Restore(t, key, &in); err != nil {
		return err
	}
	t.SetUse(key, o.Idle, o.Uses)
	return nil
}

func restoreGroup(g *rdb.StreamGroup) streams.GroupInfo {
	out := streams.GroupInfo{Name: string(g.Name), Last: streams.ID(g.Last), Read: g.Read}
	of := map[rdb.StreamID]rdb.StreamPending{}
	for _, p := range g.Pending {
		of[p.ID] = p
	}
	for _, c := range g.Consumers {
		x := streams.ConsumerInfo{Name: string(c.Name), Seen: c.Seen, Active: c.Active}
		for _, id := range c.Pending {
			p := of[id]
			x.List = append(x.List, streams.PendingInfo{ID: streams.ID(id), Delivered: p.Delivered, Count: p.Count})
		}
		out.Consumers = append(out.Consumers, x)
	}
	return out
}
