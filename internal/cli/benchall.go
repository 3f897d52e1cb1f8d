package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cvmstore/bench"
	"cvmstore/bench/report"
)

type benchAll struct {
	Quick bool     `help:"Small sizes and short slices: a quarter of an hour."`
	Only  []string `help:"Only these experiments." placeholder:"NAME"`
	Out   string   `default:"bench-report" help:"Directory of the report." placeholder:"DIR"`
	Dir   string   `help:"Where the data of all sides lie; default: temporary directories here." placeholder:"DIR"`
}

// Run runs the experiments and writes the report. An experiment that could not run is an error at the end.
func (b *benchAll) Run(s *streams) error {
	experiments := b.experiments()
	for _, name := range b.Only {
		if !slices.ContainsFunc(experiments, func(e report.Experiment) bool { return e.Name == name }) {
			return fmt.Errorf("no experiment %q", name)
		}
	}
	if len(b.Only) > 0 {
		experiments = slices.DeleteFunc(experiments, func(e report.Experiment) bool { return !slices.Contains(b.Only, e.Name) })
	}
	where := b.Dir
	if where == "" {
		where = "."
	}
	r := report.Run(context.Background(), experiments, report.Here(Version, where), b.Quick, s.out)
	if err := r.Write(b.Out); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n%s: %v, %d figures with a goal; %s\n", r.Kind(), r.Took.Round(time.Second), len(r.Goals()), filepath.Join(b.Out, "report.html"))
	if failed := r.Failed(); len(failed) > 0 {
		return fmt.Errorf("could not run: %s", strings.Join(failed, ", "))
	}
	return nil
}

// pick returns the first of two values in a quick run.
func pick[T any](b *benchAll, quick, full T) T {
	if b.Quick {
		return quick
	}
	return full
}

func (b *benchAll) experiments() []report.Experiment {
	return []report.Experiment{
		{Name: "crypto", About: "The cipher beside AES-256-GCM and memcpy.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.Crypto(ctx, bench.CryptoOptions{Out: out})
		}},
		{Name: "io", About: "The sealed I/O path beside a modelled drive and, on a file, beside itself without protection.", Run: func(_ context.Context, out io.Writer) error {
			return bench.CompareIO(bench.IOOptions{
				Dir: b.Dir, Only: []string{"modelled", "file", "amplification"}, Rounds: pick(b, 7, 15), Slices: pick(b, 16, 64),
				SizesMiB: pick(b, []int{1, 16, 256}, []int{1, 16, 256, 1024}), Out: out,
			})
		}},
		{Name: "ablation", About: "What each part of the I/O path is worth: parts taken away, or done as a disk layer does them.", Run: func(_ context.Context, out io.Writer) error {
			return bench.CompareIO(bench.IOOptions{Dir: b.Dir, Only: []string{"ablations"}, Rounds: pick(b, 7, 15), SizesMiB: []int{64}, Out: out})
		}},
		{Name: "kvs", About: "SET and GET of 1 KiB beside redis-server.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.CompareRedis(ctx, bench.RedisOptions{Dir: b.Dir, Rounds: pick(b, 5, 9), Slice: pick(b, time.Second, 2*time.Second), Out: out})
		}},
		{Name: "protected", About: "SETs beside redis-server on gocryptfs, which one would use instead.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.CompareRedis(ctx, bench.RedisOptions{
				Dir: b.Dir, Rounds: pick(b, 5, 9), Slice: pick(b, time.Second, 2*time.Second), Only: pick(b, "SET 50", "SET"), Sealed: true, Out: out,
			})
		}},
		{Name: "large", About: "Large values over RESP beside redis-server, and what they take of memory.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.CompareLarge(ctx, bench.LargeOptions{
				Dir: b.Dir, Only: pick(b, []string{"ratio"}, nil), Rounds: pick(b, 5, 9), ValueMiB: 64, BigMiB: 512, Clients: 10, Out: out,
			})
		}},
		{Name: "ycsb", About: "YCSB's traffic (hashes and one large sorted set) beside redis-server.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.YCSB(ctx, bench.YCSBOptions{
				Dir: b.Dir, Records: pick(b, 50_000, 1_000_000), Clients: 50, Workloads: "ABCDEF", Rounds: pick(b, 3, 7), Slice: pick(b, time.Second, 2*time.Second), Out: out,
			})
		}},
		{Name: "epochs", About: "What freshness costs beside durability alone (the paper's Figure 11).", Run: func(ctx context.Context, out io.Writer) error {
			return bench.Freshness(ctx, bench.FreshnessOptions{
				RoundTrip: 5 * time.Millisecond, Slice: pick(b, 200*time.Millisecond, 500*time.Millisecond), Rounds: pick(b, 3, 9), Clients: 64, Out: out,
			})
		}},
		{Name: "counter", About: "Commits a second of the trusted counter service.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.Counter(ctx, bench.CounterOptions{Stores: 16, Time: pick(b, 3*time.Second, 10*time.Second), Dir: b.Dir}, out)
		}},
		{Name: "memory", About: "Memory a key.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.Memory(ctx, bench.MemoryOptions{Keys: pick(b, 300_000, 1_000_000), Out: out})
		}},
		{Name: "scale", About: "Restart as the number of keys grows.", Run: func(ctx context.Context, out io.Writer) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return bench.Scale(ctx, bench.ScaleOptions{
				Keys: pick(b, []int{300_000, 1_000_000}, []int{1_000_000, 3_000_000, 10_000_000}), Value: 100, Dir: b.Dir, Self: self, Out: out,
			})
		}},
		{Name: "space", About: "Overwriting a nearly full volume.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.Compact(ctx, bench.CompactOptions{
				Bytes: pick(b, int64(256<<20), int64(2<<30)), Segment: pick(b, int64(1<<20), int64(4<<20)), Times: pick(b, 4.0, 20.0), Dir: b.Dir, Out: out,
			})
		}},
		{Name: "abuse", About: "What well-behaved clients notice of others that are not.", Run: func(ctx context.Context, out io.Writer) error {
			return bench.Abuse(ctx, bench.AbuseOptions{Dir: b.Dir, Idle: pick(b, 2000, 10_000), Rounds: pick(b, 3, 5), Slice: time.Second, Out: out})
		}},
	}
}

type benchCompare struct {
	First  string `arg:"" help:"report.json, or the directory that it is in."`
	Second string `arg:"" help:"The same of another run."`
}

// Run prints both.
func (b *benchCompare) Run(s *streams) error {
	var r [2]*report.Report
	for i, path := range []string{b.First, b.Second} {
		var err error
		if r[i], err = report.Read(path); err != nil {
			return err
		}
	}
	if n := report.Compare(r[0], r[1], s.out); n > 0 {
		fmt.Fprintf(s.out, "\n%d ratios are more than 10 %% apart.\n", n)
	}
	return nil
}

type benchCrypto struct {
	Rounds int           `default:"15" help:"Rounds; each runs all sides, one after the other."`
	Slice  time.Duration `default:"20ms" help:"How long one side runs at a time."`
}

// Run prints the table.
func (b *benchCrypto) Run(s *streams) error {
	return bench.Crypto(context.Background(), bench.CryptoOptions{Rounds: b.Rounds, Slice: b.Slice, Out: s.out})
}
