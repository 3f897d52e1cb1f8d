package epoch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func newEmbedded(t testing.TB, path string) *Embedded {
	t.Helper()
	e, err := NewEmbedded(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func created(t testing.TB) (*Embedded, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counter")
	e := newEmbedded(t, path)
	if err := e.Create(context.Background(), crashStore); err != nil {
		t.Fatal(err)
	}
	return e, path
}

func commit(e *Embedded, req CommitRequest) error {
	var got error
	called := false
	e.Commit(req, func(_ Stamp, err error) { got, called = err, true })
	if !called {
		return errors.New("done was not called before Commit returned")
	}
	return got
}

func TestMissingFileIsNoRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counter")
	e := newEmbedded(t, path)
	ctx := context.Background()
	if _, err := e.Read(ctx, crashStore); !errors.Is(err, ErrNoRecord) {
		t.Errorf("Read: %v", err)
	}
	if _, err := e.Open(ctx, crashStore); !errors.Is(err, ErrNoRecord) {
		t.Errorf("Open: %v", err)
	}
	if err := commit(e, CommitRequest{Store: crashStore}); !errors.Is(err, ErrNoRecord) {
		t.Errorf("Commit: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("asking made the file: %v", err)
	}
}

func TestCreateOnce(t *testing.T) {
	e, path := created(t)
	ctx := context.Background()
	if err := e.Create(ctx, crashStore); !errors.Is(err, ErrExists) {
		t.Errorf("second Create: %v", err)
	}
	r, err := e.Read(ctx, crashStore)
	if err != nil || r.Record != (Record{Store: crashStore}) {
		t.Errorf("new record: %+v, %v", r, err)
	}
	if _, err := e.Read(ctx, StoreID{9}); !errors.Is(err, ErrNoRecord) {
		t.Errorf("another store: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != fileBytes {
		t.Errorf("file: %v, %v", info, err)
	}
}

// What a crash during Create leaves: nothing, a draft that is empty or half written, or a file with both names.
func TestCreateAfterCrash(t *testing.T) {
	for _, draft := range []string{"", "half", strings.Repeat("x", fileBytes)} {
		path := filepath.Join(t.TempDir(), "counter")
		if err := os.WriteFile(path+".new", []byte(draft), 0o600); err != nil {
			t.Fatal(err)
		}
		e := newEmbedded(t, path)
		if err := e.Create(context.Background(), crashStore); err != nil {
			t.Fatalf("draft of %d bytes: %v", len(draft), err)
		}
		if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the draft is still there: %v", err)
		}
	}
	e, path := created(t)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, path+".new"); err != nil {
		t.Fatal(err)
	}
	again := newEmbedded(t, path)
	if _, err := again.Open(context.Background(), crashStore); err != nil {
		t.Errorf("file with both names: %v", err)
	}
}

func TestSecondServerIsLockedOut(t *testing.T) {
	e, path := created(t)
	if _, err := NewEmbedded(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("second server: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	newEmbedded(t, path)
}

func TestStateSurvivesRestart(t *testing.T) {
	e, path := created(t)
	ctx := context.Background()
	first, err := e.Open(ctx, crashStore)
	if err != nil || first.Gen != 1 {
		t.Fatalf("first generation: %+v, %v", first, err)
	}
	if err := commit(e, CommitRequest{Store: crashStore, Gen: 1, Value: 7, Tag: tag(7), Opening: true}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := commit(e, CommitRequest{Store: crashStore, Gen: 1, Value: 7, Tag: tag(7)}); err == nil {
		t.Error("commit after Close succeeded")
	}
	e = newEmbedded(t, path)
	second, err := e.Open(ctx, crashStore)
	if err != nil {
		t.Fatal(err)
	}
	want := Record{Store: crashStore, Gen: 2, Current: State{7, tag(7), 1}}
	if second.Record != want {
		t.Errorf("got %+v, want %+v", second.Record, want)
	}
	if first.Random == second.Random || first.Random == [32]byte{} {
		t.Error("the random bytes are not fresh")
	}
	if age := time.Since(time.UnixMilli(int64(second.Stamp))); age < -time.Millisecond || age > time.Minute { // rounded up
		t.Errorf("stamp is %v old", age)
	}
	if err := commit(e, CommitRequest{Store: crashStore, Gen: 1, Expected: tag(7), Value: 8, Tag: tag(8)}); !errors.Is(err, ErrFenced) {
		t.Errorf("commit of the earlier generation: %v", err)
	}
}

func TestDamagedFileSaysSo(t *testing.T) {
	cases := map[string]func([]byte) []byte{
		"empty file":   func([]byte) []byte { return nil },
		"short file":   func(b []byte) []byte { return b[:100] },
		"zeros":        func(b []byte) []byte { return make([]byte, len(b)) },
		"one bit":      func(b []byte) []byte { b[20] ^= 1; return b },
		"another file": func(b []byte) []byte { return []byte(strings.Repeat("hello ", len(b)/6)) },
		"a later format": func(b []byte) []byte {
			b[offVersion]++
			return append(reseal(b[:slotBytes]), b[slotBytes:]...)
		},
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			e, path := created(t)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = NewEmbedded(path)
			if want := name != "a later format"; err == nil || errors.Is(err, ErrDamaged) != want {
				t.Fatalf("damaged is %v, want %v: %v", !want, want, err)
			}
		})
	}
}

func TestSymlinkIsRefused(t *testing.T) {
	_, path := created(t)
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := NewEmbedded(link); err == nil {
		t.Error("a counter file behind a symbolic link was opened")
	}
}

func TestConcurrentUse(t *testing.T) {
	e, _ := created(t)
	ctx := context.Background()
	if _, err := e.Open(ctx, crashStore); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if err := e.Sync(ctx); err != nil {
					t.Error(err)
				}
				if _, err := e.Read(ctx, crashStore); err != nil {
					t.Error(err)
				}
			}
		})
	}
	at := State{}
	for v := Counter(1); v <= 2000; v++ {
		next := State{Value: v, Tag: Tag{byte(v), byte(v >> 8), 1}}
		if err := commit(e, CommitRequest{Store: crashStore, Gen: 1, Expected: at.Tag, Value: v, Tag: next.Tag}); err != nil {
			t.Fatal(err)
		}
		at = next
	}
	all.Wait()
}

func BenchmarkCommit(b *testing.B) {
	e, _ := created(b)
	if _, err := e.Open(context.Background(), crashStore); err != nil {
		b.Fatal(err)
	}
	req := CommitRequest{Store: crashStore, Gen: 1}
	done := func(_ Stamp, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		req.Expected = req.Tag
		req.Value++
		req.Tag = Tag{byte(req.Value), byte(req.Value >> 8), byte(req.Value >> 16), byte(req.Value >> 24), 1}
		e.Commit(req, done)
	}
}
