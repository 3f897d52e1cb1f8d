package kvs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// packedMax is how many bytes of value a collection may have to be one record; a larger one has a record an element. A block
// is the least that is written or read anyway.
const packedMax = 4000

// handle is a hash, set or sorted set as one command finds and changes it. Changes are collected and become records, all in
// one batch, with commit.
type handle struct {
	t    *keyspace.Tx
	k    *Collections
	key  []byte
	typ  keyspace.TypeID
	item keyspace.Item
	big  *coll // a large collection; nil: packed, or absent

	list  []member       // packed: all members; large: those that have changed
	index map[string]int // of list, once it is long
	count int            // members, changes included
}

// member is a field, a member, or a member with its score.
type member struct {
	name, val []byte
	score     float64
	gone      bool // removed by this command
	changed   bool
	stored    bool   // of a large collection: it had it before
	id        elemID // then: which one
}

// indexFrom is how long a list is when looking through it costs more than a map.
const indexFrom = 24

// open looks a key up, which must be absent or of that type.
func open(t *keyspace.Tx, key []byte, typ keyspace.TypeID) (*handle, error) {
	h := &handle{t: t, key: key, typ: typ, k: t.TypeOf(typ).(*collType).Collections}
	var err error
	if h.item, err = t.Find(key); err != nil || !h.item.Exists() {
		return h, err
	}
	if h.item.Type != typ {
		return h, keyspace.ErrWrongType
	}
	if h.item.Large() {
		if h.big = h.k.get(h.item.Ref); h.big == nil {
			panic("internal error: kvs: a key names a collection that is not there")
		}
		t.See(h.big.newest)
		h.count = h.big.live
		return h, nil
	}
	val, _, err := t.Load(key, typ)
	if err != nil {
		return h, err
	}
	if err := h.unpack(val); err != nil {
		return h, t.Corrupt(key, err)
	}
	h.count = len(h.list)
	return h, nil
}

func (h *handle) exists() bool { return h.item.Exists() }

// unpack reads a packed value. It was verified, so it is ours; the checks stop what a later version may have written.
func (h *handle) unpack(p []byte) error {
	r := packedReader{p: p}
	n := r.number()
	if r.bad || n > uint64(len(p)) {
		return errElement
	}
	h.list = make([]member, n)
	for i := range h.list {
		m := &h.list[i]
		if h.typ == keyspace.TypeZSet {
			m.score = r.score()
		}
		m.name = r.bytes()
		if h.typ == keyspace.TypeHash {
			m.val = r.bytes()
		}
	}
	if r.bad || len(r.p) != 0 {
		return errElement
	}
	return nil
}

// packedReader takes values from the front of p; bad says that something was missing.
type packedReader struct {
	p   []byte
	bad bool
}

func (r *packedReader) number() uint64 {
	n, k := binary.Uvarint(r.p)
	if k <= 0 {
		r.bad, r.p = true, nil
		return 0
	}
	r.p = r.p[k:]
	return n
}

func (r *packedReader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.p)) {
		r.bad, r.p = true, nil
		return nil
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

func (r *packedReader) score() float64 {
	if len(r.p) < 8 {
		r.bad, r.p = true, nil
		return 0
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(r.p))
	r.p = r.p[8:]
	return f
}

func uvarintSize(n int) (size int) {
	for size = 1; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}

// packedSize is what a member takes in a packed value.
func (h *handle) packedSize(m *member) int {
	n := uvarintSize(len(m.name)) + len(m.name)
	switch h.typ {
	case keyspace.TypeZSet:
		n += 8
	case keyspace.TypeHash:
		n += uvarintSize(len(m.val)) + len(m.val)
	}
	return n
}

func (h *handle) pack(size int) []byte {
	p := binary.AppendUvarint(make([]byte, 0, size), uint64(len(h.list)))
	for i := range h.list {
		m := &h.list[i]
		if h.typ == keyspace.TypeZSet {
			p = binary.LittleEndian.AppendUint64(p, math.Float64bits(m.score))
		}
		p = append(binary.AppendUvarint(p, uint64(len(m.name))), m.name...)
		if h.typ == keyspace.TypeHash {
			p = append(binary.AppendUvarint(p, uint64(len(m.val))), m.val...)
		}
	}
	return p
}

// listed returns the index of a name in list, or -1.
func (h *handle) listed(name []byte) int {
	if len(h.list) < indexFrom {
		for i := range h.list {
			if bytes.Equal(h.list[i].name, name) {
				return i
			}
		}
		return -1
	}
	if h.index == nil {
		h.index = make(map[string]int, 2*len(h.list))
		for i := range h.list {
			h.index[string(h.list[i].name)] = i
		}
	}
	if i, ok := h.index[string(name)]; ok {
		return i
	}
	return -1
}

// look finds a member: in list, or stored.
func (h *handle) look(name []byte) (m *member, id elemID, ok bool) {
	if i := h.listed(name); i >= 0 {
		return &h.list[i], 0, !h.list[i].gone
	}
	if h.big != nil {
		id, ok = h.big.find(name)
	}
	return nil, id, ok
}

func (h *handle) has(name []byte) bool {
	_, _, ok := h.look(name)
	return ok
}

// score returns the score of a member of a sorted set.
func (h *handle) score(name []byte) (float64, bool) {
	m, id, ok := h.look(name)
	switch {
	case !ok:
		return 0, false
	case m != nil:
		return m.score, true
	}
	return scoreOf(h.big.at(id).aux), true
}

// value returns the value of a field of a hash.
func (h *handle) value(name []byte) ([]byte, bool, error) {
	m, id, ok := h.look(name)
	switch {
	case !ok:
		return nil, false, nil
	case m != nil:
		return m.val, true, nil
	}
	val, err := h.k.load(h.t, h.key, h.big, id)
	return val, err == nil, err
}

// load returns the value of an element: from the cache, or from what was supplied.
func (k *Collections) load(t *keyspace.Tx, key []byte, c *coll, id elemID) ([]byte, error) {
	e := c.at(id)
	n := e.valueLen()
	if n == 0 {
		return []byte{}, nil
	}
	if val, ok := k.values.get(c.incarnation, e.aux, n); ok {
		return val, nil
	}
	payload, err := t.Fetch(volume.Fetch{At: e.place, Size: int(e.size), Counter: e.counter, Kind: KindValue, Store: volume.StoreKeys})
	if err != nil {
		return nil, err
	}
	x, err := decodeElement(KindValue, payload)
	if err == nil && (x.incarnation != c.incarnation || !bytes.Equal(x.name, c.name(e))) {
		err = fmt.Errorf("another element's record")
	}
	if err != nil {
		return nil, t.Corrupt(key, err)
	}
	e.aux = k.values.put(c.incarnation, x.value)
	return x.value, nil
}

// set gives a member a value or score and says whether it is new.
func (h *handle) set(name, val []byte, score float64) (added bool) {
	m, id, ok := h.look(name)
	if m == nil {
		h.list = append(h.list, member{name: name, stored: ok, id: id})
		m = &h.list[len(h.list)-1]
		if h.index != nil {
			h.index[string(name)] = len(h.list) - 1
		}
	}
	m.val, m.score, m.gone, m.changed = val, score, false, true
	if !ok {
		h.count++
	}
	return !ok
}

// del removes a member and says whether there was one.
func (h *handle) del(name []byte) bool {
	m, id, ok := h.look(name)
	if !ok {
		return false
	}
	if m == nil {
		h.list = append(h.list, member{name: name, stored: true, id: id})
		m = &h.list[len(h.list)-1]
		if h.index != nil {
			h.index[string(name)] = len(h.list) - 1
		}
	}
	m.gone, m.changed = true, true
	h.count--
	return true
}

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

// all calls f for each member, in the collection's order if it has one, until f returns false. Values of a large hash may be on
// the device: all are asked for before it gives up. val is nil where there is none.
func (h *handle) all(values bool, f func(name, val []byte, score float64) bool) error {
	if h.big == nil {
		for i := range h.list {
			if m := &h.list[i]; !f(m.name, m.val, m.score) {
				return nil
			}
		}
		return nil
	}
	c := h.big
	if c.typ == keyspace.TypeZSet {
		c.tree.walk(0, c.tree.len(), false, func(id elemID) bool {
			e := c.at(id)
			return f(c.name(e), nil, scoreOf(e.aux))
		})
		return nil
	}
	if values && c.typ == keyspace.TypeHash {
		return h.allValues(f)
	}
	c.each(func(_ elemID, e *elem) bool { return f(c.name(e), nil, 0) })
	return nil
}

func (h *handle) allValues(f func(name, val []byte, score float64) bool) (missed error) {
	vals := make([][]byte, 0, h.big.live)
	h.big.each(func(id elemID, e *elem) bool {
		val, err := h.k.load(h.t, h.key, h.big, id)
		if err != nil {
			missed = err
		}
		vals = append(vals, val)
		return missed == nil || isMiss(missed)
	})
	if missed != nil {
		return missed
	}
	i := 0
	h.big.each(func(_ elemID, e *elem) bool {
		i++
		return f(h.big.name(e), vals[i-1], 0)
	})
	return nil
}
