package kvs_test

import (
	"errors"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// seenOf runs a command that changes nothing and returns what its reply depends on.
func seenOf(r *rig, db int, key string, f func(t *keyspace.Tx, key []byte)) volume.Counter {
	r.tb.Helper()
	k := []byte(key)
	if err := r.do(db, [][]byte{k}, func(t *keyspace.Tx) error { f(t, k); return nil }); err != nil {
		r.tb.Fatal(err)
	}
	return r.tx.Seen()
}

func get(t *keyspace.Tx, k []byte) { _, _, _ = kvs.Get(t, k) }

// DESIGN.md 4.3: a reply depends on all that it saw, absence included.
func TestRepliesDependOnWhatTheySaw(t *testing.T) {
	r := newRig(t).open()
	del := func(key string) volume.Counter {
		keys := bs(key)
		if err := r.do(0, keys, func(t *keyspace.Tx) error { _, err := t.Del(keys); return err }); err != nil {
			t.Fatal(err)
		}
		return r.tx.Seen()
	}
	want := func(what string, got, want volume.Counter) {
		t.Helper()
		if got != want {
			t.Errorf("%s depends on %d, want %d", what, got, want)
		}
	}
	set(r, "k", "v", 0)
	put := r.tx.Seen()
	set(r, "other", "v", 0)
	want("a value", seenOf(r, 0, "k", get), put)
	want("a key never seen", seenOf(r, 0, "never", get), 0)

	gone := del("k")
	if gone <= put {
		t.Fatalf("delete %d after put %d", gone, put)
	}
	want("absence", seenOf(r, 0, "k", get), gone)
	want("a delete of nothing", del("k"), gone)
	want("exists", seenOf(r, 0, "k", func(t *keyspace.Tx, k []byte) { _, _ = t.Exists([][]byte{k}) }), gone)
	want("a condition that failed", seenOf(r, 0, "k", func(t *keyspace.Tx, k []byte) {
		_, _ = kvs.Set(t, k, nil, kvs.SetOptions{XX: true})
	}), gone)
	if n := r.s.Stats().Tombstones; n != 1 {
		t.Errorf("%d tombstones", n)
	}
	r.settle()
	want("absence, once it is fresh", seenOf(r, 0, "k", get), gone) // this one purges it
	want("absence that is forgotten", seenOf(r, 0, "k", get), 0)
	set(r, "k", "v", 0)
	first := del("k")
	set(r, "k", "v", 0)
	r.settle()
	second := del("k") // the first delete's turn to be forgotten has come, the second's has not
	seenOf(r, 0, "k", get)
	if got := seenOf(r, 0, "k", get); got != second || first >= second {
		t.Errorf("absence depends on %d, want the second delete, %d", got, second)
	}
	r.settle()
	seenOf(r, 0, "k", get)
	if n := r.s.Stats().Tombstones; n != 0 {
		t.Errorf("%d tombstones after all is fresh", n)
	}

	if err := r.doAll(0, func(t *keyspace.Tx) error { return t.FlushDB() }); err != nil {
		t.Fatal(err)
	}
	flushed := r.tx.Seen()
	want("absence after a flush", seenOf(r, 0, "other", get), flushed)
	want("absence of what never was, after a flush", seenOf(r, 0, "never", get), flushed)
	want("absence in another database", seenOf(r, 1, "other", get), 0)

	set(r, "x", "v", r.clock.Wall()+5)
	last := r.tx.Seen()
	_ = r.doAll(3, func(t *keyspace.Tx) error { t.DBSize(); return nil })
	want("an aggregate", r.tx.Seen(), last)
	_, _ = r.s.Scan(&r.tx, 3, 0, keyspace.ScanOptions{}, func([]byte) {})
	want("a scan of an empty database", r.tx.Seen(), last)
	_ = r.doAll(3, func(t *keyspace.Tx) error { return t.FlushDB() })
	want("a flush of an empty database", r.tx.Seen(), last)
	r.clock.advance(6)
	expired := seenOf(r, 0, "x", get)
	if applied, _, _ := r.v.Watermarks(); expired <= last || expired != applied {
		t.Errorf("expiry on read depends on %d, want the delete that it journaled, %d", expired, applied)
	}
	r.close()
}

// A MSET is one batch, and each of its keys is seen whole.
func TestABatchIsSeenAsOne(t *testing.T) {
	r := newRig(t).open()
	pairs := bs("a", "1", "b", "2", "c", "3")
	if err := r.do(0, bs("a", "b", "c"), func(t *keyspace.Tx) error { return kvs.MSet(t, pairs) }); err != nil {
		t.Fatal(err)
	}
	if last := r.tx.Seen(); seenOf(r, 0, "c", get) != last || seenOf(r, 0, "a", get) != last-2 {
		t.Error("MSET's counters are not its keys'")
	}
	ok, err := false, error(nil)
	err = r.do(0, bs("z", "b"), func(t *keyspace.Tx) error { ok, err = kvs.MSetNX(t, bs("z", "1", "b", "9")); return err })
	if ok || err != nil {
		t.Fatal("MSETNX over an existing key", err)
	}
	r.close()
}

func TestWatch(t *testing.T) {
	r := newRig(t).open()
	watch := func(key string) *keyspace.Watch {
		var w *keyspace.Watch
		if err := r.do(0, bs(key), func(t *keyspace.Tx) (err error) { w, err = t.Watch([]byte(key)); return err }); err != nil {
			t.Fatal(err)
		}
		return w
	}
	changed := func(w *keyspace.Watch) (ok bool) {
		if err := r.do(0, [][]byte{w.Key()}, func(t *keyspace.Tx) (err error) { ok, err = t.Changed(w); return err }); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	set(r, "k", "v", 0)
	for _, c := range []struct {
		what string
		key  string
		act  func()
		want bool
	}{
		{"nothing", "k", func() {}, false},
		{"another key's change", "k", func() { set(r, "j", "v", 0) }, false},
		{"the same value again", "k", func() { set(r, "k", "v", 0) }, true},
		{"an expiry", "k", func() {
			_ = r.do(0, bs("k"), func(t *keyspace.Tx) error { _, err := t.Expire([]byte("k"), r.clock.Wall()+50, 0); return err })
		}, true},
		{"time passing", "k", func() { r.clock.advance(51) }, true},
		{"time passing over an absent key", "k", func() { r.clock.advance(51) }, false},
		{"creation and deletion, fresh and forgotten", "k", func() {
			set(r, "k", "v", 0)
			_ = r.do(0, bs("k"), func(t *keyspace.Tx) error { _, err := t.Del(bs("k")); return err })
			r.settle()
			set(r, "j", "v", 0)
			seenOf(r, 0, "k", get)
		}, true},
		{"a flush of an absent key", "k", func() { _ = r.doAll(0, func(t *keyspace.Tx) error { return t.FlushAll() }) }, false},
		{"a flush", "f", func() {
			_ = r.doAll(0, func(t *keyspace.Tx) error { return t.FlushDB() })
		}, true},
	} {
		if c.key == "f" {
			set(r, "f", "v", 0)
		}
		w, twice := watch(c.key), watch(c.key)
		c.act()
		if got := changed(w); got != c.want {
			t.Errorf("after %s: changed %v", c.what, got)
		}
		r.s.Unwatch(w)
		if got := changed(twice); got != c.want {
			t.Errorf("after %s: the second watch says %v", c.what, got)
		}
		r.s.Unwatch(twice)
	}
	r.close()
}

// Errors of commands change nothing and have Redis' texts.
func TestErrors(t *testing.T) {
	r := newRig(t)
	r.space.BlobBytes = -1
	r.open()
	set(r, "max", "9223372036854775807", 0)
	set(r, "text", " 1", 0)
	incr := func(key string, by int64) error {
		return r.do(0, bs(key), func(t *keyspace.Tx) error { _, err := kvs.IncrBy(t, []byte(key), by); return err })
	}
	if err := incr("max", 1); !errors.Is(err, kvs.ErrOverflow) || err.Error() != "ERR increment or decrement would overflow" {
		t.Error(err)
	}
	if err := incr("text", 1); !errors.Is(err, kvs.ErrNotInteger) || err.Error() != "ERR value is not an integer or out of range" {
		t.Error(err)
	}
	limit := r.v.MaxRecord() - keyspace.PutSize(3, 0)
	for _, n := range []int{limit, limit + 1} {
		err := r.do(0, bs("big"), func(t *keyspace.Tx) error {
			_, err := kvs.Set(t, []byte("big"), make([]byte, n), kvs.SetOptions{})
			return err
		})
		var size *kvs.SizeError
		if tooLarge := errors.As(err, &size); tooLarge != (n > limit) || tooLarge && (size.Size != n || size.Max != limit) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	key := make([]byte, keyspace.KeyMax+1)
	for _, k := range [][]byte{key[1:], key} {
		err := r.do(0, [][]byte{k}, func(t *keyspace.Tx) error {
			_, err := kvs.Set(t, k, nil, kvs.SetOptions{})
			return err
		})
		if errors.Is(err, keyspace.ErrKeyTooLong) != (len(k) > keyspace.KeyMax) {
			t.Errorf("key of %d bytes: %v", len(k), err)
		}
	}
	r.reopen()
	if n := 0; r.doAll(0, func(t *keyspace.Tx) error { n = t.DBSize(); return nil }) != nil || n != 4 {
		t.Errorf("%d keys after the restart", n)
	}
	r.close()
}

func TestGetRange(t *testing.T) {
	r := newRig(t).open()
	set(r, "k", "Hello World", 0)
	for _, c := range []struct {
		start, end int64
		want       string
	}{
		{0, 4, "Hello"},
		{-5, -1, "World"},
		{0, -1, "Hello World"},
		{0, 1 << 62, "Hello World"},
		{5, 2, ""},
		{-1, -3, ""},
		{-1 << 62, -1 << 62, "H"},
		{20, 30, ""},
		{-100, 2, "Hel"},
	} {
		err := r.do(0, bs("k"), func(tx *keyspace.Tx) error {
			val, err := kvs.GetRange(tx, []byte("k"), c.start, c.end)
			if string(val) != c.want {
				t.Errorf("%d to %d: %q, want %q", c.start, c.end, val, c.want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.close()
}
