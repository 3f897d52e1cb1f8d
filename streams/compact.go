package streams

import (
	"cvmstore/volume"
)

// What compaction asks (DESIGN.md 6.3): which records are needed, and to move them.

// withRecord calls f, under the lock of its key, with the stream that a record belongs to, if that is alive.
func (y *Streams) withRecord(r *volume.Record, f func(s *stream)) {
	if len(r.Payload) < 8 {
		return
	}
	s := y.get(le.Uint64(r.Payload))
	if s == nil {
		return
	}
	for again := true; again; { // the key may be renamed meanwhile
		stripe := s.stripe.Load()
		if stripe < 0 {
			return
		}
		y.space.WithStripe(int(stripe), func() {
			if again = s.stripe.Load() != stripe; !again {
				f(s)
			}
		})
	}
}

// Live implements keyspace.Elements.
func (y *Streams) Live(v *volume.Volume, r volume.Record) (live bool) {
	y.withRecord(&r, func(s *stream) {
		live, _ = s.needed(v, &r)
	})
	return live
}

// Move implements keyspace.Elements.
func (y *Streams) Move(v *volume.Volume, r volume.Record) (moved bool, err error) {
	y.withRecord(&r, func(s *stream) {
		ok, point := s.needed(v, &r)
		if !ok {
			return
		}
		var t *volume.Tx
		if t, err = v.Begin(r.Size, 1, volume.ClassMove); err != nil {
			return
		}
		payload, at := t.Append(volume.StoreKeys, r.Kind, r.Counter, r.Size)
		copy(payload, r.Payload)
		if counted := point(at); counted {
			s.gave(r.Place, r.Size)
			s.took(at, r.Size)
			t.Dead(r.Place, r.Size)
		} else {
			t.Dead(at, r.Size) // a tombstone counts as dead from the start
		}
		t.End()
		moved = true
	})
	return moved, err
}

// needed reports whether recovery would come to another state without the record, and what makes memory name another place of
// it, which reports whether the record counts as live.
func (s *stream) needed(v *volume.Volume, r *volume.Record) (bool, func(at volume.Place) bool) {
	switch r.Kind {
	case KindEntry, KindBlobEntry:
		var scratch [leafMax]meta
		_, list, j, ok := s.index.locate(r.Counter, scratch[:])
		if !ok || list[j].place != r.Place {
			return false, nil
		}
		return true, func(at volume.Place) bool { return s.index.move(r.Counter, r.Place, at) }
	case KindHead:
		if s.headSince != r.Counter || s.headAt != r.Place {
			return false, nil
		}
		return true, func(at volume.Place) bool { s.headAt = at; return true }
	case KindGap:
		for i := range s.gaps {
			if g := &s.gaps[i]; g.counter == r.Counter && g.place == r.Place {
				return true, func(at volume.Place) bool { g.place = at; return true }
			}
		}
		return false, nil
	}
	k, n, err := decodeName(r)
	if err != nil {
		return false, nil
	}
	e, buried := s.named(k, &n)
	if e == nil || e.counter != r.Counter || e.place != r.Place || buried && !v.Lists(e.oldest(), e.place) {
		return false, nil
	}
	return true, func(at volume.Place) bool {
		e.place = at
		if buried {
			s.buried[k] = *e
		}
		return !buried
	}
}
