package streams

import (
	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Content is all that a stream holds, for who copies or restores one.
type Content struct {
	Entries    []Entry // in order
	Last       ID
	MaxDeleted ID
	Added      uint64
	Expiry     int64       // of the key: store time, ms; 0: never
	Groups     []GroupInfo // their consumers with what they have pending
}

// Restore makes a key a stream, over whatever it held.
func Restore(t *keyspace.Tx, key []byte, in *Content) error {
	return write(t, key, in, keyspace.Put{Expiry: in.Expiry, Event: "restore"}, func() {})
}

// Copy implements keyspace.LargeType. The copy has records of its own, of the same IDs.
func (y *Streams) Copy(t *keyspace.Tx, ref uint64, to []byte, toDB int, o keyspace.Put) error {
	src := y.get(ref)
	t.See(src.newest)
	list, err := src.entries(t, to, RangeOptions{To: IDMax})
	if err != nil {
		return err
	}
	in := Content{Entries: list, Last: src.head.last, MaxDeleted: src.head.maxDeleted, Added: src.head.added}
	for _, g := range sortedGroups(src.groups) {
		in.Groups = append(in.Groups, src.describe(g, 0))
	}
	return write(t, to, &in, o, func() { t.Use(toDB) })
}

// write makes a key a stream with a content, in one batch. ready comes between the reservation and the first change.
func write(t *keyspace.Tx, key []byte, in *Content, o keyspace.Put, ready func()) error {
	bytes, records := createSize(key)+headSize, 3
	for i := range in.Entries {
		n := entryHeader + len(in.Entries[i].Fields)
		if n > t.MaxRecord() {
			return ErrTooLarge
		}
		bytes, records = bytes+n, records+1
	}
	for i := range in.Groups {
		g := &in.Groups[i]
		bytes, records = bytes+groupSize(g.Name), records+1
		for k := range g.Consumers {
			x := &g.Consumers[k]
			if max(groupSize(g.Name), consumerSize(x.Name)) > t.MaxRecord() {
				return ErrTooLarge
			}
			bytes, records = bytes+consumerSize(x.Name)+len(x.List)*pendingSize, records+1+len(x.List)
		}
	}
	if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
		return err
	}
	ready()
	event := o.Event
	o.Event = ""
	s := create(t, key, o, head{})
	for i := range in.Entries {
		e := &in.Entries[i]
		s.append(t, e.ID, &body{fields: e.Fields, n: len(e.Fields)})
	}
	s.head.last, s.head.maxDeleted, s.head.added = in.Last, in.MaxDeleted, in.Added
	s.putHead(t)
	for i := range in.Groups {
		s.writeGroup(t, &in.Groups[i])
	}
	t.ChangedValue(key, event, s.newest)
	s.weigh()
	return nil
}

func (s *stream) writeGroup(t *keyspace.Tx, in *GroupInfo) {
	g := &group{name: in.Name, last: in.Last, read: in.Read, consumers: map[string]*consumer{}}
	s.groups[g.name] = g
	s.putGroup(t, g)
	for i := range in.Consumers {
		c := &in.Consumers[i]
		x := &consumer{name: c.Name, seen: c.Seen, active: c.Active}
		g.consumers[x.name] = x
		s.putConsumer(t, g, x)
		for _, p := range c.List {
			n := &pending{id: p.ID, consumer: x, delivered: p.Delivered, count: p.Count}
			g.pending.insert(n)
			x.pending.insert(n)
			s.putPending(t, g, n)
		}
	}
}
