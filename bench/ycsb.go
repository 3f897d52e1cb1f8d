package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What YCSB's Redis binding sends, from a generator of our own: a record is a hash of ten fields of 100 bytes, written with
// HMSET, and its key a member of the sorted set _indices, whose score is the key's Java hash code. Every value says which key
// and field it was made for, so everything that is read is checked.

// YCSBOptions say what to run.
type YCSBOptions struct {
	Dir       string        // as RedisOptions
	Server    string        // as RedisOptions
	Records   int           // default 1,000,000
	Clients   int           // default 50
	Workloads string        // letters; default "ABCDEF"
	Rounds    int           // default 5
	Slice     time.Duration // default 2 s
	Out       io.Writer
}

// ycsbWorkload is the mix of one of YCSB's core workloads, in percent.
type ycsbWorkload struct {
	read, update, insert, scan, rmw int
	latest                          bool
}

var ycsbWorkloads = map[byte]ycsbWorkload{
	'A': {read: 50, update: 50},
	'B': {read: 95, update: 5},
	'C': {read: 100},
	'D': {read: 95, insert: 5, latest: true},
	'E': {scan: 95, insert: 5},
	'F': {read: 50, rmw: 50},
}

const (
	ycsbFields     = 10
	ycsbFieldBytes = 100
	ycsbScanMax    = 100
	ycsbIndex      = "_indices"
)

// YCSB loads both servers and runs the workloads, interleaved, and prints a table.
func YCSB(ctx context.Context, o YCSBOptions) error {
	o.Records, o.Clients, o.Rounds = orDefault(o.Records, 1_000_000), orDefault(o.Clients, 50), orDefault(o.Rounds, 5)
	if o.Workloads == "" {
		o.Workloads = "ABCDEF"
	}
	if o.Slice == 0 {
		o.Slice = 2 * time.Second
	}
	if o.Dir == "" {
		dir, err := os.MkdirTemp(".", "cvmstore-bench-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.Dir = dir
	}
	p, err := startPair(ctx, RedisOptions{Dir: o.Dir, Server: o.Server}, "always")
	defer p.stop()
	if err != nil {
		return err
	}
	var sides [2]*ycsb
	for i, s := range []*server{p.ours, p.theirs} {
		if sides[i], err = newYCSB(s, o.Clients); err != nil {
			return err
		}
		defer sides[i].close()
	}
	fmt.Fprintf(o.Out, "YCSB: %d records of %d x %d bytes, %d clients; both sides wait for the disk; interleaved; medians, [smallest to largest ratio]\n\n",
		o.Records, ycsbFields, ycsbFieldBytes, o.Clients)
	fmt.Fprintf(o.Out, "%-10s %10s %10s %7s %-16s %9s %9s %12s\n", "", "ours/s", "redis/s", "ratio", "", "p99 ms", "redis p99", "values read")
	if err := o.load(ctx, sides); err != nil {
		return err
	}
	for i := range o.Workloads {
		w, ok := ycsbWorkloads[o.Workloads[i]]
		if !ok {
			return fmt.Errorf("workload %q: A to F", o.Workloads[i])
		}
		if err := o.run(ctx, sides, o.Workloads[i:i+1], w); err != nil {
			return err
		}
	}
	return nil
}

// load inserts the records in parts, one side after the other.
func (o *YCSBOptions) load(ctx context.Context, sides [2]*ycsb) error {
	const parts = 10
	var got [2][]sample
	for part := range parts {
		n := (part+1)*o.Records/parts - part*o.Records/parts
		for k := range sides {
			i := (k + part) % 2
			x, err := sides[i].insertMany(ctx, n)
			if err != nil {
				return fmt.Errorf("load of %s: %w", sides[i].server.name, err)
			}
			got[i] = append(got[i], x)
		}
	}
	o.row("load", got, sides)
	return nil
}

func (o *YCSBOptions) run(ctx context.Context, sides [2]*ycsb, name string, w ycsbWorkload) error {
	var got [2][]sample
	for round := range o.Rounds {
		for k := range sides {
			i := (k + round) % 2
			x, err := sides[i].mix(ctx, w, o.Slice)
			if err != nil {
				return fmt.Errorf("workload %s on %s: %w", name, sides[i].server.name, err)
			}
			got[i] = append(got[i], x)
		}
	}
	o.row(name, got, sides)
	return nil
}

func (o *YCSBOptions) row(name string, got [2][]sample, sides [2]*ycsb) {
	var ratios []float64
	for i := range got[0] {
		ratios = append(ratios, got[0][i].rate/got[1][i].rate)
	}
	rate := func(x sample) float64 { return x.rate }
	p99 := func(x sample) float64 { return x.p99 }
	fmt.Fprintf(o.Out, "%-10s %10.0f %10.0f %7.2f %-16s %9.2f %9.2f %12d\n", name, median(got[0], rate), median(got[1], rate), medianOf(ratios),
		fmt.Sprintf("[%.2f to %.2f]", slices.Min(ratios), slices.Max(ratios)), median(got[0], p99), median(got[1], p99), sides[0].checked.Swap(0))
	sides[1].checked.Store(0)
	record(o.Out, Figure{
		Experiment: "ycsb", Name: "YCSB " + name, Unit: "x", Against: "redis-server appendfsync always", Samples: ratios,
		Rate: []float64{median(got[0], rate), median(got[1], rate)}, RateUnit: "operations/s", Goal: 1.0,
	})
}

// ycsb is one side: its connections, and how many records it has.
type ycsb struct {
	server  *server
	conns   []*ycsbConn
	records atomic.Int64 // inserted; their keys are known
	claimed atomic.Int64 // being inserted
	checked atomic.Int64 // values read and found right
}

func newYCSB(s *server, clients int) (*ycsb, error) {
	y := &ycsb{server: s}
	for range clients {
		c, err := dialYCSB(s.port)
		if err != nil {
			y.close()
			return nil, err
		}
		y.conns = append(y.conns, c)
	}
	return y, nil
}

func (y *ycsb) close() {
	for _, c := range y.conns {
		_ = c.conn.Close()
	}
}

// each runs f on every connection at once until it returns false, and returns the rate of calls and the slow ones' time.
func (y *ycsb) each(ctx context.Context, f func(c *ycsbConn, rng *rand.Rand) (more bool, err error)) (sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loadTimeout, fmt.Errorf("no end after %v", loadTimeout))
	defer cancel()
	var all sync.WaitGroup
	errs, times := make([]error, len(y.conns)), make([][]time.Duration, len(y.conns))
	start := time.Now()
	for i, c := range y.conns {
		_ = c.conn.SetDeadline(start.Add(loadTimeout))
		all.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))
			for ctx.Err() == nil {
				t := time.Now()
				more, err := f(c, rng)
				if err != nil {
					errs[i] = err
					cancel()
				}
				if err != nil || !more {
					return
				}
				times[i] = append(times[i], time.Since(t))
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	for _, err := range errs {
		if err != nil {
			return sample{}, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return sample{}, err
	}
	joined := slices.Concat(times...)
	if len(joined) == 0 {
		return sample{}, fmt.Errorf("nothing was done")
	}
	slices.Sort(joined)
	return sample{rate: float64(len(joined)) / took.Seconds(), p99: float64(joined[len(joined)*99/100]) / float64(time.Millisecond)}, nil
}

func (y *ycsb) insertMany(ctx context.Context, n int) (sample, error) {
	left := atomic.Int64{}
	left.Store(int64(n))
	return y.each(ctx, func(c *ycsbConn, rng *rand.Rand) (bool, error) {
		if left.Add(-1) < 0 {
			return false, nil
		}
		return true, y.insert(c, rng)
	})
}

func (y *ycsb) insert(c *ycsbConn, rng *rand.Rand) error {
	key := ycsbKey(y.claimed.Add(1) - 1)
	if err := c.setFields(key, 0, ycsbFields, rng); err != nil {
		return err
	}
	if err := c.index(key); err != nil {
		return err
	}
	y.records.Add(1)
	return nil
}

// mix runs a workload for a time.
func (y *ycsb) mix(ctx context.Context, w ycsbWorkload, slice time.Duration) (sample, error) {
	z := newZipf(y.records.Load())
	end := time.Now().Add(slice)
	return y.each(ctx, func(c *ycsbConn, rng *rand.Rand) (bool, error) {
		if time.Now().After(end) {
			return false, nil
		}
		key := ycsbKey(y.pick(z, w, rng))
		switch n := rng.IntN(100); {
		case n < w.read:
			return true, y.read(c, key)
		case n < w.read+w.update:
			return true, c.setFields(key, rng.IntN(ycsbFields), 1, rng)
		case n < w.read+w.update+w.insert:
			return true, y.insert(c, rng)
		case n < w.read+w.update+w.insert+w.scan:
			return true, y.scan(c, key, 1+rng.IntN(ycsbScanMax))
		default:
			if err := y.read(c, key); err != nil {
				return false, err
			}
			return true, c.setFields(key, rng.IntN(ycsbFields), 1, rng)
		}
	})
}

// pick chooses a record: the popular ones are spread over all, or are the latest.
func (y *ycsb) pick(z *zipf, w ycsbWorkload, rng *rand.Rand) int64 {
	n := y.records.Load() - int64(len(y.conns)) // the newest may still be on their way
	n = max(n, 1)
	if w.latest {
		return max(n-1-z.next(rng), 0)
	}
	return int64(fnv64(uint64(z.next(rng))) % uint64(n))
}

func (y *ycsb) read(c *ycsbConn, key string) error {
	n, err := c.readRecord(key)
	y.checked.Add(int64(n))
	return err
}

// scan reads a range of records by the index, which must be in the order of their scores.
func (y *ycsb) scan(c *ycsbConn, from string, n int) error {
	keys, err := c.scanIndex(from, n)
	if err != nil {
		return err
	}
	last := javaHash(from)
	for _, key := range keys {
		h := javaHash(key)
		if h < last {
			return fmt.Errorf("scan from %s: %s is out of order", from, key)
		}
		last = h
		if err := y.read(c, key); err != nil {
			return err
		}
	}
	return nil
}

// ycsbKey is the key of a record, as YCSB makes it: the number is hashed, so that keys have no order.
func ycsbKey(n int64) string { return fmt.Sprintf("user%d", fnv64(uint64(n))&math.MaxInt64) }

// fnv64 is YCSB's hash of numbers.
func fnv64(v uint64) uint64 {
	h := uint64(0xCBF29CE484222325)
	for range 8 {
		h ^= v & 0xff
		h *= 1099511628211
		v >>= 8
	}
	return h
}

// javaHash is java.lang.String.hashCode.
func javaHash(s string) (h int32) {
	for i := range len(s) {
		h = 31*h + int32(s[i])
	}
	return h
}

// javaDouble writes a number as java.lang.Double.toString does.
func javaDouble(n int32) string {
	if n > -10_000_000 && n < 10_000_000 {
		return fmt.Sprintf("%d.0", n)
	}
	m, e, _ := strings.Cut(fmt.Sprintf("%.9E", float64(n)), "E")
	m = strings.TrimRight(m, "0")
	if strings.HasSuffix(m, ".") {
		m += "0"
	}
	return m + "E" + strings.TrimLeft(e, "+0")
}

// zipf chooses numbers below n, the small ones more often, with the constant 0.99, by Gray's method as YCSB does.
type zipf struct {
	n                       int64
	zetan, alpha, eta, half float64
}

const zipfTheta = 0.99

func newZipf(n int64) *zipf {
	z := &zipf{n: n, alpha: 1 / (1 - zipfTheta)}
	for i := range n {
		z.zetan += math.Pow(float64(i+1), -zipfTheta)
	}
	z.half = 1 + math.Pow(0.5, zipfTheta)
	z.eta = (1 - math.Pow(2/float64(n), 1-zipfTheta)) / (1 - z.half/z.zetan)
	return z
}

func (z *zipf) next(rng *rand.Rand) int64 {
	u := rng.Float64()
	switch uz := u * z.zetan; {
	case uz < 1:
		return 0
	case uz < z.half:
		return 1
	}
	return min(int64(float64(z.n)*math.Pow(z.eta*u-z.eta+1, z.alpha)), z.n-1)
}
