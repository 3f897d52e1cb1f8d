package streams_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/streams"
	"cvmstore/volume"
)

// add appends an entry and returns its ID as text.
func (r *rig) add(key, id string, o streams.AddOptions, fields ...string) string {
	r.tb.Helper()
	switch {
	case id == "*":
		o.Auto = true
	default:
		x, err := streams.ParseID([]byte(id), 0)
		if err != nil {
			r.tb.Fatal(err)
		}
		o.ID = x
	}
	if len(fields) == 0 {
		fields = []string{"f", "value of " + id}
	}
	var got streams.ID
	if err := r.do(0, bs(key), func(t *keyspace.Tx) (err error) {
		got, _, err = streams.Add(t, []byte(key), o, bs(fields...))
		return err
	}); err != nil {
		r.tb.Fatal(err)
	}
	return got.String()
}

func text(p []byte) string {
	var b strings.Builder
	if !streams.Fields(p, func(field, value []byte) { fmt.Fprintf(&b, " %s=%s", field, value) }) {
		return "malformed"
	}
	return b.String()
}

// all returns a stream's entries as text, in order.
func (r *rig) all(key string) []string {
	r.tb.Helper()
	list, err := r.tryAll(key)
	if err != nil {
		r.tb.Fatal(err)
	}
	return list
}

func (r *rig) tryAll(key string) (out []string, err error) {
	err = r.do(0, bs(key), func(t *keyspace.Tx) error {
		list, err := streams.Range(t, []byte(key), streams.RangeOptions{To: streams.IDMax})
		out = nil
		for _, e := range list {
			out = append(out, e.ID.String()+text(e.Fields))
		}
		return err
	})
	return out, err
}

func (r *rig) del(key string, ids ...string) (n int) {
	r.tb.Helper()
	var list []streams.ID
	for _, s := range ids {
		id, err := streams.ParseID([]byte(s), 0)
		if err != nil {
			r.tb.Fatal(err)
		}
		list = append(list, id)
	}
	if err := r.do(0, bs(key), func(t *keyspace.Tx) (err error) {
		n, err = streams.Delete(t, []byte(key), list)
		return err
	}); err != nil {
		r.tb.Fatal(err)
	}
	return n
}

func (r *rig) trim(key string, o streams.Trim) (n int) {
	r.tb.Helper()
	if err := r.do(0, bs(key), func(t *keyspace.Tx) (err error) {
		n, err = streams.XTrim(t, []byte(key), o)
		return err
	}); err != nil {
		r.tb.Fatal(err)
	}
	return n
}

func (r *rig) stat(key string) (i streams.Info) {
	r.tb.Helper()
	if err := r.do(0, bs(key), func(t *keyspace.Tx) (err error) {
		i, _, err = streams.Stat(t, []byte(key))
		return err
	}); err != nil {
		r.tb.Fatal(err)
	}
	return i
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %d entries\n%v\nnot %d\n%v", what, len(got), got, len(want), want)
	}
}

func TestEntriesSurviveARestartInOrder(t *testing.T) {
	r := newRig(t).open()
	var want []string
	for i := range 1000 {
		id := fmt.Sprintf("%d-%d", i/7+1, i%7)
		if i == 0 {
			id = "0-1"
		}
		r.add("s", id, streams.AddOptions{}, "n", fmt.Sprint(i))
		want = append(want, fmt.Sprintf("%s n=%d", id, i))
	}
	same(t, "before", r.all("s"), want)
	before := r.stat("s")
	r.reopen()
	same(t, "after", r.all("s"), want)
	if got := r.stat("s"); got != before {
		t.Fatalf("%+v, not %+v", got, before)
	}
}

func TestATrimmedPrefixDoesNotComeBack(t *testing.T) {
	r := newRig(t)
	r.volume = volume.Options{SegmentBlocks: 16}
	r.open()
	for i := range 2000 {
		r.add("s", fmt.Sprint(i+1), streams.AddOptions{}, "n", fmt.Sprint(i))
	}
	if n := r.trim("s", streams.Trim{By: streams.TrimMaxLen, MaxLen: 250}); n != 1750 {
		t.Fatalf("%d trimmed", n)
	}
	want := r.all("s")
	if len(want) != 250 || want[0] != "1751-0 n=1750" {
		t.Fatalf("%d left, from %s", len(want), want[0])
	}
	for range 3 {
		r.reopen()
		same(t, "after a restart", r.all("s"), want)
	}
	r.trim("s", streams.Trim{By: streams.TrimMinID, MinID: streams.ID{MS: 10_000}})
	r.reopen()
	same(t, "all trimmed", r.all("s"), nil)
	if i := r.stat("s"); i.Last.MS != 2000 || i.Added != 2000 || i.Length != 0 {
		t.Fatalf("%+v", i)
	}
	r.add("s", "3000", streams.AddOptions{}, "a", "b")
	r.reopen()
	same(t, "one more", r.all("s"), []string{"3000-0 a=b"})
}

// twin is a stream as one would write it down.
type twin struct {
	ids  []streams.ID
	vals map[streams.ID]string
}

func (w *twin) list() (out []string) {
	for _, id := range w.ids {
		out = append(out, id.String()+" v="+w.vals[id])
	}
	return out
}

// TestAsATwin compares a stream with a list, through appends, deletes, trims and restarts, in segments so small that compaction has
// a lot to do.
func TestAsATwin(t *testing.T) {
	r := newRig(t)
	r.volume = volume.Options{SegmentBlocks: 16}
	r.open()
	rnd := rand.New(rand.NewPCG(1, 2))
	tw := map[string]*twin{}
	rounds := 6000
	if testing.Short() {
		rounds = 1500
	}
	next := streams.ID{MS: 1}
	for i := range rounds {
		key := fmt.Sprint("s", rnd.IntN(3))
		w := tw[key]
		if w == nil {
			w = &twin{vals: map[streams.ID]string{}}
			tw[key] = w
		}
		switch n := rnd.IntN(100); {
		case n < 70:
			next.MS, next.Seq = next.MS+uint64(rnd.IntN(3)), next.Seq+1+uint64(rnd.IntN(2))
			val := strings.Repeat("x", rnd.IntN(200))
			r.add(key, next.String(), streams.AddOptions{}, "v", val)
			w.ids = append(w.ids, next)
			w.vals[next] = val
		case n < 90 && len(w.ids) > 0:
			k := rnd.IntN(len(w.ids))
			if rnd.IntN(3) == 0 {
				k = 0
			} else if rnd.IntN(3) == 0 {
				k = len(w.ids) - 1
			}
			if got := r.del(key, w.ids[k].String()); got != 1 {
				t.Fatalf("round %d: %s was not there", i, w.ids[k])
			}
			w.ids = slices.Delete(w.ids, k, k+1)
		case n < 92:
			limit := uint64(rnd.IntN(300))
			want := max(len(w.ids)-int(limit), 0)
			if got := r.trim(key, streams.Trim{By: streams.TrimMaxLen, MaxLen: limit}); got != want {
				t.Fatalf("round %d: %d trimmed, not %d", i, got, want)
			}
			w.ids = w.ids[want:]
		case n == 92 && rnd.IntN(4) == 0:
			r.reopen()
		case n == 93 && rnd.IntN(8) == 0:
			if err := r.do(0, bs(key), func(t *keyspace.Tx) error { _, err := t.Del(bs(key)); return err }); err != nil {
				t.Fatal(err)
			}
			delete(tw, key)
		case n == 94:
			same(t, fmt.Sprint("round ", i), r.all(key), w.list())
		}
	}
	r.reopen()
	for key, w := range tw {
		same(t, key, r.all(key), w.list())
	}
}

func TestRenameCopyMoveAndFlush(t *testing.T) {
	r := newRig(t).open()
	for i := range 300 {
		r.add("a", fmt.Sprint(i+1), streams.AddOptions{})
	}
	r.del("a", "5", "6", "100")
	want := r.all("a")
	do := func(db int, f func(t *keyspace.Tx) error, keys ...string) {
		t.Helper()
		if err := r.do(db, bs(keys...), f); err != nil {
			t.Fatal(err)
		}
	}
	do(0, func(t *keyspace.Tx) error { _, _, err := t.Rename([]byte("a"), []byte("b"), false); return err }, "a", "b")
	do(0, func(t *keyspace.Tx) error { _, err := t.Copy([]byte("b"), []byte("c"), 0, false); return err }, "b", "c")
	r.reopen()
	same(t, "renamed", r.all("b"), want)
	same(t, "copied", r.all("c"), want)
	if r.stat("b") != r.stat("c") {
		t.Fatalf("%+v and %+v", r.stat("b"), r.stat("c"))
	}
	r.add("c", "1000", streams.AddOptions{})
	same(t, "the first one stays", r.all("b"), want)
	do(0, func(t *keyspace.Tx) error { _, err := t.Move([]byte("b"), 1); return err }, "b")
	r.reopen()
	same(t, "gone", r.all("b"), nil)
	if err := r.doAll(0, func(t *keyspace.Tx) error { return t.FlushAll() }); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	same(t, "flushed", r.all("c"), nil)
	r.add("c", "1", streams.AddOptions{}, "x", "y")
	r.reopen()
	same(t, "anew", r.all("c"), []string{"1-0 x=y"})
}
