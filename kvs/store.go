package kvs

import (
	"context"
	"errors"
	"sync"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Store is the key-value store for programs that embed it: it blocks where the server's event loop would go on with
// something else. Use it from any goroutine.
type Store struct {
	v     *volume.Volume
	space *keyspace.Space
	db    int
	txs   sync.Pool
}

// NewStore returns a store over a database of a space that is attached to v. It owns neither; the program closes v.
func NewStore(v *volume.Volume, space *keyspace.Space, db int) *Store {
	return &Store{v: v, space: space, db: db, txs: sync.Pool{New: func() any { return new(keyspace.Tx) }}}
}

// Get returns a copy of the value of key, once everything that the answer depends on has reached level; ok is false if the
// key is absent.
func (s *Store) Get(ctx context.Context, key []byte, level volume.Level) (val []byte, ok bool, err error) {
	err = s.Do(ctx, [][]byte{key}, level, func(t *keyspace.Tx) error {
		v, found, err := Get(t, key)
		if val, ok = nil, found; found {
			val = append([]byte{}, v...)
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return val, ok, nil
}

// Set sets key to val and returns when that has reached level. An error of the context, or of a wait, leaves open whether
// the value was set.
func (s *Store) Set(ctx context.Context, key, val []byte, level volume.Level) error {
	return s.Do(ctx, [][]byte{key}, level, func(t *keyspace.Tx) error {
		_, err := Set(t, key, val, SetOptions{})
		return err
	})
}

// Delete deletes key, and says whether it existed, when that has reached level.
func (s *Store) Delete(ctx context.Context, key []byte, level volume.Level) (existed bool, err error) {
	keys := [][]byte{key}
	err = s.Do(ctx, keys, level, func(t *keyspace.Tx) error {
		n, err := t.Del(keys)
		existed = n > 0
		return err
	})
	return existed, err
}

// Do runs a command of this package, or of Tx, on keys as one transaction: it fetches what the command misses, tries again
// when the volume is busy, and waits until what the command saw has reached level. f may be run several times; what it
// returns from the transaction it copies. An error of f itself is returned at level, too: it depends on what f saw.
func (s *Store) Do(ctx context.Context, keys [][]byte, level volume.Level, f func(t *keyspace.Tx) error) error {
	t := s.txs.Get().(*keyspace.Tx)
	defer s.txs.Put(t)
	defer t.Forget()
	for {
		s.space.Begin(t, s.db, keys)
		err := f(t)
		t.End()
		switch {
		case errors.Is(err, keyspace.ErrMiss):
			err = errors.Join(s.fetch(ctx, t), s.transfer(ctx, t))
		case errors.Is(err, volume.ErrBusy):
			err = s.drain(ctx)
		default:
			if wait := s.v.Wait(ctx, t.Seen(), level); wait != nil {
				return wait
			}
			return err
		}
		if err != nil {
			return err
		}
	}
}

// fetch reads what a command missed.
func (s *Store) fetch(ctx context.Context, t *keyspace.Tx) error {
	for _, m := range t.Misses() {
		payload, err := s.v.Read(ctx, m)
		if errors.Is(err, volume.ErrMoved) { // by compaction, since the command looked: it finds the new place
			continue
		}
		if err != nil {
			return err
		}
		t.Supply(m.At, payload)
	}
	return nil
}

// transfer reads and writes the blobs that a command needs.
func (s *Store) transfer(ctx context.Context, t *keyspace.Tx) error {
	for _, job := range t.Jobs() {
		if err := s.v.DoTransfer(ctx, job); err != nil && ctx.Err() != nil {
			return err
		} // the command finds any other error when it runs again
	}
	return nil
}

// drain waits until the volume may have room for another batch: until all that was applied is committed, and if that is so already
// (a segment is being opened, or compaction is to free one), until something has moved.
func (s *Store) drain(ctx context.Context) error {
	applied, _, fresh := s.v.Watermarks()
	if applied <= fresh {
		return s.v.WaitMove(ctx)
	}
	return s.v.Wait(ctx, applied, volume.LevelFresh)
}
