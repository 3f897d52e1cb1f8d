package kvs

import (
	"errors"

	"cvmstore/keyspace"
	"cvmstore/kvs/rdb"
	"cvmstore/volume"
)

// ErrBusyKey: RESTORE found the key and was not told to replace it.
//
//lint:ignore ST1005 Redis ends it so
var ErrBusyKey = errors.New("BUSYKEY Target key name already exists.")

// Dump returns the value of a key in Redis' format.
func Dump(t *keyspace.Tx, key []byte) (payload []byte, ok bool, err error) {
	it, err := t.Find(key)
	if err != nil || !it.Exists() {
		return nil, false, err
	}
	if _, ok := dumpKinds[it.Type]; !ok {
		return nil, false, errNoDump
	}
	if it.Type != keyspace.TypeString {
		v, err := whole(t, key, it.Type)
		if err != nil {
			return nil, false, err
		}
		return rdb.AppendValue(nil, &v), true, nil
	}
	val, _, err := t.Load(key, keyspace.TypeString)
	if err != nil {
		return nil, false, err
	}
	return rdb.AppendDump(nil, val), true, nil
}

var errNoDump = errors.New("ERR values of this type cannot be dumped yet")

func restoreString(t *keyspace.Tx, key, val []byte, expiry int64) error {
	if err := checkSize(t, key, len(val)); err != nil {
		return err
	}
	c, err := prepare(t, key, source{bytes: val})
	if err != nil {
		return err
	}
	if err := t.Reserve(c.reserve(key), 1, volume.ClassNormal); err != nil {
		return err
	}
	put(t, key, c, expiry, "restore")
	return nil
}

// RestoreOptions of a RESTORE.
type RestoreOptions struct {
	Replace bool
	Expiry  int64 // absolute store time, ms; 0: never; one that has come leaves no key
	Expire  bool  // Expiry is meant
	Idle    int64 // seconds for which the key counts as unused; negative: as used now
	Uses    int64 // counter of its uses, where uses are counted; negative: as a new key
}

// Restore sets a key to what a payload of Redis' format holds.
func Restore(t *keyspace.Tx, key, payload []byte, o RestoreOptions) error {
	it, err := t.Find(key)
	if err != nil {
		return err
	}
	if it.Exists() && !o.Replace {
		return ErrBusyKey
	}
	v, err := rdb.ParseValue(payload, lengthMax)
	if err != nil {
		return err
	}
	if o.Expire && o.Expiry <= t.Now() {
		_, err := t.Del([][]byte{key})
		return err
	}
	expiry := int64(0)
	if o.Expire {
		expiry = o.Expiry
	}
	if v.Kind == rdb.KindString {
		err = restoreString(t, key, v.Items[0], expiry)
	} else {
		err = restoreWhole(t, key, &v, expiry)
	}
	if err != nil {
		return err
	}
	t.SetUse(key, o.Idle, o.Uses)
	return nil
}
