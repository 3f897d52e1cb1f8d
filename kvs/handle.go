package kvs

import (
	"bytes"
	"fmt"

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
