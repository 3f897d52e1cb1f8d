package kvs_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// The pointer of a blob is moved when its segment is compacted, and is good afterwards: the values are there, before and after
// restarts, nothing of their room is given to others, and all of it comes back when they go.
func TestPointersOfBlobsSurviveCompaction(t *testing.T) {
	r := newBlobRig(t).open()
	const blobs, size = 12, 50_000
	val := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, size) }
	for i := range blobs {
		set(r, fmt.Sprint("blob", i), string(val(i)), 0)
	}
	// One small key, set again and again: the segments that fill hold nothing live but the pointers in the first one.
	for round := 0; r.v.Status().RecordsMoved < blobs; round++ {
		if round == 2000 {
			t.Fatalf("compaction has moved %d records", r.v.Status().RecordsMoved)
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
	check := func(when string) {
		t.Helper()
		for i := range blobs {
			key := fmt.Sprint("blob", i)
			var got []byte
			if err := r.do(0, bs(key), func(t *keyspace.Tx) error {
				v, _, err := kvs.Get(t, []byte(key))
				got = bytes.Clone(v)
				return err
			}); err != nil || !bytes.Equal(got, val(i)) {
				t.Fatalf("%s: %s: %d bytes, %v", when, key, len(got), err)
			}
		}
	}
	check("moved")
	for range 40 { // the segment goes, and its blocks are used again
		set(r, "other", string(bytes.Repeat([]byte("z"), size)), 0)
		if _, err := r.v.Compact(); err != nil && !errors.Is(err, volume.ErrBusy) {
			t.Fatal(err)
		}
	}
	check("after other values were written")
	for range 2 {
		r.reopen()
		check("after a restart")
	}
	free := func() uint64 {
		for range 20 {
			r.settle()
			r.v.Step()
		}
		return r.v.Status().FreeBytes
	}
	before := free()
	for i := range blobs {
		set(r, fmt.Sprint("blob", i), "small", 0)
	}
	if back := int64(free() - before); back < blobs*size*9/10 {
		t.Fatalf("%d bytes came back of %d", back, blobs*size)
	}
	r.close()
}
