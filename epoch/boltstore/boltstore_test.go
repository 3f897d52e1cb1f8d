package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"cvmstore/epoch/service"
)

var ctx = context.Background()

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func set(v string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(v), nil }
}

func TestValuesOutliveTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second store: %v", err)
	}
	for i := range 20 {
		if _, err := s.Update(ctx, fmt.Sprintf("k/%02d", i), set(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	boom := errors.New("boom")
	if _, err := s.Update(ctx, "k/03", func([]byte) ([]byte, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("a change that fails: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(ctx, "k/00", set("x")); !errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("after Close: %v", err)
	}
	s = open(t, path)
	defer s.Close()
	if v, err := s.Get(ctx, "k/03"); err != nil || string(v) != "3" {
		t.Errorf("%q, %v", v, err)
	}
	if v, err := s.Get(ctx, "none"); err != nil || v != nil {
		t.Errorf("no value: %q, %v", v, err)
	}
	page, err := s.List(ctx, "k/", "k/04", 3)
	if err != nil || len(page) != 3 || page[0].Key != "k/05" || page[2].Key != "k/07" {
		t.Errorf("page %v, %v", page, err)
	}
}

// While one flush is under way the next batch collects: one update a key, so that a key that is updated without pause leaves
// room for the others, and all keys of a batch share a flush.
func TestBatchesAreFair(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	defer s.Close()
	hold, held := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = s.Update(ctx, "first", func([]byte) ([]byte, error) { close(held); <-hold; return []byte{1}, nil })
	})
	<-held
	var mu sync.Mutex
	var order []string
	update := func(key string) {
		_, err := s.Update(ctx, key, func(old []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, key)
			return append(bytes.Clone(old), 'x'), nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for range 50 {
		all.Go(func() { update("flood") })
	}
	for len(s.queue) < 50 {
	}
	for i := range 10 {
		all.Go(func() { update(fmt.Sprint("quiet", i)) })
	}
	for len(s.queue) < 60 {
	}
	before, _ := s.Batching()
	close(hold)
	all.Wait()
	if i := slices.Index(order, "flood"); i > 10 || slices.Index(order[i+1:], "flood")+i+1 < 11 {
		t.Errorf("order %v", order)
	}
	if batches, _ := s.Batching(); batches-before != 1+50 { // the one that was held, then one for each of the flood's
		t.Errorf("%d flushes", batches-before)
	}
	if v, _ := s.Get(ctx, "flood"); len(v) != 50 {
		t.Errorf("%d of 50 updates of one key", len(v))
	}
}

func TestFailedFlushStopsForGood(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	if _, err := s.Update(ctx, "k", set("1")); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(ctx, "k", set("2")); !errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("a write that failed: %v", err)
	}
	if v, err := s.Get(ctx, "k"); err == nil {
		t.Errorf("answered %q after a failure", v)
	}
	_ = s.Close()
}
