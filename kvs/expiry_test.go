package kvs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// size counts the keys of database 0 without looking at any of them.
func size(r *rig) (keys, expires int) {
	r.tb.Helper()
	_ = r.doAll(0, func(t *keyspace.Tx) error { keys, expires = t.Info(0); return nil })
	return keys, expires
}

// Expired keys go though nobody reads them, within the budget of each cycle, not a millisecond early, and stay away over a
// restart.
func TestExpiredKeysGoUnread(t *testing.T) {
	r := newRig(t)
	r.space.CacheBytes = -1
	r.open()
	now := r.clock.Wall()
	const keys = 30_000
	for i := 0; i < keys; i += 100 {
		var names, pairs [][]byte
		for j := range 100 {
			names = append(names, fmt.Appendf(nil, "k%d", i+j))
			pairs = append(pairs, names[j], []byte("v"))
		}
		err := r.do(0, names, func(t *keyspace.Tx) error {
			return kvs.MSet(t, pairs)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range keys {
		if i%3 == 2 {
			continue // stays
		}
		at := now + 1000 + int64(i%3)*1000
		err := r.do(0, bs(fmt.Sprintf("k%d", i)), func(t *keyspace.Tx) error {
			_, err := t.Expire(fmt.Appendf(nil, "k%d", i), at, 0)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, wantKeys, wantExpires int) {
		t.Helper()
		if k, e := size(r); k != wantKeys || e != wantExpires {
			t.Errorf("%s: %d keys, %d with expiry; want %d and %d", when, k, e, wantKeys, wantExpires)
		}
	}
	cycles := func(budget int) (total, cycles int) {
		for range 100_000 {
			n, more := r.s.ExpireCycle(budget)
			if n > budget {
				t.Fatalf("a cycle of budget %d deleted %d", budget, n)
			}
			total += n
			cycles++
			if !more {
				return total, cycles
			}
			r.settle()
		}
		t.Fatal("cycles without end")
		return 0, 0
	}
	r.clock.advance(now + 1000 - r.clock.Wall())
	if n, _ := cycles(500); n != 0 {
		t.Errorf("%d keys expired in their own millisecond", n)
	}
	want("before", keys, keys/3*2)
	r.clock.advance(1)
	n, c := cycles(500)
	if n != keys/3 || c < keys/3/500 {
		t.Errorf("%d deleted in %d cycles", n, c)
	}
	want("after the first third", keys/3*2, keys/3)
	r.reopen()
	want("after a restart", keys/3*2, keys/3)
	r.clock.advance(10_000)
	r.reopen()
	want("recovery expires nothing", keys/3*2, keys/3)
	cycles(1000)
	want("in the end", keys/3, 0)
	r.reopen()
	want("after the last restart", keys/3, 0)
	r.close()
}

// A key that expired and was seen absent stays absent after a restart at an earlier time of the host's.
func TestAnExpiredKeyDoesNotComeBack(t *testing.T) {
	r := newRig(t).open()
	set(r, "k", "v", r.clock.Wall()+100)
	r.clock.advance(101)
	seenOf(r, 0, "k", get)
	r.settle()
	r.close()
	r.clock.advance(-1_000_000)
	r.open()
	if k, _ := size(r); k != 0 {
		t.Error("it came back")
	}
	r.close()
}

// A record that verified but is another key's is refused, and the error does not name the key.
func TestAnotherKeysRecordIsRefused(t *testing.T) {
	r := newRig(t)
	r.space.CacheBytes = -1
	r.open()
	set(r, "alpha", "1", 0)
	set(r, "gamma", "2", 0)
	fetch := func(key string) (volume.Fetch, []byte) {
		r.s.Begin(&r.tx, 0, bs(key))
		_, _, err := kvs.Get(&r.tx, []byte(key))
		r.tx.End()
		if !errors.Is(err, keyspace.ErrMiss) {
			t.Fatal(err)
		}
		m := r.tx.Misses()[0]
		p, err := r.v.Read(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return m, p
	}
	_, wrong := fetch("alpha")
	m, _ := fetch("gamma")
	r.tx.Supply(m.At, wrong)
	r.s.Begin(&r.tx, 0, bs("gamma"))
	_, ok, err := kvs.Get(&r.tx, []byte("gamma"))
	r.tx.End()
	if ok || !errors.Is(err, volume.ErrCorrupt) {
		t.Fatalf("%v, %v", ok, err)
	}
	if msg := err.Error(); strings.Contains(msg, "alpha") || strings.Contains(msg, "gamma") {
		t.Errorf("the error names the key: %s", msg)
	}
	r.close()
}
