package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"cvmstore/volume"
)

// What the packages of collections need of a transaction: records of elements, headers, and the marks that a change leaves.
// A large collection is guarded by the stripe of its key, like the key.

// LargeType is a Type whose values may be large.
type LargeType interface {
	Type
	// Renamed is called when a large value has got another key: its table and stripe.
	Renamed(ref uint64, table uint16, stripe int)
	// Copy makes a copy of a large value under another key, whose stripe is locked too. It runs with the old key's database in
	// use and leaves it so; the new key may exist. It reserves and writes.
	Copy(t *Tx, ref uint64, to []byte, toDB int, o Put) error
}

// TypeOf returns the type of that number.
func (t *Tx) TypeOf(id TypeID) Type { return t.w.s.types[id] }

// Table is the number of the transaction's database's table.
func (t *Tx) Table() uint16 { return t.tb.number }

// Stripe is the stripe of a key.
func (t *Tx) Stripe(key []byte) int { return stripeOf(t.hash(key)) }

// See makes the reply depend on a change of an element.
func (t *Tx) See(c volume.Counter) { t.see(c) }

// Volume is the volume that the space is attached to.
func (t *Tx) Volume() *volume.Volume { return t.w.v }

// Volume is the volume that the space is attached to.
func (s *Space) Volume() *volume.Volume { return s.v }

// Ledger is the open batch's.
func (t *Tx) Ledger() Ledger { return t.w.l }

// Random returns a number in [0, n). A command that runs again because it missed something gets the same numbers, so that it
// does not miss something else each time.
func (t *Tx) Random(n uint64) uint64 {
	if t.random == 0 {
		t.random = 1 + t.w.s.o.Rand(1<<62)
	}
	t.drawn += 0x9e3779b97f4a7c15 // splitmix64
	z := t.random + t.drawn
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	hi, _ := bits.Mul64(z^z>>31, n)
	return hi
}

// Element appends a record of a registered kind; the caller fills the payload before End. It takes size of the reservation.
func (t *Tx) Element(k volume.Kind, size int) (payload []byte, c volume.Counter, at volume.Place) {
	if t.w.s.elementsOf(k) == nil {
		panic("internal error: keyspace: element of an unregistered kind")
	}
	return t.append(k, size)
}

// HeaderSize is what the header of a large collection takes in a batch.
func HeaderSize(keyLen int) int { return PutSize(keyLen, incarnationSize) }

// PutHeader makes a key a large collection and returns its incarnation: what is given, or the record's own counter for 0. A
// collection that the key held before goes, unless it is the same incarnation: then only encoding and expiry change.
func (t *Tx) PutHeader(key []byte, o Put, incarnation uint64) uint64 {
	r := record{table: t.tb.number, typ: o.Type, encoding: o.Encoding | EncodingLarge, expiry: o.Expiry, key: key}
	size := HeaderSize(len(key))
	payload, c, at := t.append(KindPut, size)
	if incarnation == 0 {
		incarnation = uint64(c)
	}
	r.incarnation = incarnation
	binary.LittleEndian.PutUint64(encodePut(payload, &r), incarnation)
	p := t.locate(key)
	if p.i < 0 {
		p = t.w.s.obtain(t.tb, t.hash(key), key)
	}
	if e := p.entry(); e.live() && e.large() && e.ref == incarnation {
		e.ref = 0
	}
	existed := p.entry().live()
	if f := t.w.s.observer; f != nil && !existed {
		f(Event{DB: t.db, Key: key, Name: "new", Counter: c})
	}
	t.w.put(t.tb, p, &r, c, at, size)
	if existed {
		t.accessed(p.entry())
	} else {
		t.created(p.entry())
	}
	if o.Event != "" {
		t.changed(p, key, o.Event, c)
	}
	return incarnation
}

// ChangedValue tells those who watch a key, which exists or has just been removed, that its value has changed.
func (t *Tx) ChangedValue(key []byte, event string, c volume.Counter) {
	t.changed(spot{st: &t.w.s.stripes[t.Stripe(key)]}, key, event, c)
}

// WithStripe calls f with a stripe locked: for those who come to a collection without a key. f opens no transaction.
func (s *Space) WithStripe(i int, f func()) {
	st := &s.stripes[i]
	st.lock()
	defer st.mu.Unlock()
	f()
}

// Corrupt words what a record that is not the one expected of a key answers.
func (t *Tx) Corrupt(key []byte, why error) error {
	return fmt.Errorf("%s in database %d: %w: %w", t.w.s.keyName(key), t.db, why, volume.ErrCorrupt)
}

var errNotLarge = errors.New("ERR values of this type cannot be copied or moved yet")

// transferLarge moves or copies a large value: moving it is one new header, whatever its size.
func (t *Tx) transferLarge(p *passage) error {
	typ, ok := t.TypeOf(p.item.Type).(LargeType)
	if !ok {
		return errNotLarge
	}
	if len(p.to) > KeyMax {
		return ErrKeyTooLong
	}
	o := Put{Type: p.item.Type, Encoding: p.item.Encoding &^ EncodingLarge, Expiry: p.item.Expiry, Event: p.toEvent}
	t.Use(p.fromDB)
	if p.keep {
		err := typ.Copy(t, p.item.Ref, p.to, p.toDB, o)
		t.Use(p.fromDB)
		return err
	}
	if HeaderSize(len(p.to)) > t.MaxRecord() {
		return ErrMoveTooLarge
	}
	if err := t.Reserve(HeaderSize(len(p.to))+DeleteSize(len(p.from)), 2, volume.ClassNormal); err != nil {
		return err
	}
	t.locate(p.from).entry().ref = 0 // its elements stay
	t.Remove(p.from, p.fromEvent)
	t.Use(p.toDB)
	t.PutHeader(p.to, o, p.item.Ref)
	typ.Renamed(p.item.Ref, t.tb.number, t.Stripe(p.to))
	t.Use(p.fromDB)
	return nil
}

// HashOf hashes the name of an element as keys are hashed: seeded, or as Options say.
func (s *Space) HashOf(name []byte) uint32 { return s.hash(name) }

// NextEvent makes the next Remove tell of another event first: of what emptied a collection.
func (t *Tx) NextEvent(event string) { t.before = event }

// TypeOf returns the type of that number, nil if none is registered.
func (s *Space) TypeOf(id TypeID) Type { return s.typeOf(id) }
