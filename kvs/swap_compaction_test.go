package kvs_test

import (
	"errors"
	"fmt"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// The record of a SWAPDB is moved when its segment is compacted, and no segment is refused for it; the databases stay swapped over
// restarts, and once they are swapped again the old record is dead.
func TestSwappedDatabasesSurviveCompaction(t *testing.T) {
	r := newBlobRig(t).open()
	swap := func(a, b int) {
		t.Helper()
		if err := r.doAll(0, func(t *keyspace.Tx) error { return t.Swap(a, b) }); err != nil {
			t.Fatal(err)
		}
	}
	get := func(db int) (s string) {
		t.Helper()
		if err := r.do(db, bs("where"), func(t *keyspace.Tx) error {
			v, _, err := kvs.Get(t, []byte("where"))
			s = string(v)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	// One small key, set again and again, so that a swap is all that older segments hold.
	compact := func(moved uint64) {
		t.Helper()
		for round := 0; r.v.Status().RecordsMoved < moved || r.v.Status().SegmentsCleaned == 0; round++ {
			if s := r.v.Status(); round == 4000 || s.SegmentsRefused > 0 {
				t.Fatalf("compaction has moved %d records, not %d, and cleaned %d segments; %d were refused", s.RecordsMoved, moved, s.SegmentsCleaned, s.SegmentsRefused)
			}
			set(r, "small", fmt.Sprint(round, string(make([]byte, 250))), 0)
			if round%20 == 0 {
				r.settle()
				if _, err := r.v.Compact(); err != nil && !errors.Is(err, volume.ErrBusy) {
					t.Fatal(err)
				}
				r.v.Step()
			}
		}
	}
	for db := range 2 {
		if err := r.do(db, bs("where"), func(t *keyspace.Tx) error {
			_, err := kvs.Set(t, []byte("where"), fmt.Append(nil, "table ", db), kvs.SetOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, tables ...int) {
		t.Helper()
		for db, n := range tables {
			if got := get(db); got != fmt.Sprint("table ", n) {
				t.Fatalf("%s: database %d has %q, not table %d", when, db, got, n)
			}
		}
	}
	swap(0, 1)
	compact(3) // two keys and the swap
	want("moved", 1, 0)
	for range 2 {
		r.reopen()
		want("after a restart", 1, 0)
	}
	swap(0, 1)
	compact(3)
	r.reopen()
	want("swapped back", 0, 1)
	r.settle()
	r.close()
}
