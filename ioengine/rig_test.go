package ioengine

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

const chunkTest = ChunkMin

// rig is a device in memory with a pool and an engine.
type rig struct {
	t    testing.TB
	dev  *memdev.Device
	pool *Pool
	e    *Engine
	rng  *rand.Rand
	next device.LBA // where the next blob of begin goes
}

func newRig(t testing.TB, dev memdev.Options, buffers int, o Options) *rig {
	t.Helper()
	if dev.Blocks == 0 {
		dev.Blocks = 4096
	}
	r := &rig{t: t, dev: memdev.New(dev), rng: rand.New(rand.NewPCG(dev.Seed, 1))}
	var err error
	if r.pool, err = NewPool(r.dev, PoolOptions{Buffers: buffers, Chunk: chunkTest}); err != nil {
		t.Fatal(err)
	}
	r.e = r.engine(o)
	return r
}

func (r *rig) engine(o Options) *Engine {
	r.t.Helper()
	e, err := New(r.dev, r.pool, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// close checks that all buffers came home.
func (r *rig) close() {
	r.t.Helper()
	if err := errors.Join(r.e.Close(), r.pool.Close(), r.dev.Close()); err != nil {
		r.t.Error(err)
	}
}

// key returns a new Key for the blob that n names. The same n gives an equal key: what a reader after a restart has.
func (r *rig) key(suite string, n byte) *Key {
	r.t.Helper()
	k, err := NewKey(suite, bytes.Repeat([]byte{n}, KeySize(suite)), Identity{Blob: [32]byte{n}, Kind: 'T', Version: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

func (r *rig) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return b
}

// scatter cuts n blocks into extents of random sizes in random order, each in its own place.
func (r *rig) scatter(n device.BlockCount) []Extent {
	var list []Extent
	lba := device.LBA(3)
	for n > 0 {
		run := min(n, 1+device.BlockCount(r.rng.IntN(60)))
		list = append(list, Extent{lba, run})
		lba += device.LBA(run) + device.LBA(r.rng.IntN(3))
		n -= run
	}
	r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (r *rig) write(key *Key, data []byte, x ...Extent) []Tag {
	r.t.Helper()
	w, err := r.e.NewWriter(key, chunkTest, x...)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := w.WriteAll(context.Background(), data); err != nil {
		r.t.Fatal(err)
	}
	w.Close()
	return w.Tags()
}

func (r *rig) read(key *Key, tags []Tag, size int, x ...Extent) ([]byte, error) {
	r.t.Helper()
	rd, err := r.e.NewReader(key, chunkTest, x...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rd.Close()
	dst := make([]byte, size)
	err = rd.ReadAll(context.Background(), 0, tags, dst)
	return dst, err
}
