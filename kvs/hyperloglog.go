package kvs

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/kvs/hll"
	"cvmstore/volume"
)

// loadHLL returns a copy of a key's HyperLogLog, to be changed and written; nil if the key is absent.
func loadHLL(t *keyspace.Tx, key []byte) (hll.HLL, keyspace.Item, error) {
	val, it, err := t.Load(key, keyspace.TypeString)
	if err != nil || !it.Exists() {
		return nil, it, err
	}
	h, err := hll.Check(val)
	if err != nil {
		return nil, it, err
	}
	return append(hll.HLL(nil), h...), it, nil
}

func putHLL(t *keyspace.Tx, key []byte, h hll.HLL, it keyspace.Item, event string) error {
	e := edit{window: h, item: it}
	if err := checkSize(t, key, len(h)); err != nil {
		return err
	}
	return e.write(t, key, event)
}

// PFAdd adds elements to a key's HyperLogLog, which is made if need be, and reports whether it changed.
func PFAdd(t *keyspace.Tx, key []byte, elements [][]byte, sparseMax int) (bool, error) {
	h, it, err := loadHLL(t, key)
	if err != nil {
		return false, err
	}
	changed := false
	if h == nil {
		h, changed = hll.New(), true
		h.Stale()
	}
	for _, e := range elements {
		var c bool
		if h, c, err = h.Add(e, sparseMax); err != nil {
			return false, err
		}
		changed = changed || c
	}
	if !changed {
		return false, nil
	}
	return true, putHLL(t, key, h, it, "pfadd")
}

// PFCount estimates how many elements were added to any of the keys. That of a single key is kept in its value, as Redis does;
// where there is no room for that it is not.
func PFCount(t *keyspace.Tx, keys [][]byte) (uint64, error) {
	if len(keys) > 1 {
		regs, _, err := unionHLL(t, keys)
		if err != nil {
			return 0, err
		}
		return hll.CountRegisters(regs), nil
	}
	h, it, err := loadHLL(t, keys[0])
	if err != nil || h == nil {
		return 0, err
	}
	if n, ok := h.Cached(); ok {
		return n, nil
	}
	n, err := h.Count()
	if err != nil {
		return 0, err
	}
	h.Cache(n)
	err = putHLL(t, keys[0], h, it, "")
	if errors.Is(err, volume.ErrFull) || errors.Is(err, volume.ErrTooLarge) {
		err = nil
	}
	return n, err
}

// unionHLL returns the registers of all keys together, and whether one of them is in dense form. It asks for all values before
// it gives up.
func unionHLL(t *keyspace.Tx, keys [][]byte) (regs []byte, dense bool, err error) {
	regs = hll.NewRegisters()
	var miss error
	for _, key := range keys {
		h, _, err := loadHLL(t, key)
		switch {
		case errors.Is(err, keyspace.ErrMiss):
			miss = err
			continue
		case err != nil:
			return nil, false, err
		case h == nil:
			continue
		}
		dense = dense || !h.Sparse()
		if err := h.Registers(regs); err != nil {
			return nil, false, err
		}
	}
	return regs, dense, miss
}

// PFMerge makes the first key's HyperLogLog the union of all keys'.
func PFMerge(t *keyspace.Tx, keys [][]byte, sparseMax int) error {
	regs, dense, err := unionHLL(t, keys)
	if err != nil {
		return err
	}
	h, it, err := loadHLL(t, keys[0])
	if err != nil {
		return err
	}
	if h == nil {
		h = hll.New()
	}
	if h, err = h.Merge(regs, dense, sparseMax); err != nil {
		return err
	}
	return putHLL(t, keys[0], h, it, "pfadd")
}

// PFLoad returns a key's HyperLogLog for PFDEBUG; nil if the key is absent.
func PFLoad(t *keyspace.Tx, key []byte) (hll.HLL, error) {
	h, _, err := loadHLL(t, key)
	return h, err
}

// PFToDense brings a key's HyperLogLog, which exists, into dense form, and reports whether it was not.
func PFToDense(t *keyspace.Tx, key []byte) (h hll.HLL, changed bool, err error) {
	h, it, err := loadHLL(t, key)
	if err != nil || !h.Sparse() {
		return h, false, err
	}
	if h, err = h.Dense(); err != nil {
		return nil, false, err
	}
	return h, true, putHLL(t, key, h, it, "")
}
