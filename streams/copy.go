package streams

import (
	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Copy implements keyspace.LargeType. The copy has entries of its own, of the same IDs, and no groups' readers but the groups, as
// Redis' has.
func (y *Streams) Copy(t *keyspace.Tx, ref uint64, to []byte, toDB int, o keyspace.Put) error {
	src := y.get(ref)
	t.See(src.newest)
	list, err := src.entries(t, to, RangeOptions{To: IDMax})
	if err != nil {
		return err
	}
	bytes, records := createSize(to)+headSize, 3
	for i := range list {
		bytes += entryHeader + len(list[i].Fields)
		records++
	}
	for _, g := range src.groups {
		bytes, records = bytes+groupSize(g.name), records+1
		for _, x := range g.consumers {
			bytes, records = bytes+consumerSize(x.name)+x.pending.n*pendingSize, records+1+x.pending.n
		}
	}
	if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
		return err
	}
	t.Use(toDB)
	event := o.Event
	o.Event = ""
	s := create(t, to, o, head{})
	for i := range list {
		s.append(t, list[i].ID, &body{fields: list[i].Fields, n: len(list[i].Fields)})
	}
	s.head.last, s.head.maxDeleted, s.head.added = src.head.last, src.head.maxDeleted, src.head.added
	s.putHead(t)
	for _, g := range sortedGroups(src.groups) {
		s.copyGroup(t, g)
	}
	if event != "" {
		t.ChangedValue(to, event, s.newest)
	}
	s.weigh()
	return nil
}

func (s *stream) copyGroup(t *keyspace.Tx, from *group) {
	g := &group{name: from.name, last: from.last, read: from.read, consumers: map[string]*consumer{}}
	s.groups[g.name] = g
	s.putGroup(t, g)
	for _, c := range sortedConsumers(from.consumers) {
		x := &consumer{name: c.name, seen: c.seen, active: c.active}
		g.consumers[x.name] = x
		s.putConsumer(t, g, x)
		c.pending.ascend(ID{}, func(p *pending) bool {
			n := &pending{id: p.id, consumer: x, delivered: p.delivered, count: p.count}
			g.pending.insert(n)
			x.pending.insert(n)
			s.putPending(t, g, n)
			return true
		})
	}
}
