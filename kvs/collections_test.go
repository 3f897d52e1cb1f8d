package kvs_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
)

// box is the obvious version of a collection: at most one of its fields is in use.
type box struct {
	hash map[string]string
	set  map[string]bool
	zset map[string]float64
	list []string
}

func (b *box) empty() bool { return len(b.hash)+len(b.set)+len(b.zset)+len(b.list) == 0 }

// dump writes a collection down, in an order of its own where it has none.
func (b *box) dump() string {
	var out []string
	for k, v := range b.hash {
		out = append(out, fmt.Sprintf("%q=%q", k, v))
	}
	for k := range b.set {
		out = append(out, fmt.Sprintf("%q", k))
	}
	slices.Sort(out)
	for _, m := range b.ranked() {
		out = append(out, fmt.Sprintf("%q:%v", m, b.zset[m]))
	}
	for _, v := range b.list {
		out = append(out, fmt.Sprintf("%q", v))
	}
	return strings.Join(out, " ")
}

// ranked are the members of a sorted set in order.
func (b *box) ranked() (out []string) {
	for m := range b.zset {
		out = append(out, m)
	}
	slices.SortFunc(out, func(x, y string) int {
		if s, t := b.zset[x], b.zset[y]; s != t {
			return map[bool]int{true: -1, false: 1}[s < t]
		}
		return strings.Compare(x, y)
	})
	return out
}

// boxes plays commands on the store and on its twin.
type boxes struct {
	*rig
	rng  *rand.Rand
	twin map[string]*box
	kind map[string]keyspace.TypeID
}

func (g *boxes) do1(key string, f func(t *keyspace.Tx, k []byte) error) {
	g.tb.Helper()
	g.done(g.do(0, bs(key), func(t *keyspace.Tx) error { return f(t, []byte(key)) }))
}

func (g *boxes) done(err error) {
	g.tb.Helper()
	if err != nil {
		g.tb.Fatal(err)
	}
}

func (g *boxes) val() string {
	if g.rng.IntN(3) == 0 {
		return strconv.Itoa(g.rng.IntN(50))
	}
	return strings.Repeat(string(rune('a'+g.rng.IntN(26))), g.rng.IntN(300))
}

func (g *boxes) name() string { return fmt.Sprintf("member:%d", g.rng.IntN(80)) }

// read writes down what the store holds.
func (g *boxes) read(key string) string {
	g.tb.Helper()
	b := &box{hash: map[string]string{}, set: map[string]bool{}, zset: map[string]float64{}}
	g.do1(key, func(t *keyspace.Tx, k []byte) error {
		it, err := t.Find(k)
		if err != nil {
			return err
		}
		none := func(int) {}
		switch it.Type {
		case keyspace.TypeHash:
			return kvs.HGetAll(t, k, true, none, func(f, v []byte) { b.hash[string(f)] = string(v) })
		case keyspace.TypeSet:
			return kvs.SMembers(t, k, none, func(m []byte) { b.set[string(m)] = true })
		case keyspace.TypeZSet:
			return kvs.ZRangeOf(t, k, kvs.ZRange{Stop: -1}, none, func(m []byte, s float64) { b.zset[string(m)] = s })
		case keyspace.TypeList:
			vals, err := kvs.LRange(t, k, 0, -1)
			b.list = nil
			for _, v := range vals {
				b.list = append(b.list, string(v))
			}
			return err
		}
		return nil
	})
	return b.dump()
}

func (g *boxes) compare(what string) {
	g.tb.Helper()
	for key, b := range g.twin {
		if got, want := g.read(key), b.dump(); got != want {
			g.tb.Fatalf("%s: %s holds\n%.600s\nwant\n%.600s", what, key, got, want)
		}
	}
}

// step plays one random command.
func (g *boxes) step() {
	key := fmt.Sprintf("key:%d", g.rng.IntN(12))
	b := g.twin[key]
	if b == nil {
		b = &box{}
		g.twin[key] = b
	}
	if b.empty() {
		*b = box{hash: map[string]string{}, set: map[string]bool{}, zset: map[string]float64{}}
		g.kind[key] = []keyspace.TypeID{keyspace.TypeHash, keyspace.TypeSet, keyspace.TypeZSet, keyspace.TypeList}[g.rng.IntN(4)]
	}
	switch n := g.rng.IntN(100); {
	case n < 3:
		g.done(g.do(0, bs(key), func(t *keyspace.Tx) error { _, err := t.Del(bs(key)); return err }))
		*b = box{}
		return
	case n < 8:
		g.move(key, b)
		return
	}
	switch g.kind[key] {
	case keyspace.TypeHash:
		g.hash(key, b)
	case keyspace.TypeSet:
		g.set(key, b)
	case keyspace.TypeZSet:
		g.zset(key, b)
	case keyspace.TypeList:
		g.list(key, b)
	}
}

// move renames or copies a collection, or carries it through DUMP and RESTORE.
func (g *boxes) move(key string, b *box) {
	to := fmt.Sprintf("key:%d", g.rng.IntN(12))
	if to == key || b.empty() {
		return
	}
	keep := g.rng.IntN(2) == 0
	g.done(g.do(0, bs(key, to), func(t *keyspace.Tx) error {
		if !keep {
			_, _, err := t.Rename([]byte(key), []byte(to), false)
			return err
		}
		if g.kind[key]%2 == 0 {
			_, err := t.Copy([]byte(key), []byte(to), 0, true)
			return err
		}
		p, _, err := kvs.Dump(t, []byte(key))
		if err != nil {
			return err
		}
		return kvs.Restore(t, []byte(to), bytes.Clone(p), kvs.RestoreOptions{Replace: true, Idle: -1, Uses: -1})
	}))
	g.kind[to] = g.kind[key]
	if !keep {
		g.twin[to] = b
		delete(g.twin, key)
		return
	}
	c := &box{hash: map[string]string{}, set: map[string]bool{}, zset: map[string]float64{}, list: slices.Clone(b.list)}
	for k, v := range b.hash {
		c.hash[k] = v
	}
	for k, v := range b.set {
		c.set[k] = v
	}
	for k, v := range b.zset {
		c.zset[k] = v
	}
	g.twin[to] = c
}

func (g *boxes) hash(key string, b *box) {
	f, v := g.name(), g.val()
	switch g.rng.IntN(4) {
	case 0, 1:
		f2 := g.name()
		g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.HSet(t, k, bs(f, v, f2, "x", f, v)); return err })
		b.hash[f2] = "x"
		b.hash[f] = v
	case 2:
		n, want := 0, 0
		if _, ok := b.hash[f]; ok {
			want = 1
		}
		g.do1(key, func(t *keyspace.Tx, k []byte) (err error) { n, err = kvs.HDel(t, k, bs(f, f)); return err })
		delete(b.hash, f)
		if n != want {
			g.tb.Fatalf("hdel: %d, want %d", n, want)
		}
	case 3:
		var got []byte
		g.do1(key, func(t *keyspace.Tx, k []byte) (err error) { got, _, err = kvs.HGet(t, k, []byte(f)); return err })
		if string(got) != b.hash[f] {
			g.tb.Fatalf("hget: %.50q, want %.50q", got, b.hash[f])
		}
	}
}

func (g *boxes) set(key string, b *box) {
	m, m2 := g.name()+g.val(), g.name()
	switch g.rng.IntN(4) {
	case 0, 1:
		g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.SAdd(t, k, bs(m, m2)); return err })
		b.set[m], b.set[m2] = true, true
	case 2:
		g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.SRem(t, k, bs(m2)); return err })
		delete(b.set, m2)
	case 3:
		var out [][]byte
		g.do1(key, func(t *keyspace.Tx, k []byte) (err error) { out, err = kvs.SPop(t, k, 3); return err })
		if len(out) != min(3, len(b.set)) {
			g.tb.Fatalf("spop: %d of %d", len(out), len(b.set))
		}
		for _, m := range out {
			if !b.set[string(m)] {
				g.tb.Fatalf("spop: %q was no member", m)
			}
			delete(b.set, string(m))
		}
	}
}

func (g *boxes) zset(key string, b *box) {
	m := g.name() + strings.Repeat("m", 60)
	switch g.rng.IntN(6) {
	case 0, 1, 2:
		s := float64(g.rng.IntN(30)) - 10
		if g.rng.IntN(20) == 0 {
			s = math.Inf(1)
		}
		g.do1(key, func(t *keyspace.Tx, k []byte) error {
			_, err := kvs.ZAdd(t, k, []kvs.Scored{{Member: []byte(m), Score: s}}, kvs.ZAddOptions{})
			return err
		})
		b.zset[m] = s
	case 3:
		g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.ZRem(t, k, bs(m)); return err })
		delete(b.zset, m)
	case 4:
		want := slices.Index(b.ranked(), m)
		got := -1
		g.do1(key, func(t *keyspace.Tx, k []byte) error {
			r, _, ok, err := kvs.ZRank(t, k, []byte(m), false)
			if ok {
				got = r
			}
			return err
		})
		if got != want {
			g.tb.Fatalf("zrank: %d, want %d", got, want)
		}
	case 5:
		lo := float64(g.rng.IntN(30)) - 10
		r := kvs.ZRange{By: kvs.ByScore, Low: kvs.ScoreBound{Score: lo, Open: g.rng.IntN(2) == 0}, High: kvs.ScoreBound{Score: lo + 1}}
		g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.ZRemRange(t, k, r); return err })
		for m, s := range b.zset {
			if (s > lo || s == lo && !r.Low.Open) && s <= lo+1 {
				delete(b.zset, m)
			}
		}
	}
}

func (g *boxes) list(key string, b *box) {
	v := g.val()
	at := 0
	if len(b.list) > 0 {
		at = g.rng.IntN(len(b.list))
	}
	switch g.rng.IntN(9) {
	case 0, 1:
		g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.Push(t, k, bs(v, "y"), true, false); return err })
		b.list = append([]string{"y", v}, b.list...)
	case 2, 3:
		g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.Push(t, k, bs(v, "z"), false, false); return err })
		b.list = append(b.list, v, "z")
	case 4:
		left := g.rng.IntN(2) == 0
		var got [][]byte
		g.do1(key, func(t *keyspace.Tx, k []byte) (err error) { got, _, err = kvs.Pop(t, k, left, 1); return err })
		if len(b.list) == 0 {
			return
		}
		want := b.list[len(b.list)-1]
		if left {
			want, b.list = b.list[0], b.list[1:]
		} else {
			b.list = b.list[:len(b.list)-1]
		}
		if len(got) != 1 || string(got[0]) != want {
			g.tb.Fatalf("pop: %.40q, want %.40q", got, want)
		}
	case 5:
		if len(b.list) > 0 {
			g.do1(key, func(t *keyspace.Tx, k []byte) error { return kvs.LSet(t, k, int64(at), []byte(v)) })
			b.list[at] = v
		}
	case 6:
		if len(b.list) > 0 {
			pivot := b.list[at]
			i := slices.Index(b.list, pivot)
			after := g.rng.IntN(2) == 0
			g.do1(key, func(t *keyspace.Tx, k []byte) error {
				_, err := kvs.LInsert(t, k, after, []byte(pivot), []byte(v))
				return err
			})
			if after {
				i++
			}
			b.list = slices.Insert(b.list, i, v)
		}
	case 7:
		if len(b.list) > 0 {
			g.do1(key, func(t *keyspace.Tx, k []byte) error { _, err := kvs.LRem(t, k, 1, []byte(b.list[at])); return err })
			i := slices.Index(b.list, b.list[at])
			b.list = slices.Delete(b.list, i, i+1)
		}
	case 8:
		if len(b.list) > 120 {
			g.do1(key, func(t *keyspace.Tx, k []byte) error { return kvs.LTrim(t, k, 2, 80) })
			b.list = b.list[2:81]
		}
	}
}

// Collections, small and large, end where maps and slices would, over restarts, whether values are cached or not.
func TestCollectionsMatchTheirTwins(t *testing.T) {
	steps := 12_000
	if testing.Short() {
		steps = 3_000
	}
	for seed, cache := range []int64{8 << 20, -1} {
		g := &boxes{rig: newRig(t), rng: rand.New(rand.NewPCG(uint64(seed), 5)), twin: map[string]*box{}, kind: map[string]keyspace.TypeID{}}
		g.space.CacheBytes = cache
		g.space.Rand = g.rng.Uint64N
		g.open()
		for i := range steps {
			g.step()
			if i%1500 == 1499 {
				g.compare(fmt.Sprintf("step %d", i))
				g.reopen()
				g.compare(fmt.Sprintf("step %d, after a restart", i))
			}
		}
		g.done(g.doAll(0, func(t *keyspace.Tx) error { return t.FlushAll() }))
		g.twin = map[string]*box{}
		g.reopen()
		for range 300 {
			g.step()
		}
		g.compare("after a flush")
		g.close()
	}
}

// Deleting a collection of many elements is one record, and so is flushing it; nothing of it comes back.
func TestDroppingALargeCollectionIsOneRecord(t *testing.T) {
	r := newRig(t).open()
	fill := func() {
		for i := range 20 {
			if err := r.do(0, bs("big"), func(t *keyspace.Tx) error {
				var members [][]byte
				for j := range 1000 {
					members = append(members, fmt.Appendf(nil, "member:%d:%d", i, j))
				}
				_, err := kvs.SAdd(t, []byte("big"), members)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, drop := range []func(t *keyspace.Tx) error{
		func(t *keyspace.Tx) error { _, err := t.Del(bs("big")); return err },
		func(t *keyspace.Tx) error {
			_, err := kvs.Set(t, []byte("big"), []byte("small"), kvs.SetOptions{})
			return err
		},
		func(t *keyspace.Tx) error { return t.FlushAll() },
	} {
		fill()
		before, _, _ := r.v.Watermarks()
		if err := r.doAll(0, drop); err != nil {
			t.Fatal(err)
		}
		if after, _, _ := r.v.Watermarks(); after != before+1 {
			t.Fatalf("dropping 20000 members took %d records", after-before)
		}
		r.reopen()
		if err := r.doAll(0, func(t *keyspace.Tx) error { return t.FlushAll() }); err != nil {
			t.Fatal(err)
		}
		fill()
		if err := r.do(0, bs("big"), func(t *keyspace.Tx) error {
			n, err := kvs.SCard(t, []byte("big"))
			if n != 20_000 && err == nil {
				err = fmt.Errorf("%d members", n)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := r.doAll(0, func(t *keyspace.Tx) error { return t.FlushAll() }); err != nil {
			t.Fatal(err)
		}
	}
	r.settle()
	r.close()
}

// A change of a large collection is one record.
func TestAChangeOfALargeCollectionIsOneRecord(t *testing.T) {
	r := newRig(t).open()
	add := func(n int, from string) {
		if err := r.do(0, bs("z"), func(t *keyspace.Tx) error {
			var pairs []kvs.Scored
			for i := range n {
				pairs = append(pairs, kvs.Scored{Member: fmt.Appendf(nil, "%s:%d", from, i), Score: float64(i % 97)})
			}
			_, err := kvs.ZAdd(t, []byte("z"), pairs, kvs.ZAddOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	add(5000, "first")
	r.settle()
	least := uint64(math.MaxUint64) // of several: a segment that is opened ahead writes, too
	for i := range 5 {
		before, _, _ := r.v.Watermarks()
		written := r.v.Status().BytesWritten
		add(1, fmt.Sprint("more ", i))
		if after, _, _ := r.v.Watermarks(); after != before+1 {
			t.Errorf("a ZADD to 5000 members made %d records", after-before)
		}
		r.settle()
		least = min(least, r.v.Status().BytesWritten-written)
	}
	if least > 4096 {
		t.Errorf("a ZADD to 5000 members wrote %d bytes", least)
	}
	r.close()
}

// What large collections take in memory counts as used (maxmemory), and no longer once they are gone, over a restart too.
func TestLargeCollectionsCountAsUsed(t *testing.T) {
	r := newRig(t).open()
	const members = 10_000
	var list [][]byte
	for i := range members {
		list = append(list, fmt.Appendf(nil, "member:%d", i))
	}
	before := r.s.Used()
	if err := r.do(0, bs("s"), func(t *keyspace.Tx) error { _, err := kvs.SAdd(t, []byte("s"), list); return err }); err != nil {
		t.Fatal(err)
	}
	full := r.s.Used()
	if full-before < members*60 {
		t.Fatalf("%d members are weighed as %d bytes", members, full-before)
	}
	r.settle()
	r.reopen()
	if again := r.s.Used(); again != full {
		t.Errorf("%d bytes used, after a restart %d", full, again)
	}
	if err := r.do(0, bs("s"), func(t *keyspace.Tx) error { _, err := t.Del(bs("s")); return err }); err != nil {
		t.Fatal(err)
	}
	if left := r.s.Used() - before; left > 1000 {
		t.Errorf("%d bytes are used after the set is gone", left)
	}
	r.settle()
	r.close()
}
