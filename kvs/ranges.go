package kvs

import (
	"cvmstore/keyspace"
	"cvmstore/volume"
)

// edit is a change of some of a string's bytes. The window around them is in memory; what is before and behind it stays where it is,
// so the edit of a blob takes memory for its window only. Its key keeps its expiry.
type edit struct {
	window []byte // a copy of the bytes from at on, zeros behind what there was
	at     int64
	size   int64 // of the value as it will be
	before source
	behind source
	old    int64 // length of the value before
	found  bool  // the key exists
	item   keyspace.Item
}

// beginEdit loads the bytes from up to to of a value, which grows as far as that.
func beginEdit(t *keyspace.Tx, key []byte, from, to int64) (e edit, err error) {
	it, err := find(t, key)
	if err != nil {
		return e, err
	}
	n := int64(it.ValueSize)
	e = edit{at: from, size: max(n, to), old: n}
	if err := checkSize(t, key, int(e.size)); err != nil {
		return e, err
	}
	val, b, it, err := t.View(key, keyspace.TypeString)
	if err != nil {
		return e, err
	}
	inside, err := t.LoadRange(val, b, min(from, n), min(to, n))
	if err != nil {
		return e, err
	}
	e.found, e.item = it.Exists(), it
	e.window = make([]byte, to-from)
	copy(e.window, inside)
	if b != nil {
		e.before = source{body: b, part: true, to: min(from, n)}
		e.behind = source{body: b, part: true, from: min(to, n), to: n}
	} else {
		e.before = source{bytes: val[:min(from, n)], lent: true}
		e.behind = source{bytes: val[min(to, n):], lent: true}
	}
	return e, nil
}

// grew says that the value changes even if none of the old bytes does.
func (e *edit) grew() bool { return !e.found || e.size > e.old }

// settle ends an edit that wrote no bit. As in Redis, what was edited is raw, and as long as the edit wanted, but nobody is
// told: WATCH does not see it.
func (e *edit) settle(t *keyspace.Tx, key []byte) error {
	if !e.grew() && e.item.Encoding == encodingRaw {
		return nil
	}
	return e.write(t, key, "")
}

// write ends an edit. What was edited is raw, as in Redis.
func (e *edit) write(t *keyspace.Tx, key []byte, event string) error {
	window := source{bytes: e.window}
	return e.replace(t, key, window, event)
}

// replace writes the value with middle in place of the window.
func (e *edit) replace(t *keyspace.Tx, key []byte, middle source, event string) error {
	sources := [sourcesMax + 1]source{e.before, {part: true, to: max(e.at-e.old, 0)}, middle, e.behind}
	parts := sources[:0]
	for _, s := range sources {
		if s.size() > 0 {
			parts = append(parts, s)
		}
	}
	c, err := prepare(t, key, parts...)
	if err != nil {
		return err
	}
	if err := t.Reserve(c.reserve(key), 1, volume.ClassNormal); err != nil {
		return err
	}
	c.put(t, key, keyspace.Put{Type: keyspace.TypeString, Encoding: encodingRaw, Expiry: e.item.Expiry, Event: event})
	return nil
}

// SetRange writes part over a value from offset on, with zeros before it where the value is shorter, and returns the new
// length. An empty part changes nothing.
func SetRange(t *keyspace.Tx, key []byte, offset int64, part []byte) (int, error) {
	return setRange(t, key, offset, source{bytes: part})
}

// SetRangeBody is SetRange of a blob, of which the caller keeps its reference.
func SetRangeBody(t *keyspace.Tx, key []byte, offset int64, body *volume.Blob) (int, error) {
	return setRange(t, key, offset, source{body: body})
}

func setRange(t *keyspace.Tx, key []byte, offset int64, part source) (int, error) {
	it, err := find(t, key)
	if err != nil {
		return 0, err
	}
	n := int64(part.size())
	if n == 0 {
		return it.ValueSize, nil
	}
	if offset > lengthMax-n {
		return 0, ErrTooLong
	}
	e, err := beginEdit(t, key, offset, offset)
	if err != nil {
		return 0, err
	}
	// The window is empty: what part covers is cut off what is behind it.
	e.size = max(e.old, offset+n)
	if err := checkSize(t, key, int(e.size)); err != nil {
		return 0, err
	}
	e.behind.cut(n)
	return int(e.size), e.replace(t, key, part, "setrange")
}

// cut takes up to n bytes off the front.
func (s *source) cut(n int64) {
	if s.part {
		s.from = min(s.from+n, s.to)
		return
	}
	s.bytes = s.bytes[min(n, int64(len(s.bytes))):]
}
