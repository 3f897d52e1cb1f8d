package keyspace

import "cvmstore/volume"

// Commands on keys of any type.

// Del deletes the keys that exist and returns how many. A key that stands twice counts once.
func (t *Tx) Del(keys [][]byte) (int, error) {
	bytes, found := 0, 0
	for _, k := range keys {
		it, err := t.Find(k)
		if err != nil {
			return 0, err
		}
		if it.Exists() {
			bytes += DeleteSize(len(k))
			found++
		}
	}
	if found == 0 {
		return 0, nil
	}
	if err := t.Reserve(bytes, found, volume.ClassReclaim); err != nil {
		return 0, err
	}
	n := 0
	for _, k := range keys {
		if p := t.locate(k); p.i >= 0 && p.entry().live() {
			t.bury(p, DeleteSize(len(k)), "del")
			n++
		}
	}
	return n, nil
}

// Exists counts the keys that exist; one that stands twice counts twice.
func (t *Tx) Exists(keys [][]byte) (int, error) {
	n := 0
	for _, k := range keys {
		it, err := t.Peek(k)
		if err != nil {
			return 0, err
		}
		if it.Exists() {
			n++
		}
	}
	return n, nil
}

// Touch is Exists, and counts as a use of the keys.
func (t *Tx) Touch(keys [][]byte) (int, error) {
	n := 0
	for _, k := range keys {
		it, err := t.Find(k)
		if err != nil {
			return 0, err
		}
		if it.Exists() {
			n++
		}
	}
	return n, nil
}

// TypeName returns the name of the key's type, "none" if it is absent.
func (t *Tx) TypeName(key []byte) (string, error) {
	it, err := t.Peek(key)
	if err != nil || !it.Exists() {
		return "none", err
	}
	return t.w.s.types[it.Type].Name(), nil
}

// ExpireCond are the conditions of the EXPIRE family; those that are set must all hold.
type ExpireCond uint8

// The conditions. For GT and LT a key without expiry lives for ever.
const (
	ExpireNX ExpireCond = 1 << iota // it has no expiry yet
	ExpireXX                        // it has one
	ExpireGT                        // the new one is later
	ExpireLT                        // the new one is earlier
)

func (c ExpireCond) holds(old, at int64) bool {
	switch {
	case c&ExpireNX != 0 && old != 0,
		c&ExpireXX != 0 && old == 0,
		c&ExpireGT != 0 && (old == 0 || at <= old),
		c&ExpireLT != 0 && old != 0 && at >= old:
		return false
	}
	return true
}

// Expire sets when a key goes: at, in absolute store time (ms). A time that has come deletes it at once. It returns false
// if the key is absent or the condition does not hold.
func (t *Tx) Expire(key []byte, at int64, c ExpireCond) (bool, error) {
	it, err := t.Find(key)
	if err != nil || !it.Exists() || !c.holds(it.Expiry, at) {
		return false, err
	}
	if at <= t.Now() {
		if err := t.Reserve(DeleteSize(len(key)), 1, volume.ClassReclaim); err != nil {
			return false, err
		}
		t.Remove(key, "del")
		return true, nil
	}
	if err := t.Reserve(ExpireSize(len(key)), 1, volume.ClassReclaim); err != nil {
		return false, err
	}
	t.SetExpiry(key, at, "expire")
	return true, nil
}

// Expiry returns when a key goes, in absolute store time (ms), or 0 for a key that stays.
func (t *Tx) Expiry(key []byte) (at int64, found bool, err error) {
	it, err := t.Peek(key)
	return it.Expiry, it.Exists(), err
}

// Persist takes a key's expiry away. It returns false if there is none.
func (t *Tx) Persist(key []byte) (bool, error) {
	it, err := t.Find(key)
	if err != nil || it.Expiry == 0 {
		return false, err
	}
	if err := t.Reserve(ExpireSize(len(key)), 1, volume.ClassNormal); err != nil {
		return false, err
	}
	t.SetExpiry(key, 0, "persist")
	return true, nil
}
