package keyspace

import (
	"fmt"

	"cvmstore/volume"
)

// Replay implements volume.Replayer: it applies one record of a completed batch, as the running server did when it wrote
// it. Records come in chain order, but compaction may have moved some behind newer ones. Deletes are kept as tombstones
// until Attach for that reason. Nothing expires here (DESIGN.md 4.7).
func (s *Space) Replay(v *volume.Volume, r volume.Record, d *volume.Delta) error {
	w := &s.recovery
	w.s, w.v, w.l = s, v, d
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
		number, err := decodeFlush(r.Payload)
		if err != nil {
			return err
		}
		tb, err := w.s.table(number)
		if err != nil {
			return err
		}
		w.flush(tb, r.Counter)
		return nil
	case KindSwap:
		return w.replaySwap(r)
	}
	return fmt.Errorf("unknown kind: %w", errRecord)
}

// replayKey applies a change to the entry of a record's key, unless the key's database was flushed since.
func (w *writer) replayKey(rec *record, r volume.Record, apply func(tb *table, p spot)) error {
	tb, err := w.s.table(rec.table)
	if err != nil {
		return err
	}
	if r.Counter <= tb.flushed {
		return nil
	}
	p := w.s.obtain(tb, w.s.hash(rec.key), rec.key)
	apply(tb, p)
	if e := p.entry(); !e.live() && e.counter == r.Counter {
		p.buried(tb.number)
	}
	return nil
}

func (w *writer) replaySwap(r volume.Record) error {
	sw, err := decodeSwap(r.Payload)
	if err != nil {
		return err
	}
	for i := range sw.db {
		if _, err := w.s.table(sw.db[i]); err != nil { // as many databases as tables
			return err
		}
		tb, err := w.s.table(sw.table[i])
		if err != nil {
			return err
		}
		w.assign(int(sw.db[i]), tb, r.Counter)
	}
	return nil
}

// table returns the table of that number.
func (s *Space) table(number uint16) (*table, error) {
	if int(number) < len(s.numbered) {
		return s.numbered[number], nil
	}
	return nil, fmt.Errorf("database %d of %d: start with more databases: %w", number, len(s.numbered), errRecord)
}
