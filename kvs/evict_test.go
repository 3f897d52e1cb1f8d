package kvs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// set writes a key; ttl in ms, 0: none.
func (r *rig) set(db int, key string, ttl int64) {
	r.tb.Helper()
	err := r.do(db, bs(key), func(t *keyspace.Tx) error {
		o := kvs.SetOptions{}
		if ttl > 0 {
			o.Expiry = t.Now() + ttl
		}
		_, err := kvs.Set(t, []byte(key), []byte("v"), o)
		return err
	})
	if err != nil {
		r.tb.Fatal(err)
	}
}

func (r *rig) touch(key string) {
	r.tb.Helper()
	if err := r.do(0, bs(key), func(t *keyspace.Tx) error { _, err := t.Touch(bs(key)); return err }); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *rig) has(db int, key string) (yes bool) {
	r.tb.Helper()
	err := r.do(db, bs(key), func(t *keyspace.Tx) error { n, err := t.Exists(bs(key)); yes = n > 0; return err })
	if err != nil {
		r.tb.Fatal(err)
	}
	return yes
}

// evict evicts n keys.
func (r *rig) evict(o keyspace.Eviction, n int) {
	r.tb.Helper()
	for n > 0 {
		k, err := r.s.Evict(o, 0, min(n, 50))
		n -= k
		if errors.Is(err, volume.ErrBusy) {
			r.settle()
		} else if err != nil {
			r.tb.Fatalf("%d keys left to evict: %v", n, err)
		}
	}
}

// Of two kinds of keys, the kind that a policy prefers goes first, and stays away over a restart.
func TestEvictionTakesTheKeysOfItsPolicy(t *testing.T) {
	const each = 2000
	for name, c := range map[string]struct {
		o    keyspace.Eviction
		good float64 // the least share of the preferred ones among those that went
	}{
		"volatile-random": {keyspace.Eviction{Rank: keyspace.RankRandom, Volatile: true}, 1},
		"volatile-ttl":    {keyspace.Eviction{Rank: keyspace.RankExpiry, Volatile: true, Samples: 10}, 0.95},
		"allkeys-lru":     {keyspace.Eviction{Rank: keyspace.RankIdle, Samples: 10}, 0.95},
		"allkeys-lfu":     {keyspace.Eviction{Rank: keyspace.RankUses, Samples: 10}, 0.95},
		"volatile-lru":    {keyspace.Eviction{Rank: keyspace.RankIdle, Samples: 10, Volatile: true}, 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.open()
			if c.o.Rank == keyspace.RankUses {
				r.s.SetUses(keyspace.Uses{Count: true, LogFactor: 10, Decay: 1})
			}
			for i := range each {
				long, short := int64(0), int64(0)
				if c.o.Volatile {
					short = 1_000_000
				}
				if c.o.Rank == keyspace.RankExpiry || c.o.Volatile && c.o.Rank == keyspace.RankIdle {
					long = 9_000_000
				}
				r.set(0, fmt.Sprint("goes", i), short)
				r.set(0, fmt.Sprint("stays", i), long)
			}
			r.clock.advance(10_000)
			r.s.ExpireCycle(1) // as the server's loop does: it moves the access clock
			for i := range each {
				for range 12 {
					r.touch(fmt.Sprint("stays", i))
				}
			}
			r.evict(c.o, each/2)
			count := func() (goes, stays int) {
				for i := range each {
					if !r.has(0, fmt.Sprint("goes", i)) {
						goes++
					}
					if !r.has(0, fmt.Sprint("stays", i)) {
						stays++
					}
				}
				return goes, stays
			}
			goes, stays := count()
			if goes+stays != each/2 || float64(goes) < c.good*each/2 {
				t.Errorf("evicted %d of the preferred keys and %d others", goes, stays)
			}
			if n := r.s.Stats().Evicted; n != each/2 {
				t.Errorf("%d keys counted as evicted", n)
			}
			r.reopen()
			if a, b := count(); a != goes || b != stays {
				t.Errorf("after a restart %d and %d are gone, before it %d and %d", a, b, goes, stays)
			}
		})
	}
}

// A volatile policy finds the one key with an expiry among many, in any database, and says when there is none.
func TestEvictionFindsTheLastVolatileKey(t *testing.T) {
	r := newRig(t)
	r.open()
	for i := range 3000 {
		r.set(i%3, fmt.Sprint("k", i), 0)
	}
	r.set(0, "persisted", 50_000)
	err := r.do(0, bs("persisted"), func(t *keyspace.Tx) error { _, err := t.Persist([]byte("persisted")); return err })
	if err != nil {
		t.Fatal(err)
	}
	r.set(2, "volatile", 50_000)
	o := keyspace.Eviction{Rank: keyspace.RankIdle, Volatile: true, Samples: 5}
	r.evict(o, 1)
	if r.has(2, "volatile") || !r.has(0, "persisted") {
		t.Error("another key went than the volatile one")
	}
	if n, err := r.s.Evict(o, 0, 1); n != 0 || !errors.Is(err, keyspace.ErrNothingToEvict) {
		t.Errorf("evicted %d more, %v", n, err)
	}
	r.set(1, "another", 50_000)
	r.evict(o, 1)
	if r.has(1, "another") {
		t.Error("a key that became volatile later is not found")
	}
}

// Evictions are mutations: with the uncommitted epochs full, the volume takes no more.
func TestEvictionWaitsForTheEpochs(t *testing.T) {
	r := newRig(t)
	r.volume.EpochOps = 4
	r.open()
	for i := range 200 {
		r.set(0, fmt.Sprint("k", i), 0)
		r.settle()
	}
	n, err := r.s.Evict(keyspace.Eviction{}, 0, 200)
	if !errors.Is(err, volume.ErrBusy) || n == 0 || n >= 200 {
		t.Fatalf("evicted %d without a commit, %v", n, err)
	}
	r.evict(keyspace.Eviction{}, 200-n)
	if keys, _ := size(r); keys != 0 {
		t.Errorf("%d keys left", keys)
	}
}

// What the index counts as used is what a restart counts from nothing.
func TestUsedIsWhatARestartCounts(t *testing.T) {
	r := newRig(t)
	r.open()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		key := fmt.Sprint("key", rng.IntN(300), i%2)
		switch rng.IntN(12) {
		case 0:
			_ = r.do(i%3, bs(key), func(t *keyspace.Tx) error { _, err := t.Del(bs(key)); return err })
		case 1:
			_ = r.do(i%3, bs(key, "other"), func(t *keyspace.Tx) error {
				_, _, err := t.Rename([]byte(key), []byte("other"), false)
				return err
			})
		case 2:
			if rng.IntN(40) == 0 {
				_ = r.doAll(i%3, (*keyspace.Tx).FlushDB)
			}
		case 3:
			_ = r.doAll(0, func(t *keyspace.Tx) error { return t.Swap(0, 1+i%2) })
		case 4:
			_, _ = r.s.Evict(keyspace.Eviction{}, 0, 1)
		case 5:
			r.set(i%3, key, 10)
			r.clock.advance(7)
		default:
			r.set(i%3, key, 0)
		}
		if i%500 == 499 {
			for more := true; more; {
				_, more = r.s.ExpireCycle(100)
				r.settle()
			}
			used := r.s.Used()
			r.reopen()
			if again := r.s.Used(); used != again || used <= 0 {
				t.Fatalf("step %d: %d bytes used, after a restart %d", i, used, again)
			}
		}
	}
	if a := r.s.Allocated(); a < r.s.Used()*3/4 {
		t.Errorf("%d bytes used, %d allocated", r.s.Used(), a)
	}
}

// Deletes that are held back leave an expired key absent and undeleted; the reply still waits for something.
func TestHeldDeletesLeaveExpiredKeysAbsent(t *testing.T) {
	r := newRig(t)
	r.open()
	r.set(0, "k", 10)
	r.settle()
	r.clock.advance(11)
	r.s.HoldDeletes(true)
	_, _, before := r.v.Watermarks()
	if r.has(0, "k") {
		t.Error("an expired key is there")
	}
	if seen := r.tx.Seen(); seen <= before {
		t.Errorf("the reply depends on %d, which was fresh before (%d)", seen, before)
	}
	if n, _ := size(r); n != 1 || r.s.Stats().Expired != 0 {
		t.Error("it was deleted")
	}
	r.s.HoldDeletes(false)
	if r.has(0, "k") {
		t.Error("an expired key is there")
	}
	if n, _ := size(r); n != 0 || r.s.Stats().Expired != 1 {
		t.Error("it was not deleted")
	}
}
