package keyspace

import (
	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// What compaction asks of the keyspace (DESIGN.md 6.3): which records the index still names, and to move them.

// Live implements volume.Replayer.
func (s *Space) Live(v *volume.Volume, r volume.Record) bool {
	if e := s.elementsOf(r.Kind); e != nil {
		return e.Live(v, r)
	}
	live := false
	err := s.withRecord(v, r, func(m *moving) error {
		live = m.needed()
		return nil
	})
	return live && err == nil
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
	tb *table // flushes and keys
	p  spot   // keys
	sw swap   // swaps
}

// withRecord calls f under the lock of the record's key, or under all locks if it is about a whole database. A record that does
// not decode is nobody's: it was verified, so this program did not write it, and recovery would have refused it.
func (s *Space) withRecord(v *volume.Volume, r volume.Record, f func(m *moving) error) error {
	m := &moving{s: s, v: v, r: r}
	var rec record
	var err error
	switch r.Kind {
	case KindPut, KindPutBlob:
		rec, err = decodePut(r.Payload)
	case KindExpire:
		rec, err = decodeExpire(r.Payload)
	case KindDelete:
		rec, err = decodeDelete(r.Payload)
	case KindFlush:
		rec.table, err = decodeFlush(r.Payload)
	case KindSwap:
		m.sw, err = decodeSwap(r.Payload)
	}
	if err != nil {
		return err
	}
	if m.tb, err = s.table(rec.table); err != nil {
		return err
	}
	if r.Kind == KindFlush || r.Kind == KindSwap {
		for i := range s.stripes {
			s.stripes[i].lock()
			defer s.stripes[i].mu.Unlock()
		}
		return f(m)
	}
	h := s.hash(rec.key)
	st := &s.stripes[stripeOf(h)]
	st.lock()
	defer st.mu.Unlock()
	if m.p = s.find(m.tb, h, rec.key); m.p.i < 0 {
		return nil
	}
	return f(m)
}

// needed reports whether recovery would come to another state without the record.
func (m *moving) needed() bool {
	c, at := m.r.Counter, m.r.Place
	switch m.r.Kind {
	case KindFlush:
		return m.tb.flushed == c && m.tb.flushPlace == at && m.v.Lists(0, at)
	case KindSwap:
		return m.s.swapped[m.sw.db[0]] == c || m.s.swapped[m.sw.db[1]] == c
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
	case KindPut, KindPutBlob, KindDelete:
		e := m.p.entry()
		first := e.first()
		e.place = at
		e.setFirst(first)
	case KindExpire:
		m.p.entry().metaSeg = ordinal(at)
	}
}
