package kvs_test

import (
	"errors"
	"strings"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// TestAValueThatFillsItsRecordIsNotMovedToALongerName: RENAME and COPY write the value again, under the other name.
func TestAValueThatFillsItsRecordIsNotMovedToALongerName(t *testing.T) {
	r := newRig(t)
	r.space.BlobBytes = -1
	r.open()
	n := r.v.MaxRecord() - keyspace.PutSize(1, 0)
	if err := r.do(0, bs("k"), func(x *keyspace.Tx) error {
		_, err := kvs.Set(x, []byte("k"), make([]byte, n), kvs.SetOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	to := strings.Repeat("x", 100)
	err := r.do(0, bs("k", to), func(x *keyspace.Tx) error {
		_, _, err := x.Rename([]byte("k"), []byte(to), false)
		return err
	})
	if !errors.Is(err, keyspace.ErrMoveTooLarge) {
		t.Fatal(err)
	}
}
