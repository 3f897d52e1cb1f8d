package keyspace

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What a ring returns is what was put there; what it lent under a lock does not change under that lock.
func TestARingReturnsWhatItWasGiven(t *testing.T) {
	for _, size := range []int64{0, 1 << 10, 5 << 10, 64 << 10, 1 << 20} {
		rng := rand.New(rand.NewPCG(uint64(size), 2))
		r := newRing(size)
		type value struct {
			pos uint64
			val []byte
		}
		var kept []value
		type loan struct{ got, want []byte }
		var loans []loan
		lock, hits := uint64(1), 0
		for range 20000 {
			val := make([]byte, 1+rng.IntN(300))
			for i := range val {
				val[i] = byte(rng.Uint32())
			}
			if pos := r.append(val, lock); pos != 0 {
				kept = append(kept, value{pos, val})
			}
			for range 2 {
				if len(kept) == 0 {
					break
				}
				v := kept[max(0, len(kept)-1-rng.IntN(400))]
				if got, _, ok := r.get(v.pos, len(v.val), lock); ok {
					hits++
					loans = append(loans, loan{got, v.val})
				}
			}
			if rng.IntN(50) == 0 {
				for _, l := range loans {
					if !bytes.Equal(l.got, l.want) {
						t.Fatalf("ring of %d bytes: a lent value changed", size)
					}
				}
				loans = loans[:0]
				lock++
			}
		}
		if size > 0 && hits == 0 || int64(r.bytes) > size {
			t.Fatalf("ring of %d bytes: %d hits, %d bytes allocated", size, hits, r.bytes)
		}
		if _, _, ok := r.get(0, 1, lock); ok && size > 0 {
			t.Fatal("position 0 is no position")
		}
	}
}
