package keyspace

import (
	"slices"

	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// What compaction asks of the keyspace (DESIGN.md 6.3): which records the index still names, and to move them.

// Live implements volume.Replayer.
func (s *Space) Live(v *volume.Volume, r volume.Record) bool {
	if e := s.elementsOf(r.Kind); e != nil {
		return e.Live(v, r)
	}
	m := moving{s: s, v: v, r: r}
	found, err := m.begin()
	if err != nil {
		return false
	}
	live := found && m.needed()
	m.end()
	return live
}

// Move implements volume.Replayer.
func (s *Space) Move(v *volume.Volume, r volume.Record) (moved bool, err error) {
	if e := s.elementsOf(r.Kind); e != nil {
		return e.Move(v, r)
	}
	err = s.withRecord(v, r, func(m *moving) error {
		if !m.needed() && !mutant.On(mutant.MoveWithoutLock) {
			return nil
		}
		t, err := v.Begin(r.Size, 1, volume.ClassMove)
		if err != nil {
			return err
		}
		if mutant.On(mutant.MoveNewCounter) {
			r.Counter = t.Next()
		}
		payload, at := t.Append(volume.StoreKeys, r.Kind, r.Counter, r.Size)
		copy(payload, r.Payload)
		m.point(at)
		t.Dead(r.Place, r.Size)
		t.End()
		moved = true
		return nil
	})
	return moved, err
}

// moving is a record that compaction asks about, with the lock of what it belongs to.
type moving struct {
	s  *Space
	v  *volume.Volume
	r  volume.Record
	tb *table  // flushes and keys
	p  spot    // keys
	sw swap    // swaps
	st *stripe // that is locked; nil: all are
}

// withRecord calls f under the lock of the record's key, or under all locks if it is about a whole database. A record that does
// not decode is nobody's: it was verified, so this program did not write it, and recovery would have refused it.
func (s *Space) withRecord(v *volume.Volume, r volume.Record, f func(m *moving) error) error {
	m := &moving{s: s, v: v, r: r}
	found, err := m.begin()
	if err != nil {
		return err
	}
	defer m.end()
	if !found {
		return nil
	}
	return f(m)
}

// begin takes the lock, until end, and says whether the index knows what the record is about. After an error there is no lock.
// Compaction asks about every record of a segment: this allocates nothing.
func (m *moving) begin() (found bool, err error) {
	s := m.s
	var rec record
	switch m.r.Kind {
	case KindPut, KindPutBlob:
		rec, err = decodePut(m.r.Payload)
	case KindExpire:
		rec, err = decodeExpire(m.r.Payload)
	case KindDelete:
		rec, err = decodeDelete(m.r.Payload)
	case KindFlush:
		rec.table, err = decodeFlush(m.r.Payload)
	case KindSwap:
		m.sw, err = decodeSwap(m.r.Payload)
	}
	if err != nil {
		return false, err
	}
	if m.tb, err = s.table(rec.table); err != nil {
		return false, err
	}
	if m.r.Kind == KindFlush || m.r.Kind == KindSwap {
		for i := range s.stripes {
			s.stripes[i].lock()
		}
		return true, nil
	}
	h := s.hash(rec.key)
	m.st = &s.stripes[stripeOf(h)]
	m.st.lock()
	m.p = s.find(m.tb, h, rec.key)
	return m.p.i >= 0, nil
}

func (m *moving) end() {
	if m.st != nil {
		m.st.mu.Unlock()
		return
	}
	for i := range m.s.stripes {
		m.s.stripes[i].mu.Unlock()
	}
}

// needed reports whether recovery would come to another state without the record.
func (m *moving) needed() bool {
	c, at := m.r.Counter, m.r.Place
	switch m.r.Kind {
	case KindFlush:
		return m.tb.flushed == c && m.tb.flushPlace == at && m.v.Lists(0, at)
	case KindSwap:
		return slices.ContainsFunc(m.sw.db[:], func(db uint16) bool { return m.s.swapped[db] == c && m.s.swapPlace[db] == at })
	}
	e := m.p.entry()
	switch m.r.Kind {
	case KindPut, KindPutBlob:
		return e.live() && e.value == c && e.place == at
	case KindExpire:
		return e.live() && e.counter == c && e.value < c && e.metaSeg == ordinal(at)
	case KindDelete:
		return e.access&flagBuried != 0 && e.counter == c && e.place == at && tombNeeded(m.v, e)
	}
	return false
}

// point makes the index name the record's new place.
func (m *moving) point(at volume.Place) {
	switch m.r.Kind {
	case KindFlush:
		m.tb.flushPlace = at
	case KindSwap:
		for _, db := range m.sw.db {
			if m.s.swapped[db] == m.r.Counter {
				m.s.swapPlace[db] = at
			}
		}
	case KindPut, KindPutBlob, KindDelete:
		e := m.p.entry()
		first := e.first()
		e.place = at
		e.setFirst(first)
	case KindExpire:
		m.p.entry().metaSeg = ordinal(at)
	}
}
