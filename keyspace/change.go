package keyspace

import (
	"slices"

	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// The functions of this file are the only ones that change what the index says of a key. The running server calls them
// with the records that it has just appended, recovery with those that it reads back in whatever order, so that both come to
// the same index. All follow one rule: the highest counter wins, and of two equal ones the later place, because compaction
// moves records with their counters unchanged (DESIGN.md 6.3). Recovery leaves sums, counts and what died for Settle.

// Ledger takes the changes of the multiset hash, and which records died: the batch (volume.Tx).
type Ledger interface {
	Add(x volume.Sum)
	Remove(x volume.Sum)
	Dead(at volume.Place, size int)
	DeadMany(segment volume.Place, records, bytes int64)
	// Newest is the counter of the batch's newest record: of what caused the change.
	Newest() volume.Counter
}

// writer changes tables and their multiset items.
type writer struct {
	s    *Space
	v    *volume.Volume
	l    Ledger // nil: recovery
	item []byte // scratch
}

func (w *writer) hash(tb *table, p spot) volume.Sum {
	e := p.entry()
	w.item = appendItem(w.item[:0], tb.number, e, p.sh.key(e))
	return w.v.ItemHash(volume.StoreKeys, w.item, e.value)
}

// debit takes a live entry out of the sums and counts, before it changes.
func (w *writer) debit(tb *table, p spot) {
	e := p.entry()
	if !e.live() || w.l == nil {
		return
	}
	x := w.hash(tb, p)
	if _, running := w.l.(*volume.Tx); !running || !mutant.On(mutant.SkipMultisetUpdate) {
		w.l.Remove(x)
	}
	tb.sum.Sub(x)
	tb.live--
	tb.keyBytes -= e.keyLen()
	if e.expiry != 0 {
		tb.expires--
	}
}

// credit puts it back in, after the change.
func (w *writer) credit(tb *table, p spot) {
	e := p.entry()
	if !e.live() || w.l == nil {
		return
	}
	x := w.hash(tb, p)
	w.l.Add(x)
	tb.sum.Add(x)
	tb.live++
	tb.keyBytes += e.keyLen()
	if e.expiry != 0 {
		tb.expires++
	}
	p.noteExpiry(e.expiry)
}

// put gives the entry at p a value. It says whether it did.
func (w *writer) put(tb *table, p spot, r *record, c volume.Counter, at volume.Place, size int) bool {
	e := p.entry()
	if e.value > c {
		w.older(e, at)
		return false
	}
	if e.value == c {
		if e.access&flagBuried == 0 {
			first := w.first(e, at)
			e.place = max(e.place, at)
			e.setFirst(first)
		}
		return false
	}
	if !e.live() && w.l != nil {
		w.s.indexed.Add(keyCost(e.keyLen()))
	}
	w.debit(tb, p)
	w.drop(tb, e, c)
	w.died(e, e.counter < c)
	first := w.first(e, at)
	e.setKind(r.typ, r.encoding)
	w.hold(tb, e, r.blob)
	e.value, e.place, e.size = c, at, uint32(size)
	if e.large() {
		if e.ref = r.incarnation; e.ref == 0 {
			e.ref = uint64(c)
		}
	}
	if c > e.counter { // else recovery has seen a newer expiry of this value already
		e.counter, e.expiry = c, r.expiry
	}
	e.setFirst(first)
	w.noteNewest(tb, c)
	w.credit(tb, p)
	return true
}

// first returns the oldest segment that may hold a record of the key once one more was appended, or replayed, at a place.
func (w *writer) first(e *entry, at volume.Place) uint32 {
	if e.counter == 0 {
		return ordinal(at)
	}
	return min(e.first(), ordinal(at))
}

// older notes that recovery has found another record of the key, one that something newer has replaced.
func (w *writer) older(e *entry, at volume.Place) { e.setFirst(w.first(e, at)) }

// died reports that nothing needs the records of an entry any more, before it changes: that of its value or delete, and, with
// expiry, that of a newer change of its expiry.
func (w *writer) died(e *entry, expiry bool) {
	if w.l == nil || e.value == 0 {
		return
	}
	w.l.Dead(e.place, int(e.size))
	if expiry {
		w.expiryDied(e)
	}
}

func (w *writer) expiryDied(e *entry) {
	if w.l != nil && e.counter > e.value && e.live() {
		w.l.Dead(placeIn(e.metaSeg), ExpireSize(e.keyLen()))
	}
}

// noteNewest keeps the newest change of a table; recovery finds it in the end.
func (w *writer) noteNewest(tb *table, c volume.Counter) {
	if w.l != nil {
		tb.newest = max(tb.newest, c)
	}
}

// setExpiry gives the entry at p a new expiry (0: none).
func (w *writer) setExpiry(tb *table, p spot, expiry int64, c volume.Counter, at volume.Place) bool {
	e := p.entry()
	if e.counter > c {
		w.older(e, at)
		return false
	}
	first := w.first(e, at)
	if e.counter < c {
		w.debit(tb, p)
		w.expiryDied(e)
		e.counter, e.expiry, e.metaSeg = c, expiry, 0
		w.noteNewest(tb, c)
		w.credit(tb, p)
	}
	e.metaSeg = max(e.metaSeg, ordinal(at))
	e.setFirst(first)
	return true
}

// bury makes the key at p absent since c.
func (w *writer) bury(tb *table, p spot, c volume.Counter, at volume.Place, size int) bool {
	e := p.entry()
	if e.counter > c {
		w.older(e, at)
		return false
	}
	first := w.first(e, at)
	if e.counter < c {
		if e.live() && w.l != nil {
			w.s.indexed.Add(-keyCost(e.keyLen()))
		}
		w.debit(tb, p)
		w.drop(tb, e, c)
		w.died(e, true)
		e.setKind(TypeNone, 0)
		e.access |= flagBuried
		e.counter, e.value, e.expiry, e.place = c, c, 0, 0
		w.noteNewest(tb, c)
	}
	e.place, e.size = max(e.place, at), uint32(size)
	e.setFirst(first)
	return true
}

// flush empties a table: all stripes are locked. The sum of its items is subtracted as one.
func (w *writer) flush(tb *table, c volume.Counter, at volume.Place) {
	if tb.flushed != 0 {
		w.l.Dead(tb.flushPlace, flushSize)
	}
	tb.flushed, tb.flushPlace = c, at
	w.l.Remove(tb.sum)
	w.s.indexed.Add(-tb.cost())
	tb.sum, tb.live, tb.keyBytes, tb.expires, tb.newest = volume.Sum{}, 0, 0, 0, c
	tb.blobs.releaseAll(w.v, c)
	for i := range w.s.stripes {
		if d := w.s.stripes[i].dirs[tb.slot]; d != nil {
			w.s.graves.push(d)
			w.s.stripes[i].dirs[tb.slot] = nil
		}
	}
	for _, t := range w.s.types {
		if t != nil {
			t.Flush(tb.number, w.l)
		}
	}
}

// assign gives a database its table, since c, by the record at at. The table's own keys and sum stay as they are.
func (w *writer) assign(db int, tb *table, c volume.Counter, at volume.Place) {
	old, place := w.s.swapped[db], w.s.swapPlace[db]
	if old >= c {
		if old == c { // compaction had moved it
			w.s.swapPlace[db] = max(place, at)
		}
		return
	}
	w.s.swapPlace[db] = at
	if old != 0 && w.l != nil {
		w.l.Remove(w.databaseHash(db))
		if !slices.Contains(w.s.swapPlace, place) { // the other database does not have it from that record either
			w.l.Dead(place, swapSize)
		}
	}
	w.s.tables[db], w.s.swapped[db] = tb, c
	if w.l != nil {
		w.l.Add(w.databaseHash(db))
	}
}

func (w *writer) databaseHash(db int) volume.Sum {
	w.item = appendDatabase(w.item[:0], db, w.s.tables[db].number)
	return w.v.ItemHash(volume.StoreKeys, w.item, w.s.swapped[db])
}

// drop tells the type, or the blobs, that the value behind ref is gone, since c. Recovery tells no type: which large values are
// left shows in the end (Type.Found).
func (w *writer) drop(tb *table, e *entry, c volume.Counter) {
	if id := e.blob(); id != 0 {
		tb.blobs.release(w.v, id, c)
		e.ref = 0
		e.access &^= flagBlob
		return
	}
	if e.ref != 0 && e.large() && w.l != nil {
		w.s.types[e.typ()].Drop(e.ref, w.l)
	}
	e.ref = 0
}

// hold makes a blob, if there is one, the value of an entry. The entry takes over a reference.
func (w *writer) hold(tb *table, e *entry, b *volume.Blob) {
	if b != nil {
		tb.blobs.add(b)
		e.ref = uint64(b.ID())
		e.access |= flagBlob
	}
}
