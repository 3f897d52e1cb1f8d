package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// besideSlice is how long each row of largeLatency measures.
const besideSlice = 5 * time.Second

// largeLatency measures small SETs of one client while others move large values.
func largeLatency(ctx context.Context, o LargeOptions) error {
	s, err := startOurs(ctx, o)
	if s != nil {
		defer s.stop()
	}
	if err != nil {
		return err
	}
	small, err := dialLarge(s)
	if err != nil {
		return err
	}
	defer func() { _ = small.conn.Close() }()
	const transfersMax = 8
	for range 2 { // lays out the space, once and for what replaces it
		for i := range transfersMax {
			if err := small.set(fmt.Sprint("large", i), o.ValueMiB<<20); err != nil {
				return err
			}
		}
	}
	alone, err := smallSets(small, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "SET of 1 KiB, 1 client: %s\n", alone)
	for _, clients := range []int{1, transfersMax} {
		for _, what := range []string{"SET", "GET"} {
			beside, rate, err := besideLarge(o, s, small, clients, what == "GET")
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "  beside %d clients that %s values of %d MiB (%.0f MB/s): %s\n", clients, what, o.ValueMiB, rate, beside)
		}
	}
	return nil
}

// latencies are those of small SETs.
type latencies struct {
	p50, p99 time.Duration
	n        int
}

func (l latencies) String() string {
	return fmt.Sprintf("p50 %v p99 %v (%d)", l.p50.Round(time.Microsecond), l.p99.Round(time.Microsecond), l.n)
}

// smallSets measures for a slice, or until failed says that there is no point in going on.
func smallSets(c *largeClient, failed func() bool) (latencies, error) {
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < besideSlice && (failed == nil || !failed()); {
		start := time.Now()
		if err := c.set(fmt.Sprint("small", len(took)%1000), 1024); err != nil {
			return latencies{}, err
		}
		took = append(took, time.Since(start))
	}
	if len(took) == 0 {
		return latencies{}, errors.New("nothing was measured")
	}
	slices.Sort(took)
	return latencies{took[len(took)/2], took[len(took)*99/100], len(took)}, nil
}

// besideLarge measures small SETs while clients move large values, and at what rate those do, in MB/s.
func besideLarge(o LargeOptions, s *server, small *largeClient, clients int, get bool) (latencies, float64, error) {
	var stop atomic.Bool
	var moved atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, clients)
	start := time.Now()
	for i := range clients {
		all.Go(func() {
			c, err := dialLarge(s)
			if err == nil {
				defer func() { _ = c.conn.Close() }()
			}
			for err == nil && !stop.Load() {
				key := fmt.Sprint("large", i)
				if get {
					err = c.get(key, o.ValueMiB<<20)
				} else {
					err = c.set(key, o.ValueMiB<<20)
				}
				moved.Add(int64(o.ValueMiB) << 20)
			}
			if errs[i] = err; err != nil {
				stop.Store(true)
			}
		})
	}
	got, err := smallSets(small, stop.Load)
	stop.Store(true)
	all.Wait()
	took := time.Since(start)
	return got, float64(moved.Load()) / 1e6 / took.Seconds(), errors.Join(append(errs, err)...)
}
