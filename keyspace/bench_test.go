package keyspace

import (
	"encoding/binary"
	"testing"
)

// BenchmarkInsert adds new keys of 16 bytes to the index: what recovery does for each live record, but for the hash sums.
func BenchmarkInsert(b *testing.B) {
	s := New(Options{})
	key := make([]byte, 16)
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		binary.BigEndian.PutUint64(key, n)
		s.obtain(s.tables[0], s.hash(key), key)
	}
}
