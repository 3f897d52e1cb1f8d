package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/seal"
	"cvmstore/volume"
)

// MemoryOptions say how many keys to load.
type MemoryOptions struct {
	Keys       int // default 1,000,000
	KeyBytes   int // default 100
	ValueBytes int // default 100
	Out        io.Writer
}

// Memory loads keys into a store on a device in memory, overwrites a part of them, and prints what the index takes beyond keys and
// cached values, and how long the garbage collector stopped the program.
func Memory(ctx context.Context, o MemoryOptions) error {
	o.Keys, o.KeyBytes, o.ValueBytes = orDefault(o.Keys, 1_000_000), max(orDefault(o.KeyBytes, 100), 8), orDefault(o.ValueBytes, 100)
	const cacheBytes = 1 << 20 // next to nothing, so that what is left is the index
	size := o.KeyBytes + o.ValueBytes + 64
	dev := memdev.New(memdev.Options{BlocksMax: device.BlocksFor(3*o.Keys*size) + 1<<16})
	counter := epochtest.NewMemory(epochtest.Options{})
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		return err
	}
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		return err
	}
	space := keyspace.New(keyspace.Options{CacheBytes: cacheBytes})
	v, err := volume.Open(ctx, volume.Options{
		Device: dev, Counter: counter, Keys: keys, Log: zerolog.Nop(),
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		return err
	}
	space.Attach(v)
	tx, key, value := new(keyspace.Tx), make([]byte, o.KeyBytes), make([]byte, o.ValueBytes)
	set := func(i int) error {
		binary.BigEndian.PutUint64(key, uint64(i))
		for {
			space.Begin(tx, 0, [][]byte{key})
			_, err := kvs.Set(tx, key, value, kvs.SetOptions{})
			tx.End()
			if err == nil || !errors.Is(err, volume.ErrBusy) {
				return err
			}
			if err := v.Wait(ctx, tx.Seen(), volume.LevelDurable); err != nil {
				return err
			}
			v.Step()
		}
	}
	load := func(n int) error {
		for i := range n {
			if err := set(i); err != nil {
				return err
			}
			if i%512 == 511 { // as 50 clients in pipelines would
				if err := v.Wait(ctx, tx.Seen(), volume.LevelFresh); err != nil {
					return err
				}
			}
		}
		return nil
	}
	before := heap() // the device's blocks are not there yet; they are counted below
	if err := load(o.Keys); err != nil {
		return err
	}
	after := heap()
	stored := uint64(dev.Counters().BytesWritten)
	index := int64(after-before) - int64(stored) - int64(o.Keys*o.KeyBytes)
	if err := load(o.Keys / 2); err != nil {
		return err
	}
	count, worst := gcPauses()
	fmt.Fprintf(o.Out, "%d keys of %d bytes with values of %d: %.1f bytes a key beyond the key (and a cache of %d MiB, which is counted in)\n",
		o.Keys, o.KeyBytes, o.ValueBytes, float64(index)/float64(o.Keys), cacheBytes>>20)
	record(o.Out, Figure{
		Experiment: "memory", Name: fmt.Sprintf("beyond the key, %d keys", o.Keys), Unit: "B a key", Value: float64(index) / float64(o.Keys), Goal: 100, AtMost: true,
	})
	fmt.Fprintf(o.Out, "garbage collector: %d pauses; p99.9 at most %.3f ms\n", count, 1000*worst)
	return v.Close(ctx)
}

func orDefault(n, d int) int {
	if n == 0 {
		return d
	}
	return n
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// gcPauses returns how many stop-the-world pauses there were, and the bucket that holds the 99.9th percentile, in seconds.
func gcPauses() (count uint64, p999 float64) {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	for _, n := range h.Counts {
		count += n
	}
	seen := uint64(0)
	for i, n := range h.Counts {
		if seen += n; float64(seen) >= 0.999*float64(count) {
			return count, h.Buckets[i+1]
		}
	}
	return count, 0
}
