package streams

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// What changes hands within a group. All of it is journaled in one batch with what it replies: the group's position, the pending
// entries, and a consumer that is new.

// Change is what a command has prepared: it knows all that it needs, and nothing is changed yet.
type Change struct {
	bytes, records int
	apply          func()
}

// Apply makes changes as one batch.
func Apply(t *keyspace.Tx, changes ...Change) error {
	bytes, records := 0, 0
	for _, c := range changes {
		bytes += c.bytes
		records += c.records
	}
	if records > 0 {
		if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.apply != nil {
			c.apply()
		}
	}
	return nil
}

// Deliver finds at most count new entries, those behind the group's last delivered ID; 0: all. The change gives them to a
// consumer, which is made if need be; with noack they do not become pending.
func Deliver(t *keyspace.Tx, key, name, who []byte, count int, noack bool) (list []Entry, c Change, err error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		return nil, c, err
	}
	if consumerHeader+len(who) > t.MaxRecord() {
		return nil, c, ErrTooLarge
	}
	if from, ok := g.last.Next(); ok {
		if list, err = s.entries(t, key, RangeOptions{From: from, To: IDMax, Count: count}); err != nil {
			return nil, c, err
		}
	}
	if g.consumers[string(who)] == nil {
		c.bytes, c.records = consumerSize(string(who)), 1
	}
	if len(list) > 0 {
		c.bytes, c.records = c.bytes+groupSize(g.name), c.records+1
		if !noack {
			c.bytes, c.records = c.bytes+len(list)*pendingSize, c.records+len(list)
		}
	}
	c.apply = func() { s.deliver(t, key, g, who, list, noack) }
	return list, c, nil
}

func (s *stream) deliver(t *keyspace.Tx, key []byte, g *group, who []byte, list []Entry, noack bool) {
	x := s.consumer(t, key, g, who)
	if len(list) > 0 {
		x.active = t.Now()
		for i := range list {
			s.passed(g, list[i].ID)
			if !noack {
				s.assign(t, g, x, list[i].ID)
			}
		}
		s.putGroup(t, g)
	}
	s.weigh()
}

// consumer returns a consumer, made if need be, that was seen now.
func (s *stream) consumer(t *keyspace.Tx, key []byte, g *group, who []byte) *consumer {
	x := g.consumers[string(who)]
	if x == nil {
		return s.newConsumer(t, key, g, who)
	}
	x.seen = t.Now()
	return x
}

// passed moves a group on to an entry.
func (s *stream) passed(g *group, id ID) {
	if g.read >= 0 && !s.holes(id) {
		g.read++
	} else if s.head.added > 0 {
		g.read = s.distance(id)
	}
	g.last = id
}

// assign makes an entry pending for a consumer, as delivered now for the first time, whoever it was pending for.
func (s *stream) assign(t *keyspace.Tx, g *group, x *consumer, id ID) {
	p := g.pending.find(id)
	if p == nil {
		p = &pending{id: id}
		g.pending.insert(p)
	}
	s.give(p, x)
	p.delivered, p.count = t.Now(), 1
	s.putPending(t, g, p)
}

// give changes whose a pending entry is.
func (s *stream) give(p *pending, x *consumer) {
	if p.consumer == x {
		return
	}
	if p.consumer != nil {
		p.consumer.pending.remove(p.id)
	}
	p.consumer = x
	x.pending.insert(p)
}

// HistoryEntry is an entry that is pending; Gone: it was deleted from the stream since.
type HistoryEntry struct {
	Entry
	Gone bool
}

// History finds what is pending for a consumer behind an ID, at most count; 0: all. The change counts as a delivery of those that
// are still in the stream, and makes the consumer if need be.
func History(t *keyspace.Tx, key, name, who []byte, after ID, count int) (list []HistoryEntry, c Change, err error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		return nil, c, err
	}
	if consumerHeader+len(who) > t.MaxRecord() {
		return nil, c, ErrTooLarge
	}
	x := g.consumers[string(who)]
	from, ok := after.Next()
	if x == nil {
		c.bytes, c.records = consumerSize(string(who)), 1
	}
	var missed error
	var again []*pending
	if x != nil && ok {
		x.pending.ascend(from, func(p *pending) bool {
			e, err := s.entry(t, key, p.id)
			if err != nil {
				if missed = err; !errors.Is(err, keyspace.ErrMiss) {
					return false
				}
			}
			if list = append(list, e); !e.Gone {
				again = append(again, p)
			}
			return count == 0 || len(list) < count
		})
	}
	c.bytes, c.records = c.bytes+len(again)*pendingSize, c.records+len(again)
	c.apply = func() {
		s.consumer(t, key, g, who)
		for _, p := range again {
			p.delivered = t.Now()
			p.count++
			s.putPending(t, g, p)
		}
		s.weigh()
	}
	return list, c, missed
}

// entry returns the entry of an ID, or says that it is gone.
func (s *stream) entry(t *keyspace.Tx, key []byte, id ID) (HistoryEntry, error) {
	list, err := s.entries(t, key, RangeOptions{From: id, To: id, Count: 1})
	if err != nil || len(list) == 0 {
		return HistoryEntry{Entry{ID: id}, err == nil}, err
	}
	return HistoryEntry{Entry: list[0]}, nil
}

// ClaimOptions of XCLAIM.
type ClaimOptions struct {
	MinIdle   int64
	Delivered int64 // store time, ms
	Count     int64 // deliveries; negative: one more, or as it is with JustID
	Force     bool  // entries that are not pending become so
	JustID    bool  // entries are not read
	Last      ID    // the group's last delivered ID is at least this
}

// claimed is a change that a claim makes.
type claimed struct {
	id   ID
	p    *pending // nil: it becomes pending
	gone bool     // it was deleted from the stream: it is pending no more
}

// Claim makes pending entries another consumer's, and returns those that it did.
func Claim(t *keyspace.Tx, key, name, who []byte, ids []ID, o ClaimOptions) (list []Entry, err error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		return nil, err
	}
	var plan []claimed
	seen := map[ID]bool{}
	for _, id := range ids {
		p := g.pending.find(id)
		if seen[id] && o.MinIdle > 0 {
			continue // it was delivered just now
		}
		switch there := s.index.has(id); {
		case !there && (p == nil || seen[id]), there && p == nil && !o.Force && !seen[id]:
		case there && p != nil && o.MinIdle > 0 && t.Now()-p.delivered < o.MinIdle:
		default:
			plan = append(plan, claimed{id, p, !there})
			seen[id] = true
		}
	}
	return s.claim(t, key, g, who, plan, o)
}

// claim carries a plan out.
func (s *stream) claim(t *keyspace.Tx, key []byte, g *group, who []byte, plan []claimed, o ClaimOptions) (list []Entry, err error) {
	var missed error
	bytes, records := 0, 0
	for _, c := range plan {
		if c.gone {
			bytes, records = bytes+ackSize, records+1
			continue
		}
		e := HistoryEntry{Entry: Entry{ID: c.id}}
		if !o.JustID {
			if e, err = s.entry(t, key, c.id); err != nil {
				if missed = err; !errors.Is(err, keyspace.ErrMiss) {
					return nil, err
				}
			}
		}
		list = append(list, e.Entry)
		bytes, records = bytes+pendingSize, records+1
	}
	if missed != nil {
		return nil, missed
	}
	if consumerHeader+len(who) > t.MaxRecord() {
		return nil, ErrTooLarge
	}
	later := g.last.Less(o.Last)
	if later {
		bytes, records = bytes+groupSize(g.name), records+1
	}
	if g.consumers[string(who)] == nil {
		bytes, records = bytes+consumerSize(string(who)), records+1
	}
	if records > 0 {
		if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
			return nil, err
		}
	}
	x := s.consumer(t, key, g, who)
	if records == 0 {
		return nil, nil
	}
	if len(list) > 0 {
		x.active = t.Now()
	}
	for _, c := range plan {
		switch {
		case c.gone:
			s.ack(t, g, c.p)
		default:
			s.take(t, g, x, c.id, &o)
		}
	}
	if later {
		g.last = o.Last
		s.putGroup(t, g)
	}
	s.weigh()
	return list, nil
}

func (s *stream) take(t *keyspace.Tx, g *group, x *consumer, id ID, o *ClaimOptions) {
	p := g.pending.find(id)
	if p == nil {
		p = &pending{id: id, count: 1}
		g.pending.insert(p)
	}
	s.give(p, x)
	p.delivered = o.Delivered
	switch {
	case o.Count >= 0:
		p.count = uint64(o.Count)
	case !o.JustID:
		p.count++
	}
	s.putPending(t, g, p)
}

// claimTries is how many pending entries XAUTOCLAIM looks at for each that it may claim.
const claimTries = 10

// AutoClaim claims at most count pending entries from an ID on, and returns those that it did, the IDs of those that were deleted
// from the stream, and where to go on; 0-0: nowhere.
func AutoClaim(t *keyspace.Tx, key, name, who []byte, from ID, count int, o ClaimOptions) (list []Entry, deleted []ID, next ID, err error) {
	s, g, err := openGroup(t, key, name)
	if err != nil {
		return nil, nil, ID{}, err
	}
	var plan []claimed
	tries := count * claimTries
	g.pending.ascend(from, func(p *pending) bool {
		if tries == 0 || count == 0 {
			next = p.id
			return false
		}
		tries--
		switch {
		case !s.index.has(p.id):
			plan = append(plan, claimed{p.id, p, true})
			deleted = append(deleted, p.id)
			count--
		case o.MinIdle <= 0 || t.Now()-p.delivered >= o.MinIdle:
			plan = append(plan, claimed{p.id, p, false})
			count--
		}
		return true
	})
	list, err = s.claim(t, key, g, who, plan, o)
	return list, deleted, next, err
}
