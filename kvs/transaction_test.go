package kvs_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// TestTransactionReadsWhatItDidNotRehearse: once something has changed, a value that is on the device only is read at once,
// and so is one that the same batch has written.
func TestTransactionReadsWhatItDidNotRehearse(t *testing.T) {
	r := newRig(t)
	r.space.CacheBytes = -1
	r.open()
	defer r.close()
	cold, fresh := strings.Repeat("c", 3000), strings.Repeat("f", 5000)
	if err := r.do(0, bs("cold"), func(t *keyspace.Tx) error {
		_, err := kvs.Set(t, []byte("cold"), []byte(cold), kvs.SetOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.settle()
	tx := &r.tx
	r.s.Begin(tx, 0, bs("cold", "new"))
	set := func() error { _, err := kvs.Set(tx, []byte("new"), []byte(fresh), kvs.SetOptions{}); return err }
	tx.Rehearse()
	if err := set(); !errors.Is(err, keyspace.ErrRehearsed) {
		t.Fatalf("rehearsal: %v", err)
	}
	if got, _, err := kvs.Get(tx, []byte("new")); got != nil || err != nil {
		t.Fatalf("the rehearsal changed something: %q %v", got, err)
	}
	if err := tx.Perform(0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := kvs.Get(tx, []byte("cold")); !errors.Is(err, keyspace.ErrMiss) {
		t.Fatalf("nothing has changed yet, so a miss is the answer: %v", err)
	}
	if err := set(); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"cold": cold, "new": fresh} {
		if got, ok, err := kvs.Get(tx, []byte(key)); !ok || err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s: %d bytes, %v %v", key, len(got), ok, err)
		}
	}
	tx.End()
}
