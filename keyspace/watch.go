package keyspace

import (
	"encoding/binary"

	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// Watch is one session's WATCH of a key. A comparable version of an entry would not do: a key that was absent, created and
// deleted again leaves nothing behind once its tombstone is fresh, and a transaction that watched it must still fail. So
// watched keys, and only those, are counted by name.
type Watch struct {
	w     *watched
	since uint64
	db    int
	hash  uint32
	key   string
}

// watched counts the changes of a key that at least one session watches. Guarded by its stripe.
type watched struct {
	changes uint64
	last    volume.Counter // of the newest change
	refs    int
}

// watchKey is the name of a key of the transaction's database in stripe.watched, in the transaction's scratch.
func (t *Tx) watchKey(key []byte) []byte {
	t.w.item = binary.LittleEndian.AppendUint16(t.w.item[:0], uint16(t.db))
	t.w.item = append(t.w.item, key...)
	return t.w.item
}

// Watch begins to watch a key of this transaction. A key that has expired is absent: it is deleted first, so that only
// what happens from now on counts. Unwatch it in the end.
func (t *Tx) Watch(key []byte) (*Watch, error) {
	p, err := t.live(key)
	if err != nil {
		return nil, err
	}
	name := t.watchKey(key)
	if p.st.watched == nil {
		p.st.watched = make(map[string]*watched)
	}
	w := p.st.watched[string(name)]
	if w == nil {
		w = &watched{}
		p.st.watched[string(name)] = w
	}
	w.refs++
	return &Watch{w: w, since: w.changes, db: t.db, hash: t.hash(key), key: string(key)}, nil
}

// Key returns the key that is watched, for Begin.
func (w *Watch) Key() []byte { return []byte(w.key) }

// DB returns the database that the key is watched in.
func (w *Watch) DB() int { return w.db }

// Changed says whether the key was created, written, deleted, given another expiry, flushed, swapped, or has expired, since Watch.
// The transaction was begun in the watch's database with the key. If so, the reply depends on that change.
func (t *Tx) Changed(w *Watch) (bool, error) {
	if w.db != t.db {
		panic("internal error: keyspace: watch of another database")
	}
	if _, err := t.live([]byte(w.key)); err != nil {
		return false, err
	}
	if w.w.changes == w.since || mutant.On(mutant.IgnoreWatch) {
		return false, nil
	}
	t.see(w.w.last)
	return true, nil
}

// Unwatch ends a watch. The caller holds no transaction.
func (s *Space) Unwatch(w *Watch) {
	st := &s.stripes[stripeOf(w.hash)]
	st.mu.Lock()
	defer st.mu.Unlock()
	if w.w.refs--; w.w.refs > 0 {
		return
	}
	delete(st.watched, string(append(binary.LittleEndian.AppendUint16(nil, uint16(w.db)), w.key...)))
	if len(st.watched) == 0 {
		st.watched = nil
	}
}

// touch counts a change of a key in a stripe where something is watched.
func (t *Tx) touch(st *stripe, key []byte, c volume.Counter) {
	if w := st.watched[string(t.watchKey(key))]; w != nil {
		w.changes++
		w.last = c
	}
}

// touchDatabase counts a change of the whole database db as one of each watched key of it that exists in one of tables: a
// flush, or a swap, before or after which the key is there.
func (t *Tx) touchDatabase(db int, c volume.Counter, tables ...*table) {
	for i := range t.w.s.stripes {
		for name, w := range t.w.s.stripes[i].watched {
			key := []byte(name[2:])
			if int(binary.LittleEndian.Uint16([]byte(name[:2]))) == db && t.inOneOf(tables, key) {
				w.changes++
				w.last = c
			}
		}
	}
}

func (t *Tx) inOneOf(tables []*table, key []byte) bool {
	for _, tb := range tables {
		if p := t.w.s.find(tb, t.w.s.hash(key), key); p.i >= 0 && p.entry().live() {
			return true
		}
	}
	return false
}
