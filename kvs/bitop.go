package kvs

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// BitOperation is what BitOp does.
type BitOperation uint8

// The operations.
const (
	BitAnd BitOperation = iota
	BitOr
	BitXor
	BitNot // of one source
)

// BitOp combines sources, the shorter ones with zeros behind them, writes the result to dest, over whatever it held, and
// returns its length. Without a result dest is deleted.
func BitOp(t *keyspace.Tx, op BitOperation, dest []byte, sources [][]byte) (int, error) {
	vals := make([]Value, len(sources))
	longest, err := loadAll(t, sources, vals)
	if err != nil {
		return 0, err
	}
	if longest == 0 {
		it, err := t.Find(dest)
		if err != nil || !it.Exists() {
			return 0, err
		}
		if err := t.Reserve(keyspace.DeleteSize(len(dest)), 1, volume.ClassReclaim); err != nil {
			return 0, err
		}
		t.Remove(dest, "del")
		return 0, nil
	}
	if err := checkSize(t, dest, longest); err != nil {
		return 0, err
	}
	c, err := prepare(t, dest, source{bytes: combine(op, vals, longest)})
	if err != nil {
		return 0, err
	}
	if err := t.Reserve(c.reserve(dest), 1, volume.ClassNormal); err != nil {
		return 0, err
	}
	c.put(t, dest, keyspace.Put{Type: keyspace.TypeString, Encoding: encodingRaw, Event: "set"})
	return longest, nil
}

// loadAll gets all values, which must be strings, and returns the longest one's length. Of those that are on the device it
// asks for all before it gives up.
func loadAll(t *keyspace.Tx, keys [][]byte, out []Value) (longest int, err error) {
	var miss error
	for i, key := range keys {
		val, it, err := t.Load(key, keyspace.TypeString)
		switch {
		case errors.Is(err, keyspace.ErrMiss):
			miss = err
		case err != nil:
			return 0, err
		}
		out[i] = Value{Bytes: val, OK: it.Exists()}
		longest = max(longest, len(val))
	}
	return longest, miss
}

func combine(op BitOperation, vals []Value, n int) []byte {
	res := make([]byte, n)
	copy(res, vals[0].Bytes)
	if op == BitNot {
		for i := range res {
			res[i] = ^res[i]
		}
	}
	for _, v := range vals[1:] {
		b := v.Bytes
		switch op {
		case BitAnd:
			for i, c := range b {
				res[i] &= c
			}
			clear(res[len(b):])
		case BitOr:
			for i, c := range b {
				res[i] |= c
			}
		case BitXor:
			for i, c := range b {
				res[i] ^= c
			}
		}
	}
	return res
}
