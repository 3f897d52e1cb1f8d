package keyspace

import (
	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// Put describes a value that a key gets.
type Put struct {
	Type     TypeID
	Encoding uint8  // 0 to 15, the type's own numbering
	Expiry   int64  // absolute store time, ms; 0: never
	Event    string // for those who watch and observe; empty: the value is the same in another encoding, nobody is told
}

// Put sets the key's value, the concatenation of parts, over whatever the key held. It takes PutSize of the reservation.
func (t *Tx) Put(key []byte, o Put, parts ...[]byte) {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	size := PutSize(len(key), n)
	r := record{table: t.tb.number, typ: o.Type, encoding: o.Encoding, expiry: o.Expiry, key: key}
	payload, c, at := t.append(KindPut, size)
	value := encodePut(payload, &r)
	rest := value
	for _, part := range parts {
		rest = rest[copy(rest, part):]
	}
	p := t.locate(key)
	if p.i < 0 {
		p = t.w.s.obtain(t.tb, t.hash(key), key)
	}
	old := *p.entry()
	if f := t.w.s.observer; f != nil && !old.live() && !t.private() {
		f(Event{DB: t.db, Key: key, Name: "new", Counter: c})
	}
	t.w.put(t.tb, p, &r, c, at, size)
	if old.live() {
		t.accessed(p.entry())
	} else {
		t.created(p.entry())
	}
	if !p.entry().large() {
		p.entry().ref = p.st.ring.append(value, p.st.locks)
		if mutant.On(mutant.StaleCache) && old.typ() == TypeString && int(old.size) == size {
			p.entry().ref = old.ref
		}
	}
	t.changed(p, key, o.Event, c)
}

// Remove deletes a key, which Find has found. It takes DeleteSize of the reservation.
func (t *Tx) Remove(key []byte, event string) {
	p := t.locate(key)
	if p.i < 0 || !p.entry().live() {
		panic("internal error: keyspace: remove of an absent key")
	}
	t.bury(p, DeleteSize(len(key)), event)
}

// bury journals the delete of the live entry at p.
func (t *Tx) bury(p spot, size int, event string) {
	key := p.key()
	payload, c, at := t.append(KindDelete, size)
	encodeDelete(payload, &record{table: t.tb.number, key: key})
	if mutant.On(mutant.LoseDelete) && len(key) > 0 {
		payload[deleteHeaderSize] ^= 0xff // it is journaled as that of another key
	}
	t.w.bury(t.tb, p, c, at, size)
	p.buried(t.tb.slot)
	if t.before != "" {
		t.changed(p, key, t.before, c)
		t.before = ""
	}
	switch event {
	case "expired":
		p.st.expired++
	case "evicted":
		p.st.evicted++
	}
	t.changed(p, key, event, c)
}

// SetExpiry gives a key, which Find has found, a new expiry (0: none) and leaves its value's record alone. It takes
// ExpireSize of the reservation.
func (t *Tx) SetExpiry(key []byte, at int64, event string) {
	p := t.locate(key)
	if p.i < 0 || !p.entry().live() {
		panic("internal error: keyspace: expiry of an absent key")
	}
	payload, c, place := t.append(KindExpire, ExpireSize(len(key)))
	encodeExpire(payload, &record{table: t.tb.number, key: key, expiry: at})
	t.w.setExpiry(t.tb, p, at, c, place)
	t.changed(p, key, event, c)
}

// changed tells those who watch.
func (t *Tx) changed(p spot, key []byte, event string, c volume.Counter) {
	if event == "" {
		return
	}
	if p.st.watched != nil {
		t.touch(p.st, key, c)
	}
	t.told(key, event, c)
}
