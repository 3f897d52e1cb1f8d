package epoch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
)

// cachedFile is a slotFile with a page cache that a power cut can lose or tear, sector by sector.
type cachedFile struct {
	disk, cache []byte
	syncErr     error
	onSync      func() // runs while a flush is under way
	writes      int
}

func newCachedFile(store StoreID) *cachedFile {
	f := &cachedFile{disk: make([]byte, fileBytes)}
	encodeSlot(f.disk[:slotBytes], slot{seq: 1, rec: Record{Store: store}})
	f.cache = bytes.Clone(f.disk)
	return f
}

func (f *cachedFile) ReadAt(p []byte, off int64) (int, error) { return copy(p, f.cache[off:]), nil }

func (f *cachedFile) WriteAt(p []byte, off int64) (int, error) {
	f.writes++
	return copy(f.cache[off:], p), nil
}

// Datasync makes durable what was written before it began; what is written meanwhile stays in the cache only.
func (f *cachedFile) Datasync() error {
	before := bytes.Clone(f.cache)
	if f.onSync != nil {
		f.onSync()
	}
	if f.syncErr != nil {
		return f.syncErr
	}
	f.disk = before
	return nil
}

func (f *cachedFile) Close() error { return nil }

// outcome is what a power cut does to one slot that was not flushed.
type outcome uint8

const (
	lost outcome = iota
	torn
	persisted
	outcomes
)

// powerCut returns the file as it is found afterwards. A torn slot is half new and half what was there before.
func (f *cachedFile) powerCut(fate [slotCount]outcome) *cachedFile {
	disk := bytes.Clone(f.disk)
	for i, o := range fate {
		at := i * slotStride
		switch o {
		case persisted:
			copy(disk[at:at+slotBytes], f.cache[at:])
		case torn:
			copy(disk[at:at+slotBytes/2], f.cache[at:])
		}
	}
	return &cachedFile{disk: disk, cache: bytes.Clone(disk)}
}

func (f *cachedFile) kill() *cachedFile { return &cachedFile{disk: f.disk, cache: f.cache} }

func attach(t *testing.T, f slotFile) *Embedded {
	t.Helper()
	e := &Embedded{path: "counter", flushing: -1, now: wallClock}
	if err := e.loadLocked(f); err != nil {
		t.Fatalf("the counter cannot be read after a crash: %v", err)
	}
	return e
}

var crashStore = StoreID{1, 2, 3}

// life is one counter's history: what was answered, and what was answered durable.
type life struct {
	t       *testing.T
	e       *Embedded
	file    *cachedFile
	states  []Record // every record that was ever answered, in order
	durable int      // index in states of the newest that is durable for sure
}

func (l *life) now() Record { return l.states[len(l.states)-1] }

func (l *life) open() {
	r, err := l.e.Open(context.Background(), crashStore)
	if err != nil {
		l.t.Fatal(err)
	}
	l.states = append(l.states, r.Record)
	l.durable = len(l.states) - 1
}

func (l *life) commit() {
	r := l.now()
	v := r.Current.Value + 1
	req := CommitRequest{Store: crashStore, Gen: r.Gen, Expected: r.Current.Tag, Value: v, Tag: Tag{0: byte(v), 1: byte(r.Gen)}}
	l.e.Commit(req, func(_ Stamp, err error) {
		if err != nil {
			l.t.Fatal(err)
		}
	})
	next, err := r.Apply(req)
	if err != nil {
		l.t.Fatal(err)
	}
	l.states = append(l.states, next)
}

func (l *life) sync() {
	answered := len(l.states) - 1
	if err := l.e.Sync(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	l.durable = answered
}

// syncWithCommits flushes while n commits arrive.
func (l *life) syncWithCommits(n int) {
	l.file.onSync = func() {
		for range n {
			l.commit()
		}
	}
	l.sync()
	l.file.onSync = nil
}

// The crash matrix: each prefix of a run × each fate of each slot × a second crash after the restart. Progress is always
// expected: the counter opens, its state is one that was answered, not older than the newest durable one, and the new
// generation is above all that were ever answered.
func TestCrashMatrix(t *testing.T) {
	steps := []struct {
		name string
		do   func(*life)
	}{
		{"open", (*life).open},
		{"commit", (*life).commit},
		{"commit again", (*life).commit},
		{"sync", (*life).sync},
		{"commit after sync", (*life).commit},
		{"commit after sync again", (*life).commit},
		{"sync under commits", func(l *life) { l.syncWithCommits(2) }},
		{"commit after that", (*life).commit},
		{"sync that ends with commits pending", func(l *life) { l.syncWithCommits(1) }},
		{"sync at once", (*life).sync},
		{"sync with nothing to do", (*life).sync},
		{"open again", (*life).open},
		{"commit in the new generation", (*life).commit},
	}
	rows := 0
	for n := range len(steps) + 1 {
		for _, fate := range fates() {
			for _, again := range fates() {
				rows++
				name := "nothing"
				f := newCachedFile(crashStore)
				l := &life{t: t, file: f, e: attach(t, f), states: []Record{{Store: crashStore}}}
				for _, s := range steps[:n] {
					name = s.name
					s.do(l)
				}
				where := fmt.Sprintf("power cut after %q, slots %v then %v", name, fate, again)
				l.restart(l.file.powerCut(fate), where)
				l.open()
				l.commit()
				l.commit()
				l.restart(l.file.powerCut(again), where+", restart")
				l.open()
			}
		}
	}
	t.Logf("%d rows", rows)
}

func fates() [][slotCount]outcome {
	var all [][slotCount]outcome
	for a := range outcomes {
		for b := range outcomes {
			for c := range outcomes {
				all = append(all, [slotCount]outcome{a, b, c})
			}
		}
	}
	return all
}

// restart attaches to what a crash left and checks it against the history, which it cuts there.
func (l *life) restart(f *cachedFile, where string) {
	l.t.Helper()
	l.file, l.e = f, attach(l.t, f)
	r, err := l.e.Read(context.Background(), crashStore)
	if err != nil {
		l.t.Fatalf("%s: %v", where, err)
	}
	for i := l.durable; i < len(l.states); i++ {
		if l.states[i] == r.Record {
			l.states = l.states[:i+1]
			l.durable = i
			return
		}
	}
	l.t.Fatalf("%s: the counter is at %+v; durable was %+v, newest %+v", where, r.Record, l.states[l.durable], l.now())
}

func TestKillLosesNothing(t *testing.T) {
	f := newCachedFile(crashStore)
	l := &life{t: t, file: f, e: attach(t, f), states: []Record{{Store: crashStore}}}
	l.open()
	for range 5 {
		l.commit()
		l.durable = len(l.states) - 1
		l.restart(l.file.kill(), "kill")
	}
	if len(l.states) != 7 {
		t.Errorf("%d states, want 7", len(l.states))
	}
}

func TestFailedFlushStopsForGood(t *testing.T) {
	f := newCachedFile(crashStore)
	l := &life{t: t, file: f, e: attach(t, f), states: []Record{{Store: crashStore}}}
	l.open()
	l.commit()
	f.syncErr = errors.New("input/output error")
	if err := l.e.Sync(context.Background()); err == nil {
		t.Fatal("a failed flush was called durable")
	}
	f.syncErr = nil
	if err := l.e.Sync(context.Background()); err == nil {
		t.Error("a flush was tried again after it failed")
	}
	l.e.Commit(CommitRequest{Store: crashStore, Gen: 1, Expected: l.now().Current.Tag, Value: 9, Tag: tag(9)}, func(_ Stamp, err error) {
		if err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrFenced) {
			t.Errorf("commit after a failed flush: %v", err)
		}
	})
}

func TestUnchangedCommitWritesNothing(t *testing.T) {
	f := newCachedFile(crashStore)
	l := &life{t: t, file: f, e: attach(t, f), states: []Record{{Store: crashStore}}}
	l.open()
	l.commit()
	before := f.writes
	cur := l.now().Current
	l.e.Commit(CommitRequest{Store: crashStore, Gen: 1, Expected: cur.Tag, Value: cur.Value, Tag: cur.Tag}, func(_ Stamp, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if f.writes != before {
		t.Error("a renewal wrote to the file")
	}
}
