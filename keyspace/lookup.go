package keyspace

import (
	"fmt"

	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// Item is what the index says of a key, without its value. The zero Item is an absent key.
type Item struct {
	Type      TypeID
	Encoding  uint8
	Expiry    int64          // ms; 0: never
	ValueSize int            // bytes, of a value that is one record
	Blob      bool           // the value is a blob
	Ref       uint64         // of a large value: its incarnation
	Counter   volume.Counter // of the newest change
}

// Exists says whether the key was there.
func (it Item) Exists() bool { return it.Type != TypeNone }

// Find looks a key up. Absence and presence both enter Seen. A key found expired by store time is deleted on the spot, by
// a batch of its own (or the open one), which may fail.
func (t *Tx) Find(key []byte) (Item, error) {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return Item{}, err
	}
	t.accessed(p.entry())
	return t.itemOf(p.entry()), nil
}

// Peek is Find for those who ask about a key rather than use it: its access clock stays.
func (t *Tx) Peek(key []byte) (Item, error) {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return Item{}, err
	}
	return t.itemOf(p.entry()), nil
}

func (t *Tx) itemOf(e *entry) Item {
	it := Item{Type: e.typ(), Encoding: e.encoding(), Expiry: e.expiry, Counter: e.counter}
	if id := e.blob(); id != 0 {
		it.Blob, it.ValueSize = true, int(t.w.v.BlobByID(id).Size())
	} else if e.large() {
		it.Ref = e.ref
	} else {
		it.ValueSize = e.valueSize()
	}
	return it
}

// Large says whether the elements of the value are records of their own.
func (it Item) Large() bool { return it.Ref != 0 }

// live returns where a key's live entry is; i is -1 if the key is absent.
func (t *Tx) live(key []byte) (spot, error) {
	p := t.locate(key)
	if p.i < 0 {
		t.see(t.tb.flushed)
		if t.noting {
			t.missed(key)
		}
		return p, nil
	}
	e := p.entry()
	expired := e.expiry != 0 && e.live() && e.expired(t.Now())
	if expired {
		if err := t.expire(p); err != nil {
			return p, err
		}
	}
	if expired || !e.live() {
		p.i = -1
		if t.noting {
			t.missed(key)
		}
		if mutant.On(mutant.ForgetTombstone) {
			return p, nil
		}
	}
	t.see(e.counter)
	return p, nil
}

// expire journals the delete of an expired key that a reader came upon: absence by time alone could vanish with a crash,
// because a restarted server may start at an earlier time (DESIGN.md 4.7).
//
// Within an open batch it takes what is left of the reservation. Where nothing is left the entry stays and counts as absent:
// the reply waits for the batch, whose frame holds a time at which the key is gone. A MULTI reserves DeleteSize for each of
// its keys, in case its batch has no other record.
func (t *Tx) expire(p spot) error {
	size := DeleteSize(p.entry().keyLen())
	if t.batch != nil {
		if t.records > 0 && size <= t.bytes {
			t.bury(p, size, "expired")
		}
		return nil
	}
	if t.w.s.held.Load() {
		return t.restate(p)
	}
	if err := t.open(size, 1, volume.ClassReclaim); err != nil {
		return err
	}
	t.bury(p, size, "expired")
	t.close()
	return nil
}

// restate journals the expiry of an expired key as it is, while deletes are held back: the key counts as absent, and the reply
// waits for a frame that holds a time at which it is gone.
func (t *Tx) restate(p spot) error {
	e := p.entry()
	if err := t.open(ExpireSize(e.keyLen()), 1, volume.ClassReclaim); err != nil {
		return err
	}
	payload, c, at := t.append(KindExpire, ExpireSize(e.keyLen()))
	encodeExpire(payload, &record{table: t.tb.number, key: p.key(), expiry: e.expiry})
	t.w.setExpiry(t.tb, p, e.expiry, c, at)
	t.close()
	return nil
}

// HoldDeletes keeps keys whose time has come from being deleted, from any goroutine, until it is called with false. They
// count as absent all the same (CLIENT PAUSE). ExpireCycle and Evict are left to their callers.
func (s *Space) HoldDeletes(hold bool) { s.held.Store(hold) }

// Load returns the value of a key of type string (or of another type whose value is one record). The bytes are valid until
// End. If they are on the device only, it returns ErrMiss; a command that needs several values asks for all of them
// before it gives up, so that they are fetched at once. An absent key is a zero Item and no error.
func (t *Tx) Load(key []byte, typ TypeID) ([]byte, Item, error) {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return nil, Item{}, err
	}
	e := p.entry()
	t.accessed(e)
	if e.typ() != typ {
		return nil, t.itemOf(e), ErrWrongType
	}
	val, err := t.value(p)
	return val, t.itemOf(e), err
}

// value returns the value of the string at p: from the ring, or from what was supplied.
func (t *Tx) value(p spot) ([]byte, error) {
	e, st := p.entry(), p.st
	if id := e.blob(); id != 0 {
		b := t.w.v.BlobByID(id)
		return t.loadBlob(b, 0, b.Size())
	}
	n := e.valueSize()
	if n == 0 {
		return []byte{}, nil
	}
	val, old, ok := st.ring.get(e.ref, n, st.locks)
	if ok {
		if old { // a second chance for what is read before it would go
			e.ref = st.ring.append(val, st.locks)
		}
		return val, nil
	}
	payload, err := t.Fetch(volume.Fetch{
		At: e.place, Size: int(e.size), Counter: e.value, Kind: KindPut, Store: volume.StoreKeys,
	})
	if err != nil {
		return nil, err
	}
	if val, err = t.check(p, payload); err == nil {
		e.ref = st.ring.append(val, st.locks)
	}
	return val, err
}

// Fetch returns the payload of a record, if the caller has supplied it; else it takes note of the miss and returns ErrMiss.
func (t *Tx) Fetch(f volume.Fetch) ([]byte, error) {
	if payload, ok := t.supplied[f.At]; ok && len(payload) == f.Size {
		return payload, nil
	}
	if err, ok := t.refused[f.At]; ok {
		return nil, err
	}
	return t.Miss(f)
}

// check makes sure that a record which volume has verified is the one of this key: volume compared the counter, here the
// table, the key and the type are compared.
func (t *Tx) check(p spot, payload []byte) ([]byte, error) {
	e := p.entry()
	r, err := decodePut(payload)
	if err == nil && (r.table != t.tb.number || r.typ != e.typ() || string(r.key) != string(p.key())) {
		err = fmt.Errorf("another key's record")
	}
	if err != nil {
		return nil, fmt.Errorf("%s in database %d: %w: %w", t.w.s.keyName(p.key()), t.db, err, volume.ErrCorrupt)
	}
	return r.value, nil
}
