package streams_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"cvmstore/keyspace"
	"cvmstore/streams"
)

// BenchmarkRecovery opens a stream of two million entries of 100 bytes; only metadata is read, of the summaries.
func BenchmarkRecovery(b *testing.B) {
	const entries = 2_000_000
	r := newRig(b).open()
	defer r.close()
	pad := make([]byte, 90)
	key := []byte("s")
	for i := range entries {
		if err := r.do(0, [][]byte{key}, func(t *keyspace.Tx) error {
			_, _, err := streams.Add(t, key, streams.AddOptions{ID: streams.ID{MS: 1_700_000_000_000 + uint64(i/3), Seq: uint64(i % 3)}}, [][]byte{[]byte("f"), pad})
			return err
		}); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			r.settle()
		}
	}
	b.ReportMetric(float64(r.s.Used())/entries, "index-B/entry")
	var before, after runtime.MemStats
	for b.Loop() {
		r.close()
		r.s, r.v = nil, nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		start, read := time.Now(), r.dev.Counters().BytesRead
		r.open()
		took, n := time.Since(start), r.dev.Counters().BytesRead-read
		b.ReportMetric(took.Seconds()*1e9/entries, "recovery-ns/entry")
		b.ReportMetric(float64(n)/entries, "read-B/entry")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/entries, "heap-B/entry")
	}
	if got := r.stat("s").Length; got != entries {
		b.Fatal(fmt.Sprint(got, " entries"))
	}
}
