package streams_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/seal"
	"cvmstore/streams"
	"cvmstore/volume"
)

// fakeClock is the machine's clock and the counter's, moved by the test.
type fakeClock struct{ ms atomic.Int64 }

func (c *fakeClock) Wall() int64              { return c.ms.Load() }
func (c *fakeClock) Monotonic() time.Duration { return time.Duration(c.ms.Load()) * time.Millisecond }
func (c *fakeClock) advance(ms int64)         { c.ms.Add(ms) }

// rig is a device, a counter and keys that outlive the volumes on them.
type rig struct {
	tb      testing.TB
	clock   fakeClock
	dev     *memdev.Device
	counter *epochtest.Memory
	keys    *seal.Keys
	space   keyspace.Options
	volume  volume.Options

	s  *keyspace.Space
	v  *volume.Volume
	tx keyspace.Tx
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	keys, err := seal.NewKeys([16]byte{7}, seal.SuiteAEGIS, [32]byte{8})
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{tb: tb, keys: keys}
	r.clock.ms.Store(1_700_000_000_000)
	r.dev = memdev.New(memdev.Options{Blocks: 64, BlocksMax: device.BlocksFor(4 << 30)})
	r.counter = epochtest.NewMemory(epochtest.Options{Clock: func() epoch.Stamp { return epoch.Stamp(r.clock.Wall()) }})
	if err := r.counter.Create(context.Background(), epoch.StoreID(keys.StoreID())); err != nil {
		tb.Fatal(err)
	}
	return r
}

// open opens the volume and recovers the space.
func (r *rig) open() *rig {
	r.tb.Helper()
	if err := r.tryOpen(); err != nil {
		r.tb.Fatal(err)
	}
	return r
}

func (r *rig) tryOpen() error {
	r.s = keyspace.New(r.space)
	streams.New(r.s, max(r.space.CacheBytes, 0))
	o := r.volume
	o.Device, o.Counter, o.Keys, o.Clock = r.dev, r.counter, r.keys, &r.clock
	o.Stores = map[volume.Store]volume.Replayer{volume.StoreKeys: r.s}
	v, err := volume.Open(r.tb.Context(), o)
	if err != nil {
		return err
	}
	r.v = v
	r.s.Attach(v)
	return nil
}

func (r *rig) close() {
	r.tb.Helper()
	if err := r.v.Close(context.Background()); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *rig) reopen() {
	r.tb.Helper()
	r.close()
	r.open()
}

// do runs a command as the server does: again after misses and while the volume is busy.
func (r *rig) do(db int, keys [][]byte, f func(t *keyspace.Tx) error) error {
	r.tb.Helper()
	return r.run(&r.tx, f, func(t *keyspace.Tx) { r.s.Begin(t, db, keys) })
}

func (r *rig) doAll(db int, f func(t *keyspace.Tx) error) error {
	r.tb.Helper()
	return r.run(&r.tx, f, func(t *keyspace.Tx) { r.s.BeginAll(t, db) })
}

func (r *rig) run(t *keyspace.Tx, f func(t *keyspace.Tx) error, begin func(t *keyspace.Tx)) error {
	r.tb.Helper()
	for range 10_000 {
		begin(t)
		err := f(t)
		t.End()
		switch {
		case errors.Is(err, keyspace.ErrMiss):
			for _, m := range t.Misses() {
				p, err := r.v.Read(context.Background(), m)
				if errors.Is(err, volume.ErrCorrupt) {
					t.Refuse(m.At, err)
					continue
				}
				if err != nil {
					return err
				}
				t.Supply(m.At, p)
			}
			for _, j := range t.Jobs() {
				_ = r.v.DoTransfer(context.Background(), j)
			}
		case errors.Is(err, volume.ErrBusy):
			r.settle()
		default:
			return err
		}
	}
	r.tb.Fatal("a command never got through")
	return nil
}

// settle waits until all that was applied is committed.
func (r *rig) settle() {
	r.tb.Helper()
	applied, _, _ := r.v.Watermarks()
	if err := r.v.Wait(context.Background(), applied, volume.LevelFresh); err != nil {
		r.tb.Fatal(err)
	}
}

func bs(keys ...string) [][]byte {
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = []byte(k)
	}
	return out
}
