package files_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/files"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/seal"
	"cvmstore/volume"
)

// rig is a device, a counter and keys that outlive the volumes on them.
type rig struct {
	t       *testing.T
	dev     *memdev.Device
	counter *epochtest.Memory
	keys    *seal.Keys
	cache   int64

	space *keyspace.Space
	v     *volume.Volume
	u     *files.Uploads
	s     *files.Store
}

func newRig(t *testing.T, dev memdev.Options) *rig {
	t.Helper()
	keys, err := seal.NewKeys([16]byte{3}, seal.SuiteAEGIS, [32]byte{4})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dev: memdev.New(dev), counter: epochtest.NewMemory(epochtest.Options{}), keys: keys, cache: -1}
	if err := r.counter.Create(context.Background(), epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	return r
}

// limit bounds everything that a test waits for.
func limit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Second)
}

func (r *rig) tryOpen() error {
	ctx, cancel := limit()
	defer cancel()
	r.space = keyspace.New(keyspace.Options{BlobBytes: 4096, CacheBytes: r.cache})
	kvs.NewCollections(r.space, 0)
	r.u = files.New(r.space)
	v, err := volume.Open(ctx, volume.Options{
		Device: r.dev, Counter: r.counter, Keys: r.keys, SegmentBlocks: 8,
		Blobs:  volume.BlobOptions{ChunkBytes: 4096, Buffers: 8, Depth: 4, Ahead: 3},
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: r.space},
	})
	if err != nil {
		return err
	}
	r.v = v
	r.space.Attach(v)
	r.s = files.NewStore(v, r.space)
	return nil
}

func (r *rig) open() *rig {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.t.Fatal(err)
	}
	return r
}

func (r *rig) close() {
	r.t.Helper()
	ctx, cancel := limit()
	defer cancel()
	if err := r.v.Close(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// read returns all of a file; absent: ok is false.
func (r *rig) read(name string) (data []byte, ok bool, err error) {
	ctx, cancel := limit()
	defer cancel()
	f, err := r.s.Open(ctx, []byte(name))
	if errors.Is(err, files.ErrNoFile) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(f)
	return data, err == nil, err
}

// part reads a range.
func (r *rig) part(name string, from, n int) ([]byte, error) {
	ctx, cancel := limit()
	defer cancel()
	f, err := r.s.Open(ctx, []byte(name))
	if err != nil {
		return nil, err
	}
	p := make([]byte, n)
	_, err = f.ReadAt(p, int64(from))
	return p, errors.Join(err, f.Close())
}

func (r *rig) put(name string, data []byte) error {
	ctx, cancel := limit()
	defer cancel()
	_, err := r.s.Put(ctx, []byte(name), data, files.PutOptions{}, volume.LevelFresh)
	return err
}

// stream writes a file through a Writer.
func (r *rig) stream(name string, data []byte) (err error) {
	ctx, cancel := limit()
	defer cancel()
	w, err := r.s.Create(ctx, []byte(name), int64(len(data)), files.CreateOptions{Chunk: 4096})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for rest := data; len(rest) > 0 && err == nil; {
		n := min(7000, len(rest))
		err = w.Write(ctx, rest[:n])
		rest = rest[n:]
	}
	if err == nil {
		_, err = w.Commit(ctx, files.PutOptions{}, volume.LevelFresh)
	}
	return err
}

func (r *rig) delete(name string) error {
	ctx, cancel := limit()
	defer cancel()
	_, err := r.s.Delete(ctx, []byte(name), volume.LevelFresh)
	return err
}

func (r *rig) rename(from, to string) error {
	ctx, cancel := limit()
	defer cancel()
	return r.s.Do(ctx, [][]byte{[]byte(from), []byte(to)}, volume.LevelFresh, func(t *keyspace.Tx) error {
		_, err := files.Rename(t, []byte(from), []byte(to), false)
		return err
	})
}

// begin, write and end are the commands on uploads, as the server runs them.
func (r *rig) begin(name string, size int64) (id files.ID, err error) {
	ctx, cancel := limit()
	defer cancel()
	o := files.BeginOptions{Size: size, Chunk: 4096}
	p, err := r.u.PlanBegin([]byte(name), r.v.Now(), o)
	if err != nil {
		return 0, err
	}
	return id, r.s.Do(ctx, p.Keys, volume.LevelFresh, func(t *keyspace.Tx) (err error) {
		id, err = r.u.Begin(t, p, o)
		return err
	})
}

func (r *rig) write(id files.ID, at int, data []byte) error {
	ctx, cancel := limit()
	defer cancel()
	p, err := r.u.PlanWrite(id, int64(at), int64(len(data)))
	if err != nil {
		return err
	}
	return r.s.Do(ctx, p.Keys, volume.LevelFresh, func(t *keyspace.Tx) error { return r.u.Write(t, p, data, nil) })
}

func (r *rig) end(id files.ID, commit bool) error {
	ctx, cancel := limit()
	defer cancel()
	p, err := r.u.PlanEnd(id, commit)
	if err != nil {
		return err
	}
	return r.s.Do(ctx, p.Keys, volume.LevelFresh, func(t *keyspace.Tx) error {
		if !commit {
			return r.u.Abort(t, p)
		}
		_, err := r.u.Commit(t, p, files.PutOptions{})
		return err
	})
}

// content is n bytes that a seed gives.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}
