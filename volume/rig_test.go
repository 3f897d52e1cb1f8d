package volume_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/memdev"
	"cvmstore/seal"
	"cvmstore/volume"
)

// toyStore is the smallest store: a map of numbers to values, journaled as put and delete records.
type toyStore struct {
	v      *volume.Volume
	mu     sync.Mutex
	items  map[uint32]toyItem
	newest map[uint32]toyItem // recovery: the newest record of each key, deletes included
}

type toyItem struct {
	value   string
	counter volume.Counter
	place   volume.Place
	size    int
	blob    *volume.Blob
}

const (
	toyPut    volume.Kind = 1
	toyDelete volume.Kind = 2
	toyBlob   volume.Kind = 3
)

func (s *toyStore) Reset() { s.items, s.newest = map[uint32]toyItem{}, map[uint32]toyItem{} }

func toyHash(v *volume.Volume, key uint32, c volume.Counter) volume.Sum {
	return v.ItemHash(volume.StoreKeys, binary.BigEndian.AppendUint32(nil, key), c)
}

// apply changes the map; tx is nil in recovery.
func (s *toyStore) apply(v *volume.Volume, kind volume.Kind, key uint32, it toyItem, tx *volume.Tx) {
	old, ok := s.items[key]
	if ok && tx != nil {
		tx.Remove(toyHash(v, key, old.counter))
		tx.Dead(old.place, old.size)
	}
	if ok && old.blob != nil {
		old.blob.Release(it.counter)
	}
	delete(s.items, key)
	if kind != toyDelete {
		s.items[key] = it
		if tx != nil {
			tx.Add(toyHash(v, key, it.counter))
		}
	}
}

// Meta implements volume.Replayer: values are kept here, so that tests may compare them.
func (s *toyStore) Meta(_ volume.Kind, payload []byte) int { return len(payload) }

func (s *toyStore) Replay(v *volume.Volume, r volume.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := binary.BigEndian.Uint32(r.Payload)
	it := toyItem{value: string(r.Payload[4:]), counter: r.Counter, place: r.Place, size: r.Size}
	if old := s.newest[key]; r.Counter < old.counter || r.Counter == old.counter && r.Place < old.place {
		return nil
	}
	if r.Kind == toyBlob {
		var err error
		if it.blob, err = v.AdoptBlob(r.Payload[4:]); err != nil {
			return err
		}
		it.value = ""
	}
	s.newest[key] = it
	s.apply(v, r.Kind, key, it, nil)
	return nil
}

func (s *toyStore) Settle(v *volume.Volume, d *volume.Delta) error {
	for k, it := range s.items {
		d.Add(toyHash(v, k, it.counter))
		d.Live(it.place, it.size)
	}
	return nil
}

func (s *toyStore) Live(_ *volume.Volume, r volume.Record) bool {
	it, ok := s.items[binary.BigEndian.Uint32(r.Payload)]
	return ok && it.place == r.Place
}

func (s *toyStore) Move(v *volume.Volume, r volume.Record) (bool, error) {
	if !s.Live(v, r) {
		return false, nil
	}
	tx, err := v.Begin(r.Size, 1, volume.ClassMove)
	if err != nil {
		return false, err
	}
	p, at := tx.Append(r.Store, r.Kind, r.Counter, r.Size)
	copy(p, r.Payload)
	key := binary.BigEndian.Uint32(p)
	it := s.items[key]
	it.place = at
	s.items[key] = it
	tx.Dead(r.Place, r.Size)
	tx.End()
	return true, nil
}

type op struct {
	key   uint32
	value string // "" deletes
}

// write appends one atomic batch and returns its last counter.
func (s *toyStore) write(ops ...op) (volume.Counter, error) {
	bytes := 0
	for _, o := range ops {
		bytes += 4 + len(o.value)
	}
	tx, err := s.v.Begin(bytes, len(ops), volume.ClassNormal)
	if err != nil {
		return 0, err
	}
	for _, o := range ops {
		kind := toyPut
		if o.value == "" {
			kind = toyDelete
		}
		c := tx.Next()
		p, at := tx.Append(volume.StoreKeys, kind, c, 4+len(o.value))
		binary.BigEndian.PutUint32(p, o.key)
		copy(p[4:], o.value)
		s.apply(s.v, kind, o.key, toyItem{value: o.value, counter: c, place: at, size: len(p)}, tx)
	}
	return tx.End(), nil
}

// point appends a pointer to a blob, which the item takes the reference of.
func (s *toyStore) point(key uint32, b *volume.Blob) (volume.Counter, error) {
	tx, err := s.v.Begin(4+b.PointerSize(), 1, volume.ClassNormal)
	if err != nil {
		return 0, err
	}
	c := tx.Next()
	p, at := tx.Append(volume.StoreKeys, toyBlob, c, 4+b.PointerSize())
	binary.BigEndian.PutUint32(p, key)
	b.PutPointer(p[4:])
	s.apply(s.v, toyBlob, key, toyItem{counter: c, place: at, size: len(p), blob: b}, tx)
	return tx.End(), nil
}

func (s *toyStore) values() map[uint32]string {
	m := map[uint32]string{}
	for k, it := range s.items {
		m[k] = it.value
	}
	return m
}

// rig is a device, a counter and a key that outlive the volumes on them.
type rig struct {
	t       *testing.T
	dev     *memdev.Device
	counter *epochtest.Memory
	keys    *seal.Keys
	opts    volume.Options
	store   *toyStore
	v       *volume.Volume
}

func newRig(t *testing.T, dev memdev.Options, counter epochtest.Options) *rig {
	t.Helper()
	keys, err := seal.NewKeys([16]byte{1}, seal.SuiteAEGIS, [32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dev: memdev.New(dev), counter: epochtest.NewMemory(counter), keys: keys}
	r.opts = volume.Options{SegmentBlocks: 4}
	if err := r.counter.Create(context.Background(), epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) tryOpen() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return r.openWith(ctx)
}

// tryOpenAsync opens beside a counter that answers only when it is told to.
func (r *rig) tryOpenAsync() error {
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.counter.Deliver()
				runtime.Gosched()
			}
		}
	}()
	return r.tryOpen()
}

func (r *rig) openAsync() {
	r.t.Helper()
	if err := r.tryOpenAsync(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) openWith(ctx context.Context) error {
	r.store = &toyStore{items: map[uint32]toyItem{}}
	o := r.opts
	o.Device, o.Counter, o.Keys = r.dev, r.counter, r.keys
	o.Stores = map[volume.Store]volume.Replayer{volume.StoreKeys: r.store}
	v, err := volume.Open(ctx, o)
	if err != nil {
		return err
	}
	r.v, r.store.v = v, v
	return nil
}

func (r *rig) open() {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.v.Close(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// put writes until the volume admits it, and waits for the level.
func (r *rig) put(l volume.Level, ops ...op) volume.Counter {
	r.t.Helper()
	c, err := r.tryPut(l, ops...)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) tryPut(l volume.Level, ops ...op) (volume.Counter, error) {
	for range 1000 {
		c, err := r.store.write(ops...)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return c, r.v.Wait(ctx, c, l)
		}
		if !isBusy(err) {
			return 0, err
		}
		r.v.Step()
	}
	return 0, fmt.Errorf("busy for ever: %w", volume.ErrBusy)
}

func (r *rig) wantState(want map[uint32]string) {
	r.t.Helper()
	if got := r.store.values(); !maps.Equal(got, want) {
		r.t.Fatalf("state after recovery: %d items, want %d: %.200v\n%.200v", len(got), len(want), got, want)
	}
}

// readBack reads every item from the device and compares it with the index.
func (r *rig) readBack() {
	r.t.Helper()
	for k, it := range r.store.items {
		p, err := r.v.Read(context.Background(), volume.Fetch{
			At: it.place, Size: it.size, Counter: it.counter, Store: volume.StoreKeys, Kind: toyPut,
		})
		if err != nil {
			r.t.Fatalf("key %d: %v", k, err)
		}
		if got := string(p[4:]); got != it.value {
			r.t.Fatalf("key %d: read %q, want %q", k, got, it.value)
		}
	}
}
