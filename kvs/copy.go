package kvs

import (
	"cvmstore/keyspace"
	"cvmstore/kvs/rdb"
	"cvmstore/volume"
)

// Copy implements keyspace.LargeType. The copy has elements of its own.
func (y *collType) Copy(t *keyspace.Tx, ref uint64, to []byte, toDB int, o keyspace.Put) error {
	src := y.get(ref)
	t.See(src.newest)
	type part struct {
		name, val []byte
		score     float64
	}
	parts := make([]part, 0, src.live)
	var missed error
	bytes := keyspace.HeaderSize(len(to))
	each := func(id elemID) bool {
		e := src.at(id)
		p := part{name: src.name(e)}
		switch y.typ {
		case keyspace.TypeZSet:
			p.score = scoreOf(e.aux)
		case keyspace.TypeHash, keyspace.TypeList:
			var err error
			if p.val, err = y.load(t, to, src, id); err != nil && (missed == nil || isMiss(missed)) {
				missed = err
			}
		}
		bytes += int(e.size) + labelMax
		parts = append(parts, p)
		return true
	}
	if src.tree.len() > 0 {
		src.tree.walk(0, src.tree.len(), false, each)
	} else {
		src.each(func(id elemID, _ *elem) bool { return each(id) })
	}
	if missed != nil {
		return missed
	}
	if err := t.Reserve(bytes, len(parts)+1, volume.ClassNormal); err != nil {
		return err
	}
	t.Use(toDB)
	c := y.create(t, to, o)
	for _, p := range parts {
		if y.typ == keyspace.TypeList {
			y.push(t, c, p.val, false)
		} else {
			y.put(t, c, p.name, p.val, p.score)
		}
	}
	return nil
}

// dumpKinds are the types in Redis' format.
var dumpKinds = map[keyspace.TypeID]rdb.Kind{
	keyspace.TypeString: rdb.KindString, keyspace.TypeList: rdb.KindList, keyspace.TypeSet: rdb.KindSet,
	keyspace.TypeHash: rdb.KindHash, keyspace.TypeZSet: rdb.KindZSet,
}

// whole returns all of a key's value, of a type that collections have.
func whole(t *keyspace.Tx, key []byte, typ keyspace.TypeID) (v rdb.Value, err error) {
	v.Kind = dumpKinds[typ]
	if typ == keyspace.TypeList {
		v.Items, err = LRange(t, key, 0, -1)
		return v, err
	}
	h, err := open(t, key, typ)
	if err != nil {
		return v, err
	}
	err = h.all(true, func(name, val []byte, score float64) bool {
		v.Items = append(v.Items, name)
		switch typ {
		case keyspace.TypeHash:
			v.Items = append(v.Items, val)
		case keyspace.TypeZSet:
			v.Scores = append(v.Scores, score)
		}
		return true
	})
	return v, err
}

// restoreWhole makes a key a collection, over whatever it held.
func restoreWhole(t *keyspace.Tx, key []byte, v *rdb.Value, expiry int64) error {
	item := keyspace.Item{Expiry: expiry}
	if v.Kind == rdb.KindList {
		h := &listHandle{t: t, key: key, k: t.TypeOf(keyspace.TypeList).(*collType).Collections, item: item}
		return h.commit("restore", listEdit{right: v.Items})
	}
	var typ keyspace.TypeID
	for id, kind := range dumpKinds {
		if kind == v.Kind {
			typ = id
		}
	}
	h := &handle{t: t, key: key, typ: typ, k: t.TypeOf(typ).(*collType).Collections, item: item}
	for i := 0; i < len(v.Items); i++ {
		m := member{name: v.Items[i], changed: true}
		switch v.Kind {
		case rdb.KindHash:
			i++
			m.val = v.Items[i]
		case rdb.KindZSet:
			m.score = v.Scores[i]
		}
		h.list = append(h.list, m)
	}
	h.count = len(h.list)
	return h.commit("restore")
}

// StoreList makes a key a list of these elements, over whatever it held; without any it is deleted. The elements must not be
// those of a key of this transaction's, but copies.
func StoreList(t *keyspace.Tx, key []byte, vals [][]byte, event string) error {
	h := &listHandle{t: t, key: key, k: t.TypeOf(keyspace.TypeList).(*collType).Collections}
	if len(vals) > 0 {
		return h.commit(event, listEdit{right: vals})
	}
	it, err := t.Find(key)
	if err != nil || !it.Exists() {
		return err
	}
	return run(t, erasePlan(t, key, "del"))
}

// Memory is about how many bytes a value takes in memory.
func Memory(t *keyspace.Tx, it keyspace.Item) int64 {
	if !it.Large() {
		return int64(it.ValueSize)
	}
	y, ok := t.TypeOf(it.Type).(*collType)
	if !ok {
		return 0
	}
	return int64(y.get(it.Ref).memory())
}
