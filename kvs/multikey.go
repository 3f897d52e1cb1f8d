package kvs

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Value is one answer of MGet.
type Value struct {
	Bytes []byte // valid until End
	OK    bool   // false: the key is absent, or not a string
}

// MGet looks up keys into out, which is as long. It returns ErrMiss only after it has asked for all values that are on the
// device, so that they are fetched at once.
func MGet(t *keyspace.Tx, keys [][]byte, out []Value) error {
	var miss error
	for i, key := range keys {
		val, ok, err := Get(t, key)
		switch {
		case err == nil:
			out[i] = Value{val, ok}
		case errors.Is(err, keyspace.ErrWrongType):
			out[i] = Value{}
		case errors.Is(err, keyspace.ErrMiss):
			miss = err
		default:
			return err
		}
	}
	return miss
}

// MSet sets keys to values: pairs is key, value, key, value and so on. All of it is one batch.
func MSet(t *keyspace.Tx, pairs [][]byte) error {
	bytes := 0
	for i := 0; i < len(pairs); i += 2 {
		if err := checkSize(t, pairs[i], len(pairs[i+1])); err != nil {
			return err
		}
		bytes += keyspace.PutSize(len(pairs[i]), len(pairs[i+1]))
	}
	if err := t.Reserve(bytes, len(pairs)/2, volume.ClassNormal); err != nil {
		return err
	}
	for i := 0; i < len(pairs); i += 2 {
		put(t, pairs[i], pairs[i+1], 0, "set")
	}
	return nil
}

// MSetNX is MSet if none of the keys exists, and says whether that was so.
func MSetNX(t *keyspace.Tx, pairs [][]byte) (bool, error) {
	for i := 0; i < len(pairs); i += 2 {
		it, err := t.Find(pairs[i])
		if err != nil || it.Exists() {
			return false, err
		}
	}
	if err := MSet(t, pairs); err != nil {
		return false, err
	}
	return true, nil
}
