package kvs

import (
	"slices"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// How a change of a collection becomes records: planned and reserved as a whole, then written.

// commit writes what has changed. The event is Redis' name for the change; a collection that is empty after it is deleted.
func (h *handle) commit(event string) error {
	p, err := h.plan(event)
	if err != nil {
		return err
	}
	return run(h.t, p)
}

// plan is a change that has been checked: what it takes in a batch, and what makes it. A command with several reserves for all
// of them first.
type plan struct {
	bytes, records int
	grows          bool // it does not only give space back
	apply          func()
}

// run makes changes as one batch.
func run(t *keyspace.Tx, plans ...plan) error {
	var all plan
	for _, p := range plans {
		all.bytes += p.bytes
		all.records += p.records
		all.grows = all.grows || p.grows
	}
	if all.records == 0 {
		return nil
	}
	class := volume.ClassReclaim
	if all.grows {
		class = volume.ClassNormal
	}
	if err := t.Reserve(all.bytes, all.records, class); err != nil {
		return err
	}
	for _, p := range plans {
		if p.apply != nil {
			p.apply()
		}
	}
	return nil
}

func (h *handle) plan(event string) (plan, error) {
	if h.count == 0 {
		if !h.exists() {
			return plan{}, nil
		}
		return erasePlan(h.t, h.key, event), nil
	}
	if err := h.checkSizes(); err != nil {
		return plan{}, err
	}
	encoding := h.encodingAfter()
	if h.big != nil {
		return h.planLarge(event, encoding), nil
	}
	h.list = slices.DeleteFunc(h.list, func(m member) bool { return m.gone })
	h.index = nil
	size := uvarintSize(len(h.list))
	for i := range h.list {
		size += h.packedSize(&h.list[i])
	}
	if size > packedMax {
		return h.enlarge(event, encoding), nil
	}
	if h.typ != keyspace.TypeHash {
		h.sort(encoding)
	}
	return plan{keyspace.PutSize(len(h.key), size), 1, h.grows(), func() {
		h.t.Put(h.key, keyspace.Put{Type: h.typ, Encoding: encoding, Expiry: h.item.Expiry, Event: event}, h.pack(size))
	}}, nil
}

// sort orders a packed sorted set, and a set of numbers.
func (h *handle) sort(encoding uint8) {
	switch {
	case h.typ == keyspace.TypeZSet:
		slices.SortFunc(h.list, func(a, b member) int { return compareMembers(a.score, a.name, b.score, b.name) })
	case encoding == encodingIntset:
		slices.SortFunc(h.list, func(a, b member) int {
			x, _ := parseInt(a.name)
			y, _ := parseInt(b.name)
			if x < y {
				return -1
			}
			return 1
		})
	}
}

// erasePlan deletes a key because of a change that emptied it.
func erasePlan(t *keyspace.Tx, key []byte, event string) plan {
	return plan{keyspace.DeleteSize(len(key)), 1, false, func() {
		if event != "del" {
			t.NextEvent(event)
		}
		t.Remove(key, "del")
	}}
}

func (h *handle) checkSizes() error {
	for i := range h.list {
		m := &h.list[i]
		if !m.changed || m.gone {
			continue
		}
		if n := h.recordSize(m); n > h.t.MaxRecord() {
			return &SizeError{n, h.t.MaxRecord()}
		}
	}
	if len(h.key) > keyspace.KeyMax || keyspace.PutSize(len(h.key), packedMax) > h.t.MaxRecord() {
		return keyspace.ErrKeyTooLong
	}
	return nil
}

// recordSize is what the record of a member takes.
func (h *handle) recordSize(m *member) int {
	switch {
	case m.gone:
		return goneHeader + len(m.name)
	case h.typ == keyspace.TypeZSet:
		return scoreHeader + len(m.name)
	}
	return valueHeader + len(m.name) + len(m.val)
}

// enlarge makes a packed collection a large one.
func (h *handle) enlarge(event string, encoding uint8) plan {
	bytes := keyspace.HeaderSize(len(h.key))
	for i := range h.list {
		bytes += h.recordSize(&h.list[i])
	}
	return plan{bytes, len(h.list) + 1, true, func() {
		c := h.k.create(h.t, h.key, keyspace.Put{Type: h.typ, Encoding: encoding, Expiry: h.item.Expiry, Event: event})
		if h.typ == keyspace.TypeZSet {
			h.sort(encoding) // appending to a tree is cheaper than inserting
		}
		for i := range h.list {
			m := &h.list[i]
			h.k.put(h.t, c, m.name, m.val, m.score)
		}
	}}
}

// create makes a key a new, empty large collection. It takes a header of the reservation.
func (k *Collections) create(t *keyspace.Tx, key []byte, o keyspace.Put) *coll {
	c := k.obtain(t.PutHeader(key, o, 0))
	c.typ, c.table = o.Type, t.Table()
	c.newest = volume.Counter(c.incarnation)
	c.stripe.Store(int32(t.Stripe(key)))
	return c
}

func (h *handle) planLarge(event string, encoding uint8) plan {
	p := plan{grows: h.grows()}
	for i := range h.list {
		if m := &h.list[i]; m.stored || !m.gone {
			p.bytes += h.recordSize(m)
			p.records++
		}
	}
	newHeader := encoding != h.item.Encoding&^keyspace.EncodingLarge
	if newHeader {
		p.bytes += keyspace.HeaderSize(len(h.key))
		p.records++
	}
	p.apply = func() {
		if newHeader {
			h.t.PutHeader(h.key, keyspace.Put{Type: h.typ, Encoding: encoding, Expiry: h.item.Expiry}, h.big.incarnation)
		}
		for i := range h.list {
			switch m := &h.list[i]; {
			case !m.gone:
				h.k.put(h.t, h.big, m.name, m.val, m.score)
			case m.stored:
				h.k.remove(h.t, h.big, m.id)
			}
		}
		h.t.ChangedValue(h.key, event, h.big.newest)
	}
	return p
}

// put journals an element and makes it stand in memory.
func (k *Collections) put(t *keyspace.Tx, c *coll, name, val []byte, score float64) elemID {
	var e *elem
	id, ok := c.find(name)
	if ok {
		e = c.at(id)
		c.debit(t, e)
		if c.typ == keyspace.TypeZSet {
			c.tree.remove(c.rank(scoreOf(e.aux), name))
		}
	} else {
		id, e = c.add(name)
	}
	size := valueHeader + len(name) + len(val)
	kind := KindValue
	if c.typ == keyspace.TypeZSet {
		size, kind = scoreHeader+len(name), KindScore
	}
	payload, counter, at := t.Element(kind, size)
	e.counter, e.place, e.size = counter, at, uint32(size)
	e.seen(elemLive, at)
	if c.typ == keyspace.TypeZSet {
		encodeScore(payload, c.incarnation, score, name)
		e.aux = scoreBits(score)
		c.tree.insert(c.rank(score, name), id)
	} else {
		encodeValue(payload, c.incarnation, name, val)
		e.aux = k.values.put(c.incarnation, val)
		c.longest = max(c.longest, uint32(len(val)))
	}
	c.longest = max(c.longest, uint32(len(name)))
	c.credit(t, e)
	c.purge(t.Volume())
	return id
}

// remove journals that an element is no more. The tree of a list is its user's.
func (k *Collections) remove(t *keyspace.Tx, c *coll, id elemID) {
	e := c.at(id)
	name := c.name(e)
	size := goneHeader + len(name)
	payload, counter, at := t.Element(KindGone, size)
	encodeGone(payload, c.incarnation, name)
	t.Ledger().Dead(at, size) // nobody needs it once the older records are gone, which Live knows
	c.debit(t, e)
	if c.typ == keyspace.TypeZSet {
		c.tree.remove(c.rank(scoreOf(e.aux), name))
	}
	e.counter, e.place, e.size, e.aux = counter, at, uint32(size), 0
	e.seen(elemBuried, at)
	c.live--
	c.tombs = append(c.tombs, id)
	c.newest = counter
	c.purge(t.Volume())
}

// debit takes an element out of the sums before it changes; credit puts it in after.
func (c *coll) debit(t *keyspace.Tx, e *elem) {
	x, _ := c.item(t.Volume(), e, nil)
	t.Ledger().Remove(x)
	t.Ledger().Dead(e.place, int(e.size))
	c.sum.Sub(x)
	c.gave(e.place, e.size)
}

func (c *coll) credit(t *keyspace.Tx, e *elem) {
	x, _ := c.item(t.Volume(), e, nil)
	t.Ledger().Add(x)
	c.sum.Add(x)
	c.took(e.place, e.size)
	c.newest = max(c.newest, e.counter)
}
