package epoch

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestRecreateAndRollBack(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "counter")
	store := StoreID{1}
	open := func() *Embedded {
		e, err := NewEmbedded(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	e := open()
	for _, s := range []State{{}, {Value: 1}, {Tag: Tag{1}}} {
		if err := e.Recreate(ctx, store, 3, s); !errors.Is(err, ErrConflict) {
			t.Errorf("recreate from %v: %v", s, err)
		}
	}
	if err := e.Recreate(ctx, store, 3, State{Value: 10, Tag: Tag{7}, Gen: 9}); err != nil {
		t.Fatal(err)
	}
	if err := e.Recreate(ctx, store, 3, State{Value: 10, Tag: Tag{7}}); !errors.Is(err, ErrExists) {
		t.Errorf("a second record: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open()
	r, err := e.Open(ctx, store)
	if err != nil || r.Gen != 4 || r.Current != (State{Value: 10, Tag: Tag{7}}) {
		t.Fatalf("%+v, %v", r, err)
	}
	commit := func(gen Generation, expected, tag Tag, value Counter) (err error) {
		e.Commit(CommitRequest{Store: store, Gen: gen, Expected: expected, Value: value, Tag: tag}, func(_ Stamp, e error) { err = e })
		return err
	}
	if err := commit(4, Tag{7}, Tag{8}, 9); !errors.Is(err, ErrConflict) {
		t.Errorf("below the registered value: %v", err)
	}
	if err := commit(4, Tag{7}, Tag{8}, 20); err != nil {
		t.Fatal(err)
	}
	if err := e.RollBack(ctx, store, 4, Tag{7}, State{Value: 10, Tag: Tag{7}}); !errors.Is(err, ErrConflict) {
		t.Errorf("a rollback of another state: %v", err)
	}
	if err := e.RollBack(ctx, store, 4, Tag{8}, State{Value: 10, Tag: Tag{7}, Gen: 4}); err != nil {
		t.Fatal(err)
	}
	if err := commit(4, Tag{7}, Tag{9}, 30); !errors.Is(err, ErrFenced) {
		t.Errorf("who ran before the rollback commits: %v", err)
	}
	if r, err = e.Open(ctx, store); err != nil || r.Gen != 6 || r.Current != (State{Value: 10, Tag: Tag{7}}) || r.Floor != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}
