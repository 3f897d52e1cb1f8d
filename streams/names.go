package streams

import (
	"fmt"
	"unsafe"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// What groups, consumers and pending entries have in common: each is a name within its stream, whose newest record counts. A name
// that is gone has a tombstone as long as a segment that may hold an older record of it is listed (DESIGN.md 6.3).

// nameKey names one.
type nameKey struct {
	kind     byte // an item's
	group    uint64
	consumer uint64 // of a consumer
	id       ID     // of a pending entry
}

// group is a consumer group.
type group struct {
	item
	name      string
	id        uint64 // counter of its creation
	last      ID     // delivered
	read      int64  // entries, -1: not known
	pending   pendings
	consumers map[string]*consumer
}

// consumer is a consumer of a group.
type consumer struct {
	item
	name         string
	id           uint64
	seen, active int64
	pending      pendings
}

func (g *group) cost() int64 {
	return int64(unsafe.Sizeof(group{})) + int64(len(g.consumers))*int64(unsafe.Sizeof(consumer{})+64) +
		int64(g.pending.n)*int64(unsafe.Sizeof(pending{})+24)
}

func (s *stream) hashName(v *volume.Volume, c volume.Counter, k nameKey) volume.Sum {
	switch k.kind {
	case itemGroup:
		return s.hash(v, c, itemGroup, k.group)
	case itemConsumer:
		return s.hash(v, c, itemConsumer, k.group, k.consumer)
	}
	return s.hash(v, c, itemPending, k.group, k.id.MS, k.id.Seq)
}

func (g *group) key() nameKey { return nameKey{kind: itemGroup, group: g.id} }
func (g *group) consumerKey(c *consumer) nameKey {
	return nameKey{kind: itemConsumer, group: g.id, consumer: c.id}
}
func (g *group) pendingKey(id ID) nameKey { return nameKey{kind: itemPending, group: g.id, id: id} }

// journal appends the newest record of a name, of size bytes, as the one before was if there was one. name is called with its
// counter: a new group or consumer is named by it.
func (s *stream) journal(t *keyspace.Tx, e *item, kind volume.Kind, size int, name func(c volume.Counter) nameKey, fill func(p []byte)) {
	v := t.Volume()
	if e.counter != 0 {
		s.debit(t, s.hashName(v, e.counter, name(e.counter)), e.place, size)
	}
	p, c, at := t.Element(kind, size)
	k := name(c)
	if e.counter == 0 {
		if old, ok := s.buried[k]; ok {
			*e = old
			delete(s.buried, k)
		}
	}
	fill(p)
	e.set(c, at)
	s.credit(t, s.hashName(v, c, k), at, size)
	s.newest = c
	s.purge(v)
}

// bury appends the record that says that a name is gone. was is the size of the one before.
func (s *stream) bury(t *keyspace.Tx, e *item, kind volume.Kind, size, was int, k nameKey, fill func(p []byte)) {
	v := t.Volume()
	s.debit(t, s.hashName(v, e.counter, k), e.place, was)
	p, c, at := t.Element(kind, size)
	fill(p)
	t.Ledger().Dead(at, size) // nobody needs it once the older records are gone, which Live knows
	e.set(c, at)
	s.newest = c
	if v.Lists(e.oldest(), e.place) {
		if s.buried == nil {
			s.buried = map[nameKey]item{}
		}
		s.buried[k] = *e
		s.tombs = append(s.tombs, k)
	}
	s.purge(v)
}

// tombsPerChange is how many tombstones a change looks at: more than it can leave.
const tombsPerChange = 3

// purge forgets tombstones that nothing needs any more.
func (s *stream) purge(v *volume.Volume) {
	for range min(tombsPerChange, len(s.tombs)) {
		k := s.tombs[0]
		s.tombs = s.tombs[1:]
		e, ok := s.buried[k]
		switch {
		case !ok:
		case v.Lists(e.oldest(), e.place):
			s.tombs = append(s.tombs, k)
		default:
			delete(s.buried, k)
		}
	}
}

func groupSize(name string) int    { return groupHeader + len(name) }
func consumerSize(name string) int { return consumerHeader + len(name) }

func (s *stream) fillGroup(g *group, gone bool) func(p []byte) {
	return func(p []byte) {
		le.PutUint64(p, s.incarnation)
		le.PutUint64(p[8:], g.id)
		putID(p[16:], g.last)
		le.PutUint64(p[32:], uint64(g.read))
		le.PutUint64(p[40:], flag(gone))
		copy(p[groupHeader:], g.name)
	}
}

// putGroup journals a group as it is. It takes groupSize of the reservation.
func (s *stream) putGroup(t *keyspace.Tx, g *group) {
	s.journal(t, &g.item, KindGroup, groupSize(g.name), func(c volume.Counter) nameKey {
		if g.id == 0 && g.counter == 0 {
			return nameKey{kind: itemGroup, group: uint64(c)}
		}
		return g.key()
	}, s.fillGroup(g, false))
	if g.id == 0 {
		g.id = uint64(g.counter)
	}
}

func (s *stream) buryGroup(t *keyspace.Tx, g *group) {
	for _, c := range g.consumers {
		s.lose(t, g.consumerKey(c), &c.item, consumerSize(c.name))
	}
	g.pending.ascend(ID{}, func(p *pending) bool {
		s.lose(t, g.pendingKey(p.id), &p.item, pendingSize)
		return true
	})
	delete(s.groups, g.name)
	s.bury(t, &g.item, KindGroup, groupSize(g.name), groupSize(g.name), g.key(), s.fillGroup(g, true))
}

// lose takes out what goes with its group, without a record of its own.
func (s *stream) lose(t *keyspace.Tx, k nameKey, e *item, size int) {
	s.debit(t, s.hashName(t.Volume(), e.counter, k), e.place, size)
}

func (s *stream) fillConsumer(g *group, x *consumer, gone bool) func(p []byte) {
	return func(p []byte) {
		le.PutUint64(p, s.incarnation)
		le.PutUint64(p[8:], g.id)
		le.PutUint64(p[16:], x.id)
		le.PutUint64(p[24:], uint64(x.seen))
		le.PutUint64(p[32:], uint64(x.active))
		le.PutUint64(p[40:], flag(gone))
		copy(p[consumerHeader:], x.name)
	}
}

// putConsumer journals a consumer as it is. It takes consumerSize of the reservation.
func (s *stream) putConsumer(t *keyspace.Tx, g *group, x *consumer) {
	s.journal(t, &x.item, KindConsumer, consumerSize(x.name), func(c volume.Counter) nameKey {
		if x.id == 0 && x.counter == 0 {
			return nameKey{kind: itemConsumer, group: g.id, consumer: uint64(c)}
		}
		return g.consumerKey(x)
	}, s.fillConsumer(g, x, false))
	if x.id == 0 {
		x.id = uint64(x.counter)
	}
}

// buryConsumer takes a consumer out, with its pending entries: ackSize for each, and consumerSize, of the reservation.
func (s *stream) buryConsumer(t *keyspace.Tx, g *group, x *consumer) {
	for x.pending.n > 0 {
		s.ack(t, g, x.pending.first())
	}
	delete(g.consumers, x.name)
	s.bury(t, &x.item, KindConsumer, consumerSize(x.name), consumerSize(x.name), g.consumerKey(x), s.fillConsumer(g, x, true))
}

// putPending journals a pending entry as it is, of its consumer. It takes pendingSize of the reservation.
func (s *stream) putPending(t *keyspace.Tx, g *group, p *pending) {
	k := g.pendingKey(p.id)
	s.journal(t, &p.item, KindPending, pendingSize, func(volume.Counter) nameKey { return k }, func(b []byte) {
		le.PutUint64(b, s.incarnation)
		le.PutUint64(b[8:], g.id)
		putID(b[16:], p.id)
		le.PutUint64(b[32:], p.consumer.id)
		le.PutUint64(b[40:], uint64(p.delivered))
		le.PutUint64(b[48:], p.count)
	})
}

// ack takes a pending entry out. It takes ackSize of the reservation.
func (s *stream) ack(t *keyspace.Tx, g *group, p *pending) {
	g.pending.remove(p.id)
	p.consumer.pending.remove(p.id)
	s.bury(t, &p.item, KindAck, ackSize, pendingSize, g.pendingKey(p.id), func(b []byte) {
		le.PutUint64(b, s.incarnation)
		le.PutUint64(b[8:], g.id)
		putID(b[16:], p.id)
	})
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// named is the newest record of a name that recovery has found.
type named struct {
	item
	size int
	gone bool
	text string
	id   ID
	a, b int64
	c    uint64
}

// decodeName decodes a record of a group, a consumer or a pending entry.
func decodeName(r *volume.Record) (k nameKey, n named, err error) {
	p := r.Payload
	own := func(x uint64) uint64 {
		if x == 0 {
			return uint64(r.Counter)
		}
		return x
	}
	n.size = r.Size
	switch {
	case r.Kind == KindGroup && len(p) >= groupHeader:
		k = nameKey{kind: itemGroup, group: own(le.Uint64(p[8:]))}
		n.id, n.a, n.text = getID(p[16:]), int64(le.Uint64(p[32:])), string(p[groupHeader:])
		n.gone, err = gone(p[40:])
	case r.Kind == KindConsumer && len(p) >= consumerHeader:
		k = nameKey{kind: itemConsumer, group: le.Uint64(p[8:]), consumer: own(le.Uint64(p[16:]))}
		n.a, n.b, n.text = int64(le.Uint64(p[24:])), int64(le.Uint64(p[32:])), string(p[consumerHeader:])
		n.gone, err = gone(p[40:])
	case r.Kind == KindPending && len(p) == pendingSize:
		k = nameKey{kind: itemPending, group: le.Uint64(p[8:]), id: getID(p[16:])}
		n.c, n.a, n.b = le.Uint64(p[32:]), int64(le.Uint64(p[40:])), int64(le.Uint64(p[48:]))
	case r.Kind == KindAck && len(p) == ackSize:
		k = nameKey{kind: itemPending, group: le.Uint64(p[8:]), id: getID(p[16:])}
		n.gone = true
	default:
		err = malformed(r.Kind, p)
	}
	return k, n, err
}

func gone(p []byte) (bool, error) {
	switch le.Uint64(p) {
	case 0:
		return false, nil
	case 1:
		return true, nil
	}
	return false, errRecord
}

func (q *replaying) name(r *volume.Record) error {
	k, n, err := decodeName(r)
	if err != nil {
		return err
	}
	old := q.names[k]
	if old == nil {
		old = &named{}
		q.names[k] = old
	}
	switch {
	case r.Counter > old.counter:
		n.item = old.item
		n.set(r.Counter, r.Place)
		*old = n
	case r.Counter == old.counter:
		old.set(r.Counter, max(r.Place, old.place))
		old.first = min(old.first, uint32(r.Place>>32))
	default:
		old.first = min(old.first, uint32(r.Place>>32))
	}
	return nil
}

// settleNames makes the groups.
func (s *stream) settleNames(_ *volume.Volume, names map[nameKey]*named, d *volume.Delta) error {
	groups := map[uint64]*group{}
	consumers := map[[2]uint64]*consumer{}
	live := func(n *named) {
		s.newest = max(s.newest, n.counter)
		s.took(n.place, n.size)
		d.Live(n.place, n.size)
	}
	for k, n := range names {
		switch {
		case n.gone:
			s.newest = max(s.newest, n.counter)
			if n.oldest()>>32 < n.place>>32 {
				if s.buried == nil {
					s.buried = map[nameKey]item{}
				}
				s.buried[k] = n.item
				s.tombs = append(s.tombs, k)
			}
		case k.kind == itemGroup:
			if s.groups[n.text] != nil {
				return fmt.Errorf("two groups of one name")
			}
			g := &group{item: n.item, name: n.text, id: k.group, last: n.id, read: n.a, consumers: map[string]*consumer{}}
			s.groups[n.text], groups[g.id] = g, g
			live(n)
		}
	}
	for k, n := range names {
		if g := groups[k.group]; k.kind == itemConsumer && !n.gone && g != nil {
			x := &consumer{item: n.item, name: n.text, id: k.consumer, seen: n.a, active: n.b}
			g.consumers[n.text], consumers[[2]uint64{g.id, x.id}] = x, x
			live(n)
		}
	}
	for k, n := range names {
		g := groups[k.group]
		if k.kind != itemPending || n.gone || g == nil {
			continue
		}
		x := consumers[[2]uint64{g.id, n.c}]
		if x == nil {
			return fmt.Errorf("%s is pending for a consumer that is missing", nameOf(k.id))
		}
		p := &pending{item: n.item, id: k.id, consumer: x, delivered: n.a, count: uint64(n.b)}
		g.pending.insert(p)
		x.pending.insert(p)
		x.seen, x.active = max(x.seen, p.delivered), max(x.active, p.delivered)
		live(n)
	}
	return nil
}

// hashNames adds up the multiset items of groups, consumers and pending entries.
func (s *stream) hashNames(v *volume.Volume) (sum volume.Sum) {
	for _, g := range s.groups {
		sum.Add(s.hashName(v, g.counter, g.key()))
		for _, x := range g.consumers {
			sum.Add(s.hashName(v, x.counter, g.consumerKey(x)))
		}
		g.pending.ascend(ID{}, func(p *pending) bool {
			sum.Add(s.hashName(v, p.counter, g.pendingKey(p.id)))
			return true
		})
	}
	return sum
}

// named finds the item of a name, whether it is there or buried.
func (s *stream) named(k nameKey, n *named) (e *item, buried bool) {
	if e, ok := s.buried[k]; ok {
		return &e, true
	}
	for _, g := range s.groups {
		if g.id != k.group {
			continue
		}
		switch k.kind {
		case itemGroup:
			return &g.item, false
		case itemConsumer:
			if x := g.consumers[n.text]; x != nil && x.id == k.consumer {
				return &x.item, false
			}
		case itemPending:
			if p := g.pending.find(k.id); p != nil {
				return &p.item, false
			}
		}
	}
	return nil, false
}
