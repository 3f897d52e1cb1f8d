package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// FreshnessOptions say how Freshness measures.
type FreshnessOptions struct {
	RoundTrip time.Duration // of the modelled counter service; default 5 ms
	Slice     time.Duration // how long one side runs at a time; default 300 ms
	Rounds    int           // default 5
	Clients   int           // each waits for its reply before it sends the next; default 64
	Plot      string        // SVG file; empty: none
	Out       io.Writer
}

// The epochs of the paper's Figure 11.
var freshnessEpochs = []int{1, 3, 9, 27, 81, 281}

// Freshness is the paper's Figure 11: what commits to a trusted counter cost at level durable, by the epochs' length, against the
// same store whose counter answers at once and is hardly asked. Both sides run in this process, in turns, on a modelled drive (a file's
// growth and the other users of a disk would be larger than what is measured); the service's round trip is a delay. Then the throughput of level fresh by the number of clients.
func Freshness(ctx context.Context, o FreshnessOptions) error {
	o.RoundTrip, o.Slice = orDuration(o.RoundTrip, 5*time.Millisecond), orDuration(o.Slice, 300*time.Millisecond)
	o.Rounds, o.Clients = orDefault(o.Rounds, 5), orDefault(o.Clients, 64)
	fmt.Fprintf(o.Out, "durable, SET of 1 KiB, %d clients, a modelled drive; counter's round trip %v; overhead against durability alone\n", o.Clients, o.RoundTrip)
	fmt.Fprintf(o.Out, "%8s %14s %14s %14s\n", "epoch", "non-blocking", "blocking", "predicted (W/(W+D+RTT), blocking)")
	var rows []freshnessRow
	for _, ms := range freshnessEpochs {
		row := freshnessRow{epoch: ms}
		for _, blocking := range []bool{false, true} {
			over, flush, err := o.overhead(ctx, time.Duration(ms)*time.Millisecond, blocking)
			if err != nil {
				return err
			}
			if blocking {
				row.blocking = over
				w := time.Duration(ms) * time.Millisecond
				row.predicted = 1 - float64(w)/float64(w+flush+o.RoundTrip)
			} else {
				row.nonBlocking = over
			}
		}
		rows = append(rows, row)
		fmt.Fprintf(o.Out, "%5d ms %13.1f%% %13.1f%% %13.1f%%\n", ms, 100*row.nonBlocking, 100*row.blocking, 100*row.predicted)
		for name, v := range map[string]float64{"non-blocking": row.nonBlocking, "blocking": row.blocking} {
			f := Figure{
				Experiment: "epochs", Name: fmt.Sprintf("cost of freshness, %s epochs of %d ms", name, ms), Unit: "%", Against: "durability alone",
				Value: 100 * v, AtMost: true, Paper: "0.6 to 7.8 %",
			}
			switch {
			case name == "blocking":
			case ms == 1:
				f.Goal = 8
			case ms >= 100:
				f.Goal = 2.5
			}
			record(o.Out, f)
		}
	}
	for _, clients := range []int{1, 4, 16, 64, 256} {
		s, err := o.store(ctx, o.RoundTrip, 10*time.Millisecond, false)
		if err != nil {
			return err
		}
		rate, err := s.run(clients, volume.LevelFresh, 4*o.Slice)
		if err := errors.Join(err, s.close(ctx)); err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "fresh, %3d clients: %7.0f a second, %.2f ms each\n", clients, rate, 1000*float64(clients)/rate)
	}
	if o.Plot != "" {
		return os.WriteFile(o.Plot, freshnessPlot(rows, o.RoundTrip), 0o644)
	}
	return nil
}

func orDuration(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

type freshnessRow struct {
	epoch                            int // ms
	nonBlocking, blocking, predicted float64
}

// overhead runs both sides in turns and returns the median of the rounds, and the baseline's mean latency: D of the prediction.
func (o *FreshnessOptions) overhead(ctx context.Context, length time.Duration, blocking bool) (over float64, flush time.Duration, err error) {
	alone, err := o.store(ctx, 0, time.Second, false)
	if err != nil {
		return 0, 0, err
	}
	fresh, err := o.store(ctx, o.RoundTrip, length, blocking)
	if err != nil {
		return 0, 0, errors.Join(err, alone.close(ctx))
	}
	defer func() { err = errors.Join(err, alone.close(ctx), fresh.close(ctx)) }()
	// A slice holds some epochs at least.
	slice := max(o.Slice, 3*length)
	var ratios, rates []float64
	for round := range o.Rounds + 1 {
		sides := []*freshStore{alone, fresh}
		var got [2]float64
		for i := range sides {
			i ^= round & 1
			if got[i], err = sides[i].run(o.Clients, volume.LevelDurable, slice); err != nil {
				return 0, 0, err
			}
		}
		if round > 0 { // the first one lays out files
			ratios, rates = append(ratios, got[1]/got[0]), append(rates, got[0])
		}
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	flush = time.Duration(float64(o.Clients) / rates[len(rates)/2] * float64(time.Second))
	return 1 - ratios[len(ratios)/2], flush, nil
}

// slowCounter answers after a round trip.
type slowCounter struct {
	*epochtest.Memory
	trip time.Duration
}

func (c *slowCounter) Commit(req epoch.CommitRequest, done func(epoch.Stamp, error)) {
	if c.trip == 0 || req.Opening {
		c.Memory.Commit(req, done)
		return
	}
	time.AfterFunc(c.trip, func() { c.Memory.Commit(req, done) })
}

// freshStore is a store in this process, driven by one goroutine as the server's loop does.
type freshStore struct {
	dev   device.Device
	v     *volume.Volume
	space *keyspace.Space
	n     int
}

// freshBlocks is the size of a modelled drive: room for some seconds of writing.
const freshBlocks = 1 << 18

func (o *FreshnessOptions) store(ctx context.Context, trip, length time.Duration, blocking bool) (*freshStore, error) {
	dev, err := memdev.NewPaced(memdev.PacedOptions{Blocks: freshBlocks, BlocksMax: freshBlocks})
	if err != nil {
		return nil, err
	}
	s := &freshStore{dev: dev, space: keyspace.New(keyspace.Options{})}
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	counter := &slowCounter{epochtest.NewMemory(epochtest.Options{}), trip}
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	s.v, err = volume.Open(ctx, volume.Options{
		Device: dev, Counter: counter, Keys: keys, Log: zerolog.Nop(), EpochLength: length, Blocking: blocking,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: s.space},
	})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	s.space.Attach(s.v)
	return s, nil
}

func (s *freshStore) close(ctx context.Context) error {
	return errors.Join(s.v.Close(ctx), s.dev.Close())
}

// run has so many clients send SETs for a time, each after its last reply, and returns replies a second.
func (s *freshStore) run(clients int, level volume.Level, d time.Duration) (float64, error) {
	waiting := make([]volume.Counter, clients) // what each client's reply waits for; 0: it may send
	tx, value := new(keyspace.Tx), make([]byte, 1024)
	replies := 0
	start := time.Now()
	for time.Since(start) < d {
		moved := false
		for i, c := range waiting {
			if c != 0 && s.v.Reached(c, level) {
				replies++
				c = 0
			}
			if c == 0 {
				key := fmt.Appendf(nil, "key:%d", s.n%20000)
				s.space.Begin(tx, 0, [][]byte{key})
				_, err := kvs.Set(tx, key, value, kvs.SetOptions{})
				tx.End()
				if err == nil {
					c = tx.Seen()
					s.n++
					moved = true
				} else if !errors.Is(err, volume.ErrBusy) {
					return 0, err
				}
			}
			if waiting[i] = c; c != 0 {
				s.v.Want(c, level)
			}
		}
		if !s.v.Step() && !moved {
			time.Sleep(20 * time.Microsecond)
		}
	}
	return float64(replies) / time.Since(start).Seconds(), s.v.Err()
}
