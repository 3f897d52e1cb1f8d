package kvs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/kvs/rdb"
)

// move plays one command that gives values other names or databases, or edits them in place.
func (g *game) move() {
	g.tb.Helper()
	db, to := g.rng.IntN(len(g.twins)), g.rng.IntN(len(g.twins))
	a, b := g.key(), g.key()
	now := g.clock.Wall()
	m, dest := g.twins[db], g.twins[to]
	old, had := m.get(a, now)
	flag := g.rng.IntN(2) == 0
	keys := bs(a, b)
	var done, found bool
	switch g.rng.IntN(6) {
	case 0:
		_, taken := m.get(b, now)
		err := g.do(db, keys, func(t *keyspace.Tx) (err error) { done, found, err = t.Rename(keys[0], keys[1], flag); return err })
		want := had && !(flag && (taken || a == b))
		if want {
			delete(m, a)
			m[b] = old
		}
		g.check("rename", []any{done, found, err}, []any{want, had, nil})
	case 1:
		if db == to {
			return
		}
		_, taken := dest.get(a, now)
		err := g.do(db, keys[:1], func(t *keyspace.Tx) (err error) { done, err = t.Move(keys[0], to); return err })
		want := had && !taken
		if want {
			delete(m, a)
			dest[a] = old
		}
		g.check("move", []any{done, err}, []any{want, nil})
	case 2:
		if db == to && a == b {
			return
		}
		_, taken := dest.get(b, now)
		err := g.do(db, keys, func(t *keyspace.Tx) (err error) { done, err = t.Copy(keys[0], keys[1], to, flag); return err })
		want := had && (flag || !taken)
		if want {
			dest[b] = old
		}
		g.check("copy", []any{done, err}, []any{want, nil})
	case 3:
		err := g.doAll(0, func(t *keyspace.Tx) error { return t.Swap(db, to) })
		g.twins[db], g.twins[to] = g.twins[to], g.twins[db]
		g.check("swap", err, nil)
	case 4:
		n, part, at := 0, g.val(), g.rng.IntN(2000)
		err := g.do(db, keys[:1], func(t *keyspace.Tx) (err error) {
			n, err = kvs.SetRange(t, keys[0], int64(at), []byte(part))
			return err
		})
		val := old.val
		if part != "" {
			val += strings.Repeat("\x00", max(at+len(part)-len(val), 0))
			val = val[:at] + part + val[at+len(part):]
			m[a] = twinValue{val, old.expiry}
		}
		g.check("setrange", []any{n, err}, []any{len(val), nil})
	case 5:
		err := g.do(db, keys[:1], func(t *keyspace.Tx) error {
			return kvs.Restore(t, keys[0], rdb.AppendDump(nil, []byte(b)), kvs.RestoreOptions{Replace: true, Idle: -1, Expire: flag, Expiry: now + 5})
		})
		m[a] = twinValue{val: b}
		if flag {
			m[a] = twinValue{b, now + 5}
		}
		g.check("restore", err, nil)
	}
}

// Renames, moves, copies and swaps of databases end where a map's would, over restarts, whether values are cached or not.
func TestMovedValuesArriveOnce(t *testing.T) {
	for _, cache := range []int64{-1, 256 << 10} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("cache %d seed %d", cache, seed), func(t *testing.T) {
				r := newRig(t)
				r.space.Databases, r.space.CacheBytes = 3, cache
				r.volume.SegmentBlocks = 64
				g := &game{rig: r.open(), rng: rand.New(rand.NewPCG(seed, 2)), twins: []twin{{}, {}, {}}}
				for i := range 2500 {
					if g.rng.IntN(3) == 0 {
						g.step()
					} else {
						g.move()
					}
					if i%600 == 599 {
						g.reopen()
						for db := range g.twins {
							g.whole(db)
						}
					}
				}
				g.close()
			})
		}
	}
}

// A swap is a change of each watched key that is there before or after it, in both databases, and replies that come after it
// depend on it.
func TestSwapsAreSeen(t *testing.T) {
	r := newRig(t).open()
	set(r, "first", "v", 0)
	watch := func(db int, key string) (w *keyspace.Watch) {
		if err := r.do(db, bs(key), func(t *keyspace.Tx) (err error) { w, err = t.Watch([]byte(key)); return err }); err != nil {
			t.Fatal(err)
		}
		return w
	}
	changed := func(db int, w *keyspace.Watch) (ok bool) {
		if err := r.do(db, [][]byte{w.Key()}, func(t *keyspace.Tx) (err error) { ok, err = t.Changed(w); return err }); err != nil {
			t.Fatal(err)
		}
		r.s.Unwatch(w)
		return ok
	}
	here, there, elsewhere, absent := watch(0, "first"), watch(1, "first"), watch(2, "first"), watch(0, "nothing")
	r.settle()
	if err := r.doAll(0, func(t *keyspace.Tx) error { return t.Swap(0, 1) }); err != nil {
		t.Fatal(err)
	}
	swapped := r.tx.Seen()
	for db, want := range []bool{true, true, false} {
		w := []*keyspace.Watch{here, there, elsewhere}[db]
		if changed(db, w) != want {
			t.Errorf("database %d: changed %v", db, !want)
		}
	}
	if changed(0, absent) {
		t.Error("a key that neither database has counts as changed")
	}
	for db, want := range []bool{true, true, false} {
		if seen := seenOf(r, db, "first", get); (seen == swapped) != want {
			t.Errorf("database %d depends on %d, the swap is %d", db, seen, swapped)
		}
		if seen := seenOf(r, db, "nothing", get); (seen == swapped) != want {
			t.Errorf("absence in database %d depends on %d, the swap is %d", db, seen, swapped)
		}
	}
	r.reopen()
	if seen := seenOf(r, 1, "first", func(tx *keyspace.Tx, k []byte) {
		if n, _ := kvs.StrLen(tx, k); n != 1 {
			t.Error("after the restart the key is not where the swap put it")
		}
	}); seen == 0 {
		t.Error("the reply depends on nothing")
	}
	r.close()
}

// IDLETIME counts seconds of store time since the last use; asking does not count as use, and a restart begins anew.
func TestIdleTime(t *testing.T) {
	r := newRig(t).open()
	idle := func() (s int64) {
		err := r.do(0, bs("k"), func(t *keyspace.Tx) error {
			var found bool
			var err error
			if s, found, err = t.IdleTime([]byte("k")); !found {
				return fmt.Errorf("no key: %w", err)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := func(what string, seconds int64) {
		t.Helper()
		if got := idle(); got != seconds {
			t.Errorf("%s: idle for %d s, want %d", what, got, seconds)
		}
	}
	pass := func(ms int64) {
		r.clock.advance(ms)
		r.s.ExpireCycle(1)
	}
	set(r, "k", "v", 0)
	want("just set", 0)
	pass(7_000)
	want("after 7 s", 7)
	seenOf(r, 0, "k", func(t *keyspace.Tx, k []byte) {
		_, _ = t.Exists([][]byte{k})
		_, _, _ = t.Expiry(k)
		_, _ = t.TypeName(k)
		_, _ = kvs.Encoding(t, k)
		t.NoTouch()
		_, _, _ = kvs.Get(t, k)
	})
	want("after questions", 7)
	seenOf(r, 0, "k", get)
	want("after a read", 0)
	pass(3_000)
	seenOf(r, 0, "k", func(t *keyspace.Tx, k []byte) { _, _ = t.Touch([][]byte{k}) })
	want("after a touch", 0)
	err := r.do(0, bs("k"), func(t *keyspace.Tx) error {
		return kvs.Restore(t, []byte("k"), rdb.AppendDump(nil, []byte("v")), kvs.RestoreOptions{Replace: true, Idle: 1000})
	})
	if err != nil {
		t.Fatal(err)
	}
	want("restored as idle", 1000)
	pass(500_000)
	want("later", 1500)
	r.reopen()
	want("after a restart", 0)
	pass(2_000)
	want("2 s after a restart", 2)
	r.close()
}
