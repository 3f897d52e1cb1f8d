package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// CompactOptions say how large the volume is and how often it is overwritten.
type CompactOptions struct {
	Bytes   int64   // of the volume; default 2 GiB
	Segment int64   // bytes; default 4 MiB
	Times   float64 // how many times the volume's size is overwritten; default 20
	Only    string  // a row: "zipfian 70%" or "uniform 90%"; default both
	Dir     string  // default: a temporary directory here
	Out     io.Writer
}

const (
	compactKeyBytes   = 16
	compactValueBytes = 1024
	// compactRecord is what such a record takes in the journal (docs/FORMAT.md), summaries and padding not counted.
	compactRecord  = 32 + 16 + compactKeyBytes + compactValueBytes
	compactClients = 8
)

// compactRow is one load.
type compactRow struct {
	name  string
	theta float64 // 0: uniform
	fill  float64
	goal  float64
}

var compactRows = []compactRow{{"zipfian 70%", 0.99, 0.7, 2.2}, {"uniform 90%", 0, 0.9, 6}}

// Compact overwrites a volume in a steady state, and prints the write amplification beside that of a simulation of the same log
// cleaning, and the latency of a SET while compaction works and while it rests.
func Compact(ctx context.Context, o CompactOptions) error {
	if o.Bytes == 0 {
		o.Bytes = 2 << 30
	}
	if o.Segment == 0 {
		o.Segment = 4 << 20
	}
	if o.Times == 0 {
		o.Times = 20
	}
	fmt.Fprintf(o.Out, "volume of %d MiB, segments of %d MiB, values of 1 KiB, overwritten %.1f times; amplification: bytes written to the device by bytes of\n"+
		"clients' records, over the second half; reference: the same log cleaning, simulated, without summaries, manifests and padding\n",
		o.Bytes>>20, o.Segment>>20, o.Times)
	for _, row := range compactRows {
		if o.Only != "" && o.Only != row.name {
			continue
		}
		if err := compactOne(ctx, &o, row); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return nil
}

func compactOne(ctx context.Context, o *CompactOptions, row compactRow) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "cvmstore-compact-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := makeStore(ctx, dir); err != nil {
		return err
	}
	s, err := openStoreSized(ctx, dir, -1, device.BlockCount(o.Bytes/device.BlockSize), device.BlockCount(o.Segment/device.BlockSize))
	if err != nil {
		return err
	}
	background, stop := context.WithCancel(ctx)
	var maintainer sync.WaitGroup
	maintainer.Go(func() { s.v.Maintain(background) })
	defer func() {
		stop()
		maintainer.Wait()
		err = errors.Join(err, s.close(ctx))
	}()
	n := int(row.fill * float64(o.Bytes) / compactRecord)
	c := &compactLoad{s: s, rng: rand.New(rand.NewPCG(1, 2)), value: make([]byte, compactValueBytes)}
	if err := c.fill(ctx, n); err != nil {
		return err
	}
	c.choose = newChooser(c.rng, n, row.theta)
	began := time.Now()
	writes := int(o.Times * float64(o.Bytes) / compactRecord)
	if err := c.overwrite(ctx, writes/2); err != nil {
		return err
	}
	half := s.v.Status()
	if err := c.overwrite(ctx, writes-writes/2); err != nil {
		return err
	}
	end := s.v.Status()
	took := time.Since(began).Seconds()
	clients := float64(end.BytesAppended-half.BytesAppended) - float64(end.BytesMoved-half.BytesMoved)
	per := int(o.Segment) / compactRecord
	reference := simulateCleaning(newChooser(rand.New(rand.NewPCG(3, 4)), n, row.theta), int(o.Bytes/o.Segment), per, min(writes, 8*n))
	fmt.Fprintf(o.Out, "%-12s %d keys, %.1f GiB overwritten at %.0f MB/s: amplification %.2f (goal %.1f), reference %.2f; %d segments cleaned\n",
		row.name, n, float64(writes)*compactRecord/(1<<30), float64(writes)*compactRecord/1e6/took,
		float64(end.BytesWritten-half.BytesWritten)/clients, row.goal, reference, end.SegmentsCleaned)
	record(o.Out, Figure{
		Experiment: "space", Name: "write amplification, " + row.name + " full", Unit: "x", Against: "bytes that clients write",
		Value: float64(end.BytesWritten-half.BytesWritten) / clients, Goal: row.goal, AtMost: true, Paper: fmt.Sprintf("simulated: %.2f", reference),
	})
	return c.latencies(ctx, o.Out, row)
}

// compactLoad writes to a store.
type compactLoad struct {
	s      *store
	rng    *rand.Rand
	choose *chooser
	value  []byte
	t      keyspace.Tx
}

func (c *compactLoad) fill(ctx context.Context, n int) error {
	i := 0
	return c.batches(ctx, n, func() int { i++; return i - 1 })
}

func (c *compactLoad) overwrite(ctx context.Context, n int) error {
	return c.batches(ctx, n, c.choose.next)
}

// batches sets n keys, a few in each transaction.
func (c *compactLoad) batches(ctx context.Context, n int, next func() int) error {
	const size = 16
	names, pairs := make([][]byte, size), make([][]byte, 2*size)
	for i := range names {
		names[i] = make([]byte, compactKeyBytes)
		pairs[2*i], pairs[2*i+1] = names[i], c.value
	}
	for n > 0 {
		m := min(size, n)
		for _, name := range names[:m] {
			scaleKey(name, next())
		}
		if err := c.s.setMany(ctx, &c.t, names[:m], pairs[:2*m]); err != nil {
			return err
		}
		n -= m
	}
	applied, _, _ := c.s.v.Watermarks()
	return c.s.v.Wait(ctx, applied, volume.LevelFresh)
}

// latencies measures single fresh SETs of several clients, each at a pace of its own, and sorts them by whether compaction was at work.
func (c *compactLoad) latencies(ctx context.Context, out io.Writer, row compactRow) error {
	const (
		pause = 4 * time.Millisecond
		total = 20 * time.Second
	)
	db := kvs.NewStore(c.s.v, c.s.space, 0)
	var mu sync.Mutex
	var resting, working []time.Duration
	var clients sync.WaitGroup
	var failed error
	for i := range compactClients {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		clients.Go(func() {
			key := make([]byte, compactKeyBytes)
			for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(pause) {
				scaleKey(key, rng.IntN(c.choose.n))
				before := c.s.v.Compacting()
				began := time.Now()
				err := db.Set(ctx, key, c.value, volume.LevelFresh)
				took := time.Since(began)
				mu.Lock()
				switch {
				case err != nil:
					failed = err
				case before || c.s.v.Compacting():
					working = append(working, took)
				default:
					resting = append(resting, took)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	if failed != nil {
		return failed
	}
	a, b := quantile(resting, 0.99), quantile(working, 0.99)
	fmt.Fprintf(out, "%-12s SET of %d clients: p99 %.2f ms while compaction rests (%d), %.2f ms while it works (%d): %.1f times\n", row.name,
		compactClients, a.Seconds()*1000, len(resting), b.Seconds()*1000, len(working), b.Seconds()/a.Seconds())
	record(out, Figure{
		Experiment: "space", Name: "SET p99 while compaction works, " + row.name + " full", Unit: "x", Against: "while it rests",
		Value: b.Seconds() / a.Seconds(), Goal: 3, AtMost: true,
	})
	return nil
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}
