package keyspace

import "cvmstore/volume"

// Event is something that happened to a key, under the names that Redis' keyspace notifications have.
type Event struct {
	DB      int
	Key     []byte // nil: the whole database ("flushdb", "swapdb"). Valid during the call only.
	Name    string
	Counter volume.Counter // shown to nobody before this has reached their level (DESIGN.md 4.3)
	Origin  uint64         // what SetOrigin said
	Change  bool           // the key has changed; else it is a further name for a change that was told already
}

// Observe has f told of every event from now on: of each change what Options.OnChange is told, and besides when a key is new,
// and what Tx.Also says. f is called under the key's lock. It must not call the space, nor keep the key. Call it before the
// space serves transactions.
func (s *Space) Observe(f func(Event)) { s.observer = f }

// Also tells observers another name of what this transaction has done to a key: SADD that makes a set, SREM that empties it.
func (t *Tx) Also(key []byte, event string) {
	if f := t.w.s.observer; f != nil && !t.private() {
		p := t.locate(key)
		c := t.seen
		if p.i >= 0 {
			c = p.entry().counter
		}
		f(Event{DB: t.db, Key: key, Name: event, Counter: c, Origin: t.origin})
	}
}

// told passes a change on to those who want to know.
func (t *Tx) told(key []byte, event string, c volume.Counter) {
	if t.private() {
		return
	}
	if f := t.w.s.o.OnChange; f != nil {
		f(t.db, key, event, c)
	}
	if f := t.w.s.observer; f != nil {
		f(Event{t.db, key, event, c, t.origin, true})
	}
}

// toldOf is told, of a whole database.
func (t *Tx) toldOf(db int, event string, c volume.Counter) {
	if f := t.w.s.o.OnChange; f != nil {
		f(db, nil, event, c)
	}
	if f := t.w.s.observer; f != nil {
		f(Event{db, nil, event, c, t.origin, true})
	}
}

// SetOrigin says who is behind this transaction: events carry it. Begin sets it to 0, nobody.
func (t *Tx) SetOrigin(id uint64) { t.origin = id }

// toldNothing tells observers of a flush that found nothing.
func (t *Tx) toldNothing() {
	if f := t.w.s.observer; f != nil {
		f(Event{DB: t.db, Name: "flushdb", Counter: t.seen, Origin: t.origin})
	}
}

// NoteAbsent begins, or ends, to take note of keys that are looked up and absent.
func (t *Tx) NoteAbsent(on bool) { t.noting, t.absent = on, t.absent[:0] }

// Absent returns the keys noted since NoteAbsent, each once. They are the command's arguments.
func (t *Tx) Absent() [][]byte { return t.absent }

func (t *Tx) missed(key []byte) {
	if t.private() {
		return
	}
	for _, k := range t.absent {
		if string(k) == string(key) {
			return
		}
	}
	t.absent = append(t.absent, key)
}
