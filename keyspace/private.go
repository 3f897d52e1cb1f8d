package keyspace

import "cvmstore/volume"

// Beside the databases that clients SELECT there are private ones, which belong to other stores: they share the keyspace's locks,
// batches, recovery and compaction, so a transaction may change them together with keys. No command on keys reaches them: they are not
// flushed, swapped, evicted from, or told of. Their tables have numbers from the top, so that they keep them when the
// number of databases changes.

// The private databases, for Private.
const (
	PrivateFiles   = 0
	PrivateUploads = 1

	privateTables    = 2
	privateNumberMax = 1<<16 - 1
)

// Private returns the number of a private database, for Begin, Use and Scan.
func (s *Space) Private(n int) int { return s.o.Databases + n }

// Private returns the number of a private database.
func (t *Tx) Private(n int) int { return t.w.s.Private(n) }

// private says whether the transaction is in one.
func (t *Tx) private() bool { return t.db >= t.w.s.o.Databases }

// numberOf is the number that a table has in records.
func (s *Space) numberOf(slot int) uint16 {
	if slot < s.o.Databases {
		return uint16(slot)
	}
	return uint16(privateNumberMax - (slot - s.o.Databases))
}

// slotOf returns where the table of a number stands in numbered, or -1.
func (s *Space) slotOf(number uint16) int {
	switch private := privateNumberMax - int(number); {
	case int(number) < s.o.Databases:
		return int(number)
	case private < privateTables:
		return s.o.Databases + private
	}
	return -1
}

// Count counts the keys of a private database, for INFO: it takes all stripes' locks for a moment, one after the other.
func (s *Space) Count(db int) (n int) {
	s.each(db, func(*shard, *entry) { n++ })
	return n
}

// EachKey passes on the keys of a database with their expiries, stripe by stripe. They are valid during the call only. It is for
// the end of recovery: no reply may depend on it.
func (s *Space) EachKey(db int, f func(key []byte, expiry int64)) {
	s.each(db, func(sh *shard, e *entry) { f(sh.key(e), e.expiry) })
}

func (s *Space) each(db int, f func(*shard, *entry)) {
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.Lock()
		if d := st.dirs[s.tables[db].slot]; d != nil {
			d.each(func(sh *shard) bool {
				for i := range sh.entries {
					if sh.entries[i].live() {
						f(sh, &sh.entries[i])
					}
				}
				return true
			})
		}
		st.mu.Unlock()
	}
}

// Compound is volume's, for a value that is made of parts of blobs.
func (t *Tx) Compound(attrs []byte, pieces ...volume.CompoundPiece) (*volume.Blob, error) {
	return t.w.v.Compound(attrs, pieces...)
}

// KeyedHash is a keyed hash of bytes of a store: 32 bytes that tell who has no key nothing.
func (t *Tx) KeyedHash(s volume.Store, b []byte) volume.Sum { return t.w.v.ItemHash(s, b, 0) }

// CheckBlob reads and verifies all of a blob, without keeping it, or asks for that (ErrMiss).
func (t *Tx) CheckBlob(b *volume.Blob) error {
	for i := range t.jobs {
		j := &t.jobs[i]
		if j.load != b || j.from != checked {
			continue
		}
		done, err := j.t.Done()
		if !done {
			t.again = true
			return ErrMiss
		}
		return err
	}
	t.ask(job{t: volume.NewCheck(volume.Piece{Blob: b, To: b.Size()}), load: b, from: checked})
	return ErrMiss
}

// CheckValue reads a key's value from the device and verifies it, whether or not it is in memory; or asks for that (ErrMiss).
func (t *Tx) CheckValue(key []byte) error {
	p, err := t.live(key)
	if p.i < 0 || err != nil {
		return err
	}
	e := p.entry()
	if id := e.blob(); id != 0 {
		return t.CheckBlob(t.w.v.BlobByID(id))
	}
	payload, err := t.Fetch(volume.Fetch{At: e.place, Size: int(e.size), Counter: e.value, Kind: KindPut, Store: volume.StoreKeys})
	if err == nil {
		_, err = t.check(p, payload)
	}
	return err
}

// checked stands in a job in place of where the load begins.
const checked = -1

// WriteFilePart is WriteBlob for a part of a file, in chunks of so many bytes (0: by its size).
func (t *Tx) WriteFilePart(chunk int, data []byte) (*volume.Blob, error) {
	pieces := []volume.Piece{{Bytes: data}}
	sum := t.w.s.sumOf(pieces)
	if b, known, err := t.written(sum); known {
		return b, err
	}
	if !t.HasChanged() {
		t.ask(job{t: volume.NewFileTransfer(chunk, pieces...), sum: sum})
	}
	return nil, ErrMiss
}
