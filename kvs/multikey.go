package kvs

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Value is a string as a reply carries it: bytes, or a part of a blob, which whoever sends it reads piece by piece. It is valid
// until End; who wants the blob longer takes a reference.
type Value struct {
	Bytes    []byte
	Blob     *volume.Blob // nil: Bytes
	From, To int64        // of Blob
	OK       bool         // false: the key is absent, or (MGet) not a string
}

// MGet looks up keys into out, which is as long. It reads no blobs. It returns ErrMiss only after it has asked for all values that are on the
// device, so that they are fetched at once.
func MGet(t *keyspace.Tx, keys [][]byte, out []Value) error {
	var miss error
	for i, key := range keys {
		v, err := View(t, key)
		switch {
		case err == nil:
			out[i] = v
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
	var miss error
	var large map[int]content // those that are not simply their argument; usually none
	for i := 0; i < len(pairs); i += 2 {
		if err := checkSize(t, pairs[i], len(pairs[i+1])); err != nil {
			return err
		}
		c, err := prepare(t, pairs[i], source{bytes: pairs[i+1]})
		switch {
		case errors.Is(err, keyspace.ErrMiss):
			miss = err // and go on, so that all blobs are written at once
		case err != nil:
			return err
		case c.blob != nil:
			if large == nil {
				large = map[int]content{}
			}
			large[i] = c
		}
		bytes += c.reserve(pairs[i])
	}
	if miss != nil {
		return miss
	}
	if err := t.Reserve(bytes, len(pairs)/2, volume.ClassNormal); err != nil {
		return err
	}
	for i := 0; i < len(pairs); i += 2 {
		c, ok := large[i]
		if !ok {
			c = plain(pairs[i+1])
		}
		put(t, pairs[i], c, 0, "set")
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
