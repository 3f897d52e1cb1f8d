package keyspace

import (
	"errors"
	"fmt"
	"sync/atomic"

	"cvmstore/volume"
)

// Meta implements volume.Replayer: recovery needs everything but values.
func (s *Space) Meta(k volume.Kind, payload []byte) int {
	switch {
	case k == KindPut:
		return putMeta(payload)
	case k >= elementsMin:
		if e := s.elementsOf(k); e != nil {
			return e.Meta(k, payload)
		}
	}
	return len(payload)
}

// Replay implements volume.Replayer: it applies one record of a completed batch. Records come in any order, from several
// goroutines at once. Deletes stay as tombstones, and expiries whose value is still to come as pending entries, until Settle.
// Nothing expires here (DESIGN.md 4.7).
func (s *Space) Replay(v *volume.Volume, r volume.Record) error {
	w := &writer{s: s, v: v}
	if err := w.replay(r); err != nil {
		return fmt.Errorf("replay record %d of kind %d: %w: %w", r.Counter, r.Kind, err, volume.ErrCorrupt)
	}
	return nil
}

func (w *writer) replay(r volume.Record) error {
	switch r.Kind {
	case KindPut:
		rec, err := decodePut(r.Payload)
		if err != nil {
			return err
		}
		if w.s.typeOf(rec.typ) == nil {
			return fmt.Errorf("type %d is unknown to this version: %w", rec.typ, errRecord)
		}
		return w.replayKey(&rec, r, func(tb *table, p spot) {
			w.put(tb, p, &rec, r.Counter, r.Place, r.Size)
		})
	case KindPutBlob:
		return w.replayBlob(r)
	case KindExpire:
		rec, err := decodeExpire(r.Payload)
		if err != nil {
			return err
		}
		return w.replayKey(&rec, r, func(tb *table, p spot) {
			w.setExpiry(tb, p, rec.expiry, r.Counter, r.Place)
		})
	case KindDelete:
		rec, err := decodeDelete(r.Payload)
		if err != nil {
			return err
		}
		return w.replayKey(&rec, r, func(tb *table, p spot) {
			w.bury(tb, p, r.Counter, r.Place, r.Size)
		})
	case KindFlush:
		return w.replayFlush(r)
	case KindSwap:
		return w.replaySwap(r)
	}
	if e := w.s.elementsOf(r.Kind); e != nil {
		return e.Replay(w.v, r)
	}
	return fmt.Errorf("unknown kind: %w", errRecord)
}

// replayBlob is for a key whose value is a blob: the allocator learns from it which blocks are in use.
func (w *writer) replayBlob(r volume.Record) error {
	rec, err := decodePut(r.Payload)
	if err != nil {
		return err
	}
	if w.s.typeOf(rec.typ) == nil {
		return fmt.Errorf("type %d is unknown to this version: %w", rec.typ, errRecord)
	}
	var bad error
	err = w.replayKey(&rec, r, func(tb *table, p spot) {
		if rec.blob, bad = w.v.AdoptBlob(rec.value); bad == nil && !w.put(tb, p, &rec, r.Counter, r.Place, r.Size) {
			rec.blob.Release(0)
		}
	})
	return errors.Join(err, bad)
}

// replayKey applies a change to the entry of a record's key, unless the key's database was flushed since.
func (w *writer) replayKey(rec *record, r volume.Record, apply func(tb *table, p spot)) error {
	tb, err := w.s.table(rec.table)
	if err != nil {
		return err
	}
	if uint64(r.Counter) <= atomic.LoadUint64((*uint64)(&tb.flushed)) {
		return nil // Settle looks again: the flush may come later
	}
	h := w.s.hash(rec.key)
	st := &w.s.stripes[stripeOf(h)]
	st.mu.Lock()
	defer st.mu.Unlock()
	apply(tb, w.s.obtain(tb, h, rec.key))
	return nil
}

// replayFlush takes note of a flush; Settle drops what is older.
func (w *writer) replayFlush(r volume.Record) error {
	number, err := decodeFlush(r.Payload)
	if err != nil {
		return err
	}
	tb, err := w.s.table(number)
	if err != nil {
		return err
	}
	w.s.replayMu.Lock()
	defer w.s.replayMu.Unlock()
	switch {
	case r.Counter > tb.flushed:
		atomic.StoreUint64((*uint64)(&tb.flushed), uint64(r.Counter))
		tb.flushPlace = r.Place
	case r.Counter == tb.flushed:
		tb.flushPlace = max(tb.flushPlace, r.Place)
	}
	return nil
}

func (w *writer) replaySwap(r volume.Record) error {
	sw, err := decodeSwap(r.Payload)
	if err != nil {
		return err
	}
	w.s.replayMu.Lock()
	defer w.s.replayMu.Unlock()
	for i := range sw.db {
		if n := w.s.o.Databases; int(sw.db[i]) >= n || int(sw.table[i]) >= n {
			return fmt.Errorf("swap of databases %d and %d of %d: start with more databases: %w", sw.db[0], sw.db[1], n, errRecord)
		}
		tb, err := w.s.table(sw.table[i])
		if err != nil {
			return err
		}
		w.assign(int(sw.db[i]), tb, r.Counter, r.Place)
	}
	return nil
}

// table returns the table of that number.
func (s *Space) table(number uint16) (*table, error) {
	if i := s.slotOf(number); i >= 0 {
		return s.numbered[i], nil
	}
	return nil, fmt.Errorf("database %d of %d: start with more databases: %w", number, len(s.numbered), errRecord)
}
