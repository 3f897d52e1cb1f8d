package kvs_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// Several goroutines use one store: values are never torn or another key's, and transfers between counters lose nothing.
func TestConcurrentUse(t *testing.T) {
	r := newRig(t)
	r.space.CacheBytes = 512 << 10 // 2 KiB a stripe: hits, misses and evictions
	r.open()
	ctx := t.Context()
	s := kvs.NewStore(r.v, r.s, 0)
	const workers, rounds, accounts = 4, 400, 8
	account := func(i int) []byte { return fmt.Appendf(nil, "account:%d", i) }
	for i := range accounts {
		if err := s.Set(ctx, account(i), []byte("1000"), volume.LevelDurable); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for i := range rounds {
				if err := work(ctx, s, r, rng, w, i, account(rng.IntN(accounts)), account(rng.IntN(accounts))); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	check := func() {
		sum := int64(0)
		for i := range accounts {
			k := account(i)
			err := kvs.NewStore(r.v, r.s, 0).Do(ctx, [][]byte{k}, volume.LevelFresh, func(t *keyspace.Tx) error {
				n, err := kvs.IncrBy(t, k, 0)
				sum += n
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if sum != accounts*1000 {
			t.Errorf("accounts hold %d, want %d", sum, accounts*1000)
		}
	}
	r.reopen()
	check()
	r.close()
}

// The commands that decide the speed make no garbage.
func TestHotCommandsDoNotAllocate(t *testing.T) {
	r := newRig(t).open()
	key, val := bs("key"), bytes.Repeat([]byte("v"), 100)
	run := func(f func(t *keyspace.Tx) error) func() {
		return func() {
			r.s.Begin(&r.tx, 0, key)
			err := f(&r.tx)
			r.tx.End()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, f := range map[string]func(){
		"set":    run(func(t *keyspace.Tx) error { _, err := kvs.Set(t, key[0], val, kvs.SetOptions{}); return err }),
		"get":    run(func(t *keyspace.Tx) error { _, _, err := kvs.Get(t, key[0]); return err }),
		"ttl":    run(func(t *keyspace.Tx) error { _, _, err := t.Expiry(key[0]); return err }),
		"strlen": run(func(t *keyspace.Tx) error { _, err := kvs.StrLen(t, key[0]); return err }),
	} {
		if n := testing.AllocsPerRun(500, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	r.close()
}

// A value that is read again and again stays cached while others pass through.
func TestHotValuesStayCached(t *testing.T) {
	r := newRig(t)
	r.space.CacheBytes = 8 << 20
	r.open()
	val := bytes.Repeat([]byte("v"), 1000)
	hot := []byte("hot")
	write := func(key []byte) {
		err := r.do(0, [][]byte{key}, func(t *keyspace.Tx) error {
			_, err := kvs.Set(t, key, val, kvs.SetOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(hot)
	for i := range 40_000 {
		write(fmt.Appendf(nil, "cold:%d", i))
		if i%100 != 0 {
			continue
		}
		seenOf(r, 0, "hot", get)
	}
	if s := r.s.Stats(); s.Misses > 0 || s.ChunksEvicted < 1000 {
		t.Errorf("%d misses, %d chunks evicted", s.Misses, s.ChunksEvicted)
	}
	r.close()
}

// work is one round of a goroutine: a write and reads of its own and of others' keys, a transfer, a scan.
func work(ctx context.Context, s *kvs.Store, r *rig, rng *rand.Rand, w, i int, from, to []byte) error {
	key := fmt.Appendf(nil, "key:%d", rng.IntN(50))
	val := bytes.Repeat([]byte{byte(w), byte(i)}, 1+rng.IntN(600))
	if err := s.Set(ctx, key, append(append([]byte{}, key...), val...), volume.LevelEverySec); err != nil {
		return err
	}
	other := fmt.Appendf(nil, "key:%d", rng.IntN(50))
	got, ok, err := s.Get(ctx, other, volume.LevelEverySec)
	if err != nil {
		return err
	}
	if ok && (!bytes.HasPrefix(got, other) || len(bytes.TrimLeft(got[len(other):], string(got[len(other):len(other)+2]))) != 0) {
		return fmt.Errorf("%s holds another key's value: %.40q", other, got)
	}
	err = s.Do(ctx, [][]byte{from, to}, volume.LevelEverySec, func(t *keyspace.Tx) error { return transfer(t, from, to) })
	if err != nil {
		return err
	}
	switch rng.IntN(20) {
	case 0:
		_, err = s.Delete(ctx, other, volume.LevelDurable)
	case 1:
		var t keyspace.Tx
		_, err = r.s.Scan(&t, 0, uint64(rng.Uint32()), keyspace.ScanOptions{}, func([]byte) {})
	case 2:
		r.clock.advance(3)
		r.s.ExpireCycle(10)
	case 3:
		var t keyspace.Tx
		r.s.BeginAll(&t, 1)
		t.DBSize()
		t.End()
	case 4:
		r.s.Stats()
	}
	return err
}

// transfer moves one from a counter to another: both values are loaded before anything changes, and one batch holds both.
func transfer(t *keyspace.Tx, from, to []byte) error {
	if _, _, err := t.Load(to, keyspace.TypeString); err != nil {
		return err
	}
	if _, _, err := t.Load(from, keyspace.TypeString); err != nil {
		return err
	}
	if err := t.Reserve(2*keyspace.PutSize(64, 32), 2, volume.ClassNormal); err != nil {
		return err
	}
	if _, err := kvs.IncrBy(t, from, -1); err != nil {
		return err
	}
	_, err := kvs.IncrBy(t, to, 1)
	return err
}
