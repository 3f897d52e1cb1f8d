package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

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

// ZSetOptions say how large a sorted set is made.
type ZSetOptions struct {
	Members int // default 5,000,000
	Out     io.Writer
}

// zsetMember is the length of a member: that of YCSB's keys, about.
const zsetMember = 24

// ZSet fills one sorted set on a device in memory and prints what a member takes, how long one ZADD more takes, what it writes, and
// how long a restart takes.
func ZSet(ctx context.Context, o ZSetOptions) error {
	o.Members = orDefault(o.Members, 5_000_000)
	dev := memdev.New(memdev.Options{BlocksMax: device.BlocksFor(o.Members*256) + 1<<18, TransferBlocks: 1 << 14})
	counter := epochtest.NewMemory(epochtest.Options{})
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		return err
	}
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		return err
	}
	var space *keyspace.Space
	open := func() (*volume.Volume, error) {
		space = keyspace.New(keyspace.Options{CacheBytes: 1 << 20})
		kvs.NewCollections(space, 1<<20)
		v, err := volume.Open(ctx, volume.Options{
			Device: dev, Counter: counter, Keys: keys, Log: zerolog.Nop(),
			Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
		})
		if err == nil {
			space.Attach(v)
		}
		return v, err
	}
	v, err := open()
	if err != nil {
		return err
	}
	tx := new(keyspace.Tx)
	zadd := func(from, n int, level volume.Level) error {
		pairs := make([]kvs.Scored, n)
		for i := range pairs {
			pairs[i] = kvs.Scored{Member: fmt.Appendf(nil, "%0*d", zsetMember, from+i), Score: float64(int32(rand.Uint32()))}
		}
		for {
			space.Begin(tx, 0, [][]byte{[]byte("z")})
			_, err := kvs.ZAdd(tx, []byte("z"), pairs, kvs.ZAddOptions{})
			tx.End()
			if err == nil {
				return v.Wait(ctx, tx.Seen(), level)
			}
			if !errors.Is(err, volume.ErrBusy) {
				return err
			}
			applied, _, _ := v.Watermarks()
			if err := v.Wait(ctx, applied, volume.LevelFresh); err != nil {
				return err
			}
		}
	}
	before, stored := heap(), uint64(dev.Counters().BytesWritten)
	start := time.Now()
	for i := 0; i < o.Members; i += 500 {
		if err := zadd(i, min(500, o.Members-i), volume.LevelFresh); err != nil {
			return err
		}
	}
	loaded := time.Since(start)
	taken := int64(heap()-before) - int64(uint64(dev.Counters().BytesWritten)-stored) - int64(o.Members*zsetMember)
	fmt.Fprintf(o.Out, "%d members of %d bytes: %.1f bytes a member beyond the member; loaded in %.1f s\n",
		o.Members, zsetMember, float64(taken)/float64(o.Members), loaded.Seconds())
	record(o.Out, Figure{
		Experiment: "zset", Name: fmt.Sprintf("beyond the member, %d members", o.Members), Unit: "B a member", Value: float64(taken) / float64(o.Members),
		Goal: 150, AtMost: true,
	})
	const more = 20_000
	times := make([]time.Duration, more)
	written := dev.Counters().BytesWritten
	for i := range times {
		t := time.Now()
		if err := zadd(o.Members+i, 1, volume.LevelFresh); err != nil {
			return err
		}
		times[i] = time.Since(t)
	}
	written = dev.Counters().BytesWritten - written
	slices.Sort(times)
	fmt.Fprintf(o.Out, "ZADD of one member: p50 %.1f us, p99 %.1f us, %d bytes written each\n",
		float64(times[more/2].Nanoseconds())/1000, float64(times[more*99/100].Nanoseconds())/1000, int64(written)/more)
	if err := v.Close(ctx); err != nil {
		return err
	}
	start = time.Now()
	if v, err = open(); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "restart: %.2f s\n", time.Since(start).Seconds())
	return v.Close(ctx)
}
