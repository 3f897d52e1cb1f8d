package kvs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// twin is the obvious version: a map. It forgets expired keys when it looks.
type twin map[string]twinValue

type twinValue struct {
	val    string
	expiry int64
}

func (m twin) get(key string, now int64) (twinValue, bool) {
	v, ok := m[key]
	if ok && v.expiry != 0 && now > v.expiry {
		delete(m, key)
		return twinValue{}, false
	}
	return v, ok
}

// game drives the store and its twin with the same commands.
type game struct {
	*rig
	rng   *rand.Rand
	twins []twin
}

func (g *game) key() string { return fmt.Sprintf("key:%d", g.rng.IntN(60)) }

func (g *game) val() string {
	switch g.rng.IntN(4) {
	case 0:
		return strconv.Itoa(g.rng.IntN(1000))
	case 1:
		return ""
	default:
		b := make([]byte, g.rng.IntN(3000))
		for i := range b {
			b[i] = byte(g.rng.Uint32())
		}
		return string(b)
	}
}

// at is an expiry: mostly ahead, sometimes past, sometimes none.
func (g *game) at() int64 {
	switch g.rng.IntN(5) {
	case 0:
		return 0
	case 1:
		return g.clock.Wall() - int64(g.rng.IntN(3))
	}
	return g.clock.Wall() + int64(g.rng.IntN(500))
}

func (g *game) check(what string, got, want any) {
	g.tb.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		g.tb.Fatalf("%s: got %.100v, want %.100v", what, got, want)
	}
}

// step plays one random command.
func (g *game) step() {
	g.tb.Helper()
	db := g.rng.IntN(len(g.twins))
	m, key := g.twins[db], g.key()
	now := g.clock.Wall()
	old, had := m.get(key, now)
	k := []byte(key)
	switch g.rng.IntN(16) {
	case 0, 1, 2:
		g.set(db, key)
	case 3, 4:
		val, ok := g.get(db, key)
		g.check("get", []any{val, ok}, []any{old.val, had})
	case 5:
		keys := bs(key, g.key(), key)
		n, err := 0, error(nil)
		err = g.do(db, keys, func(t *keyspace.Tx) (err error) { n, err = t.Del(keys); return err })
		want := 0
		for _, k := range keys {
			if _, ok := m.get(string(k), now); ok {
				delete(m, string(k))
				want++
			}
		}
		g.check("del", []any{n, err}, []any{want, nil})
	case 6, 7:
		at, cond := g.at(), keyspace.ExpireCond(0)
		if g.rng.IntN(2) == 0 {
			cond = keyspace.ExpireCond(1 << g.rng.IntN(4))
		}
		var done bool
		err := g.do(db, [][]byte{k}, func(t *keyspace.Tx) (err error) { done, err = t.Expire(k, at, cond); return err })
		want := had && condHolds(cond, old.expiry, at)
		if want && at <= now {
			delete(m, key)
		} else if want {
			m[key] = twinValue{old.val, at}
		}
		g.check("expire", []any{done, err}, []any{want, nil})
	case 8:
		var done bool
		err := g.do(db, [][]byte{k}, func(t *keyspace.Tx) (err error) { done, err = t.Persist(k); return err })
		if had {
			m[key] = twinValue{val: old.val}
		}
		g.check("persist", []any{done, err}, []any{had && old.expiry != 0, nil})
	case 9:
		g.append(db, key)
	case 10:
		g.incr(db, key)
	case 11:
		g.mset(db)
	case 12:
		g.mget(db)
	case 13:
		var val []byte
		var ok bool
		err := g.do(db, [][]byte{k}, func(t *keyspace.Tx) (err error) {
			val, ok, err = kvs.GetDel(t, k)
			val = bytes.Clone(val)
			return err
		})
		delete(m, key)
		g.check("getdel", []any{string(val), ok, err}, []any{old.val, had, nil})
	case 14:
		g.clock.advance(int64(g.rng.IntN(30)))
		if g.rng.IntN(3) == 0 {
			g.s.ExpireCycle(g.rng.IntN(8))
		}
	case 15:
		if g.rng.IntN(40) == 0 {
			g.flush(db)
		} else {
			g.whole(db)
		}
	}
}

func (g *game) set(db int, key string) {
	g.tb.Helper()
	m, now, k, val := g.twins[db], g.clock.Wall(), []byte(key), g.val()
	o := kvs.SetOptions{Get: g.rng.IntN(3) == 0}
	switch g.rng.IntN(5) {
	case 0:
		o.NX = true
	case 1:
		o.XX = true
	case 2:
		o.KeepTTL = true
	case 3:
		o.Expiry = g.at()
	}
	old, had := m.get(key, now)
	var res kvs.SetResult
	err := g.do(db, [][]byte{k}, func(t *keyspace.Tx) (err error) {
		res, err = kvs.Set(t, k, []byte(val), o)
		res.Old = bytes.Clone(res.Old)
		return err
	})
	want := !(o.NX && had || o.XX && !had)
	if want {
		expiry := o.Expiry
		if o.KeepTTL {
			expiry = old.expiry
		}
		m[key] = twinValue{val, expiry}
	}
	g.check("set", []any{res.Set, err}, []any{want, nil})
	if o.Get {
		g.check("set get", []any{string(res.Old), res.OldOK}, []any{old.val, had})
	}
}

func (g *game) get(db int, key string) (val string, ok bool) {
	g.tb.Helper()
	k := []byte(key)
	err := g.do(db, [][]byte{k}, func(t *keyspace.Tx) error {
		v, found, err := kvs.Get(t, k)
		val, ok = string(v), found
		n, lerr := kvs.StrLen(t, k)
		if err == nil && (n != len(v) || lerr != nil) {
			g.tb.Fatalf("strlen %d, %v of %d bytes", n, lerr, len(v))
		}
		return err
	})
	if err != nil {
		g.tb.Fatal(err)
	}
	return val, ok
}

func (g *game) append(db int, key string) {
	g.tb.Helper()
	m, now, k, val := g.twins[db], g.clock.Wall(), []byte(key), g.val()
	old, _ := m.get(key, now)
	var n int
	err := g.do(db, [][]byte{k}, func(t *keyspace.Tx) (err error) { n, err = kvs.Append(t, k, []byte(val)); return err })
	m[key] = twinValue{old.val + val, old.expiry}
	g.check("append", []any{n, err}, []any{len(old.val) + len(val), nil})
}

func (g *game) incr(db int, key string) {
	g.tb.Helper()
	m, now, k := g.twins[db], g.clock.Wall(), []byte(key)
	old, had := m.get(key, now)
	delta := int64(g.rng.IntN(100) - 50)
	var sum int64
	err := g.do(db, [][]byte{k}, func(t *keyspace.Tx) (err error) { sum, err = kvs.IncrBy(t, k, delta); return err })
	n, perr := int64(0), error(nil)
	if had {
		n, perr = strconv.ParseInt(old.val, 10, 64)
	}
	if perr != nil {
		if !errors.Is(err, kvs.ErrNotInteger) {
			g.tb.Fatalf("incr of %.20q: %v", old.val, err)
		}
		return
	}
	m[key] = twinValue{strconv.FormatInt(n+delta, 10), old.expiry}
	g.check("incr", []any{sum, err}, []any{n + delta, nil})
}

func (g *game) mset(db int) {
	g.tb.Helper()
	pairs := bs(g.key(), g.val(), g.key(), g.val(), g.key(), g.val())
	keys := [][]byte{pairs[0], pairs[2], pairs[4]}
	if err := g.do(db, keys, func(t *keyspace.Tx) error { return kvs.MSet(t, pairs) }); err != nil {
		g.tb.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		g.twins[db][string(pairs[i])] = twinValue{val: string(pairs[i+1])}
	}
}

func (g *game) mget(db int) {
	g.tb.Helper()
	keys := bs(g.key(), g.key(), g.key(), g.key())
	out := make([]kvs.Value, len(keys))
	err := g.do(db, keys, func(t *keyspace.Tx) error {
		if err := kvs.MGet(t, keys, out); err != nil {
			return err
		}
		for i, k := range keys {
			want, ok := g.twins[db].get(string(k), g.clock.Wall())
			val, err := t.LoadRange(out[i].Bytes, out[i].Blob, out[i].From, out[i].To)
			if out[i].Blob == nil {
				val = out[i].Bytes
			} else if err != nil {
				return err
			}
			g.check("mget", []any{string(val), out[i].OK}, []any{want.val, ok})
		}
		return nil
	})
	if err != nil {
		g.tb.Fatal(err)
	}
}

func (g *game) flush(db int) {
	g.tb.Helper()
	all := g.rng.IntN(2) == 0
	err := g.doAll(db, func(t *keyspace.Tx) error {
		if all {
			return t.FlushAll()
		}
		return t.FlushDB()
	})
	if err != nil {
		g.tb.Fatal(err)
	}
	for i := range g.twins {
		if all || i == db {
			clear(g.twins[i])
		}
	}
}

// whole compares all that the store says of a database with the twin.
func (g *game) whole(db int) {
	g.tb.Helper()
	m, now := g.twins[db], g.clock.Wall()
	for key := range m {
		m.get(key, now)
	}
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		var batch []string
		next, err := g.s.Scan(&g.tx, db, cursor, keyspace.ScanOptions{Count: 7}, func(key []byte) {
			batch = append(batch, string(key))
		})
		if err != nil {
			g.settle()
			continue
		}
		for _, k := range batch {
			if seen[k] {
				g.tb.Fatalf("scan returned %q twice", k)
			}
			seen[k] = true
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	g.check("keys", len(seen), len(m))
	for key, want := range m {
		if !seen[key] {
			g.tb.Fatalf("scan missed %q", key)
		}
		val, ok := g.get(db, key)
		g.check("value of "+key, []any{val, ok}, []any{want.val, true})
		err := g.do(db, bs(key), func(t *keyspace.Tx) error {
			at, ok, err := t.Expiry([]byte(key))
			g.check("expiry", []any{at, ok}, []any{want.expiry, true})
			return err
		})
		if err != nil {
			g.tb.Fatal(err)
		}
	}
	_ = g.doAll(db, func(t *keyspace.Tx) error {
		expires := 0
		for _, v := range m {
			if v.expiry != 0 {
				expires++
			}
		}
		keys, exp := t.Info(db)
		g.check("info", []any{keys, exp}, []any{len(m), expires})
		return nil
	})
}

func condHolds(c keyspace.ExpireCond, old, at int64) bool {
	switch c {
	case keyspace.ExpireNX:
		return old == 0
	case keyspace.ExpireXX:
		return old != 0
	case keyspace.ExpireGT:
		return old != 0 && at > old
	case keyspace.ExpireLT:
		return old == 0 || at < old
	}
	return true
}

// The store answers as its twin does, with and without a cache, over restarts.
func TestTheStoreAnswersAsAMapDoes(t *testing.T) {
	for _, cache := range []int64{-1, 256 << 10, 2 << 20} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("cache %d seed %d", cache, seed), func(t *testing.T) {
				r := newRig(t)
				r.space.Databases, r.space.CacheBytes = 2, cache
				r.volume.SegmentBlocks = 64
				g := &game{rig: r.open(), rng: rand.New(rand.NewPCG(seed, 1)), twins: []twin{{}, {}}}
				for i := range 4000 {
					g.step()
					if i%700 == 699 {
						g.reopen()
						g.whole(0)
						g.whole(1)
					}
				}
				g.close()
			})
		}
	}
}
