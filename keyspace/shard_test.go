package keyspace

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"cvmstore/volume"
)

// check asserts what must hold of a directory: every entry is found, stands in the right shard, and nothing is left over.
func (d *directory) check(t *testing.T, want map[string]uint32) {
	t.Helper()
	n := 0
	d.each(func(sh *shard) bool {
		slots, bytes := 0, 0
		for _, v := range sh.slots {
			if v != 0 {
				slots++
			}
		}
		for i := range sh.entries {
			e := &sh.entries[i]
			key := sh.key(e)
			bytes += len(key)
			if h, ok := want[string(key)]; !ok || h != e.hash {
				t.Fatalf("entry %q with hash %x, want %x %v", key, e.hash, h, ok)
			}
			if d.shard(e.hash) != sh || sh.find(e.hash, key) != i {
				t.Fatalf("entry %q is not where its hash leads", key)
			}
		}
		if slots != len(sh.entries) || bytes+sh.garbage != len(sh.arena) {
			t.Fatalf("%d slots for %d entries; %d bytes of keys and %d garbage in %d", slots, len(sh.entries), bytes, sh.garbage, len(sh.arena))
		}
		n += len(sh.entries)
		return true
	})
	if n != len(want) {
		t.Fatalf("%d entries, want %d", n, len(want))
	}
}

// Insertions, removals and splits keep every key where it is found, with good hashes and with bad ones.
func TestADirectoryFindsItsKeys(t *testing.T) {
	for _, bad := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 2))
		d := newDirectory()
		want := map[string]uint32{}
		for round, inserts := range []int{20000, 300, 12000, 10, 5000} {
			for range inserts {
				key := fmt.Sprintf("%d:%0*d", rng.IntN(40000), rng.IntN(60), 7)
				h, ok := want[key]
				if !ok {
					h = rng.Uint32() >> stripeBits
					if bad { // few hashes for many keys, all alike in their low bits
						h = uint32(rng.IntN(100)) << 12
					}
				}
				if i := d.shard(h).find(h, []byte(key)); (i >= 0) != ok {
					t.Fatalf("find %q: %d, known %v", key, i, ok)
				}
				if !ok && (!bad || len(want) < 2000) {
					sh, i := d.insert(h, []byte(key))
					if string(sh.key(&sh.entries[i])) != key {
						t.Fatal("inserted elsewhere")
					}
					want[key] = h
				}
			}
			d.check(t, want)
			for key, h := range want {
				if rng.IntN(10) < 3+round {
					sh := d.shard(h)
					sh.remove(sh.find(h, []byte(key)))
					delete(want, key)
				}
			}
			d.check(t, want)
		}
		for key, h := range want {
			sh := d.shard(h)
			sh.remove(sh.find(h, []byte(key)))
		}
		d.check(t, nil)
	}
}

// memoryPerKey builds an index of n keys and returns its bytes a key, keys excluded.
func memoryPerKey(n, keyLen int) (perKey float64, s *Space) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := heap()
	s = New(Options{})
	tb := s.tables[0]
	key := make([]byte, keyLen)
	for i := range n {
		copy(key, fmt.Sprintf("%016x", i))
		p := s.obtain(tb, s.hash(key), key)
		p.entry().setKind(TypeString, 0)
		p.entry().counter = volume.Counter(i + 1)
		tb.live++
	}
	after := heap()
	return float64(int64(after-before)-int64(n*keyLen)) / float64(n), s
}

// DESIGN.md section 10: at most 100 bytes a key, beyond the key. Cached values are measured apart.
func TestMemoryPerKey(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a few hundred megabytes")
	}
	for _, c := range []struct{ keys, keyLen int }{{1 << 20, 100}, {1_000_000, 100}, {1_400_000, 100}, {3_000_000, 16}} {
		perKey, s := memoryPerKey(c.keys, c.keyLen)
		t.Logf("%d keys of %d bytes: %.1f bytes a key beyond the key", c.keys, c.keyLen, perKey)
		if perKey > 100 {
			t.Errorf("%d keys of %d bytes take %.1f bytes each beyond the key, want at most 100", c.keys, c.keyLen, perKey)
		}
		runtime.KeepAlive(s)
	}
}
