package kvs

import (
	"cvmstore/keyspace"
	"cvmstore/volume"
)

// edit is a change of a string's bytes in place: the value as it will be, to be written whole. Its key keeps its expiry.
type edit struct {
	val   []byte // a copy, at least as long as asked for, zeros behind what there was
	old   int    // length of the value before
	found bool   // the key exists
	item  keyspace.Item
}

// beginEdit loads a value and makes a copy of at least n bytes.
func beginEdit(t *keyspace.Tx, key []byte, n int) (e edit, err error) {
	it, err := find(t, key)
	if err != nil {
		return e, err
	}
	n = max(n, it.ValueSize)
	if err := checkSize(t, key, n); err != nil {
		return e, err
	}
	old, it, err := t.Load(key, keyspace.TypeString)
	if err != nil {
		return e, err
	}
	e = edit{val: make([]byte, n), old: len(old), found: it.Exists(), item: it}
	copy(e.val, old)
	return e, nil
}

// changed says that something changes even if none of the old bytes does: the length, or the encoding.
func (e *edit) changed() bool {
	return !e.found || len(e.val) > e.old || e.item.Encoding != encodingRaw
}

// write ends an edit. What was edited is raw, as in Redis.
func (e *edit) write(t *keyspace.Tx, key []byte, event string) error {
	if err := t.Reserve(keyspace.PutSize(len(key), len(e.val)), 1, volume.ClassNormal); err != nil {
		return err
	}
	t.Put(key, keyspace.Put{
		Type: keyspace.TypeString, Encoding: encodingRaw, Expiry: e.item.Expiry, Event: event,
	}, e.val)
	return nil
}

// SetRange writes part over a value from offset on, with zeros before it where the value is shorter, and returns the new
// length. An empty part changes nothing.
func SetRange(t *keyspace.Tx, key []byte, offset int64, part []byte) (int, error) {
	it, err := find(t, key)
	if err != nil {
		return 0, err
	}
	if len(part) == 0 {
		return it.ValueSize, nil
	}
	if offset > lengthMax-int64(len(part)) {
		return 0, ErrTooLong
	}
	e, err := beginEdit(t, key, int(offset)+len(part))
	if err != nil {
		return 0, err
	}
	copy(e.val[offset:], part)
	return len(e.val), e.write(t, key, "setrange")
}
