package kvs_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// A scan returns every key that exists all the time, exactly once, while others come and go and shards split.
func TestAScanMissesNothingThatStays(t *testing.T) {
	for _, count := range []int{1, 10, 1000} {
		if testing.Short() && count != 10 {
			continue
		}
		r := newRig(t)
		r.space.CacheBytes = -1
		r.open()
		rng := rand.New(rand.NewPCG(9, uint64(count)))
		write := func(keys ...string) {
			var pairs [][]byte
			for _, k := range keys {
				pairs = append(pairs, []byte(k), []byte("v"))
			}
			if err := r.do(0, bs(keys...), func(t *keyspace.Tx) error { return kvs.MSet(t, pairs) }); err != nil {
				t.Fatal(err)
			}
		}
		stay := map[string]int{}
		for i := range 30 {
			var keys []string
			for j := range 100 {
				k := fmt.Sprintf("stay:%d", i*100+j)
				stay[k] = 0
				keys = append(keys, k)
			}
			write(keys...)
		}
		added, calls := 0, 0
		for cursor := uint64(0); ; {
			next, err := r.s.Scan(&r.tx, 0, cursor, keyspace.ScanOptions{Match: []byte("stay:*"), Count: count}, func(key []byte) {
				stay[string(key)]++
			})
			if err != nil {
				t.Fatal(err)
			}
			calls++
			if calls%max(1, 100/count) == 0 && added < 400_000 { // 100 keys a shard at first, more than 1000 in the end
				var keys []string
				for range 500 {
					added++
					keys = append(keys, fmt.Sprintf("new:%d", added))
				}
				write(keys...)
				gone := bs(fmt.Sprintf("new:%d", rng.IntN(added)), fmt.Sprintf("new:%d", rng.IntN(added)))
				if err := r.do(0, gone, func(t *keyspace.Tx) error { _, err := t.Del(gone); return err }); err != nil {
					t.Fatal(err)
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		for k, n := range stay {
			if n != 1 {
				t.Fatalf("count %d: %s was returned %d times", count, k, n)
			}
		}
		t.Logf("count %d: %d calls, %d keys added meanwhile", count, calls, added)
		r.close()
	}
}

// Where hashes stand next to each other, a scan goes from one to the next.
func TestAScanOfNeighbouringHashes(t *testing.T) {
	r := newRig(t)
	r.space.Hash = func(key []byte) uint64 {
		var n uint64
		_, _ = fmt.Sscanf(string(key), "k%d", &n)
		return (1<<24 - 500 + n) << 32 // over the border of two stripes
	}
	r.open()
	seen := map[string]int{}
	for i := range 1000 {
		k := fmt.Sprintf("k%d", i)
		seen[k] = 0
		set(r, k, "v", 0)
	}
	for cursor := uint64(0); ; {
		next, err := r.s.Scan(&r.tx, 0, cursor, keyspace.ScanOptions{Count: 3}, func(key []byte) { seen[string(key)]++ })
		if err != nil {
			t.Fatal(err)
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for k, n := range seen {
		if n != 1 {
			t.Fatalf("%s was returned %d times", k, n)
		}
	}
	r.close()
}

// SCAN, KEYS and RANDOMKEY leave out what has expired, and journal its delete: it stays away after a restart at an earlier time.
func TestAggregatesJournalWhatTheyFindExpired(t *testing.T) {
	for name, look := range map[string]func(r *rig, emit func([]byte)) error{
		"scan": func(r *rig, emit func([]byte)) error {
			_, err := r.s.Scan(&r.tx, 0, 0, keyspace.ScanOptions{Count: 1000}, emit)
			return err
		},
		"keys": func(r *rig, emit func([]byte)) error {
			return r.doAll(0, func(t *keyspace.Tx) error { return t.Keys([]byte("*"), emit) })
		},
		"randomkey": func(r *rig, emit func([]byte)) error {
			return r.doAll(0, func(t *keyspace.Tx) error {
				for range 200 {
					k, ok, err := t.RandomKey()
					if !ok || err != nil {
						return err
					}
					if string(k) != "stays" {
						emit(k)
					}
				}
				emit([]byte("stays"))
				return nil
			})
		},
	} {
		r := newRig(t).open()
		set(r, "stays", "1", 0)
		set(r, "goes", "2", r.clock.Wall()+10)
		r.clock.advance(11)
		var got []string
		if err := look(r, func(k []byte) { got = append(got, string(k)) }); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != "[stays]" {
			t.Errorf("%s: %v", name, got)
		}
		applied, _, _ := r.v.Watermarks()
		if r.tx.Seen() < applied || r.s.Stats().Expired != 1 {
			t.Errorf("%s: seen %d of %d, %d expired", name, r.tx.Seen(), applied, r.s.Stats().Expired)
		}
		r.close()
	}
}

func TestScanFiltersByType(t *testing.T) {
	r := newRig(t).open()
	set(r, "a", "1", 0)
	for typ, want := range map[string]int{"": 1, "string": 1, "hash": 0, "none": 0} {
		n := 0
		if _, err := r.s.Scan(&r.tx, 0, 0, keyspace.ScanOptions{Type: typ}, func([]byte) { n++ }); err != nil || n != want {
			t.Errorf("type %q: %d keys, %v", typ, n, err)
		}
	}
	r.close()
}

func set(r *rig, key, val string, expiry int64) {
	r.tb.Helper()
	err := r.do(0, bs(key), func(t *keyspace.Tx) error {
		_, err := kvs.Set(t, []byte(key), []byte(val), kvs.SetOptions{Expiry: expiry})
		return err
	})
	if err != nil {
		r.tb.Fatal(err)
	}
}
