// Package boltstore keeps the counter service's values in a bbolt file, durable before it answers, and commits what many callers
// ask for at the same time in one transaction.
//
// One goroutine writes. It takes all updates that wait, at most one a key, so that a key that is updated without pause cannot
// fill a batch; carries them out on the values in memory; writes them in one transaction, flushed; and answers. What it
// answered from memory is what the file holds durably: memory changes only after the flush. A failed flush ends the store for
// good: what the kernel dropped must not be called durable by a later one.
package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"cvmstore/epoch/service"
)

// ErrLocked is a file that another service uses.
var ErrLocked = errors.New("the counter's database is in use by another process")

var bucketName = []byte("v1")

// Store is a service.Store in a file.
type Store struct {
	db    *bolt.DB
	queue chan *update
	done  chan struct{}
	stop  chan struct{}
	once  sync.Once

	mu     sync.RWMutex
	values map[string][]byte // what is durable
	failed error

	batches, updates uint64 // the writer's
}

var _ service.Store = (*Store)(nil)

// update is one call that waits.
type update struct {
	ctx    context.Context
	key    string
	change func([]byte) ([]byte, error)
	value  []byte
	err    error
	done   chan struct{}
}

const (
	queueMax = 4096
	batchMax = 1024
	lockWait = time.Second
)

// Open opens or makes the file at path. Its values stay in memory: some hundred bytes a store.
func Open(path string) (*Store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("counter database %s: %w", path, err)
	}
	s := &Store{
		db: db, queue: make(chan *update, queueMax), done: make(chan struct{}), stop: make(chan struct{}), values: map[string][]byte{},
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucketName)
		if err != nil {
			return err
		}
		return b.ForEach(func(k, v []byte) error {
			s.values[string(k)] = bytes.Clone(v)
			return nil
		})
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("counter database %s: %w", path, err), db.Close())
	}
	go s.write()
	return s, nil
}

// Update implements service.Store.
func (s *Store) Update(ctx context.Context, key string, change func([]byte) ([]byte, error)) ([]byte, error) {
	u := &update{ctx: ctx, key: key, change: change, done: make(chan struct{})}
	select {
	case s.queue <- u:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.stop:
		return nil, service.ErrOutcomeUnknown
	}
	select {
	case <-u.done:
		return u.value, u.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", service.ErrOutcomeUnknown, ctx.Err())
	case <-s.done:
		select {
		case <-u.done:
			return u.value, u.err
		default:
			return nil, service.ErrOutcomeUnknown
		}
	}
}

// write is the goroutine that writes.
func (s *Store) write() {
	defer close(s.done)
	var waiting []*update // taken from the queue, but their key was in the batch already
	for {
		if len(waiting) == 0 {
			select {
			case u := <-s.queue:
				waiting = append(waiting, u)
			case <-s.stop:
				return
			}
		}
		for more := true; more && len(waiting) < queueMax; {
			select {
			case u := <-s.queue:
				waiting = append(waiting, u)
			default:
				more = false
			}
		}
		batch, keys := waiting[:0:0], map[string]bool{}
		rest := waiting[:0:0]
		for _, u := range waiting {
			if keys[u.key] || len(batch) == batchMax {
				rest = append(rest, u)
				continue
			}
			keys[u.key] = true
			batch = append(batch, u)
		}
		waiting = rest
		s.carryOut(batch)
	}
}

// carryOut applies a batch, which has each key once, and makes it durable.
func (s *Store) carryOut(batch []*update) {
	var dirty []*update
	for _, u := range batch {
		if u.err = u.ctx.Err(); u.err != nil {
			continue
		}
		if u.err = s.failed; u.err != nil {
			continue
		}
		old := s.values[u.key]
		u.value, u.err = u.change(old)
		if u.err == nil && (old == nil || !bytes.Equal(old, u.value)) {
			dirty = append(dirty, u)
		}
	}
	if len(dirty) > 0 {
		s.flush(dirty)
	}
	for _, u := range batch {
		close(u.done)
	}
}

func (s *Store) flush(dirty []*update) {
	err := s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketName)
		for _, u := range dirty {
			if err := b.Put([]byte(u.key), u.value); err != nil {
				return err
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = fmt.Errorf("%w: write: %w", service.ErrOutcomeUnknown, err)
		for _, u := range dirty {
			u.value, u.err = nil, s.failed
		}
		return
	}
	s.batches++
	for _, u := range dirty {
		s.values[u.key] = u.value
		s.updates++
	}
}

// Get implements service.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := errors.Join(ctx.Err(), s.failed); err != nil {
		return nil, err
	}
	return s.values[key], nil
}

// List implements service.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]service.Pair, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := errors.Join(ctx.Err(), s.failed); err != nil {
		return nil, err
	}
	var list []service.Pair
	for k, v := range s.values {
		if strings.HasPrefix(k, prefix) && k > after {
			list = append(list, service.Pair{Key: k, Value: v})
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Key < list[j].Key })
	return list[:min(len(list), limit)], nil
}

// Batching returns how many flushes have made how many updates durable.
func (s *Store) Batching() (batches, updates uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.batches, s.updates
}

// Close ends the store. Updates that still wait have an unknown outcome.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.stop) })
	<-s.done
	return s.db.Close()
}
