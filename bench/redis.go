package bench

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RedisOptions say how to compare with redis-server.
type RedisOptions struct {
	Dir    string        // for the data of both; the same file system. Default: a temporary directory in the current one
	Server string        // our program; default: the one that runs
	Rounds int           // default 7
	Slice  time.Duration // how long one side runs at a time; default 2 s
	Only   string        // run only workloads whose name contains this
	Load   string        // "own" (default) or "redis-benchmark"
	Sealed bool          // redis-server's data lie on gocryptfs: what one would use instead
	TLS    bool          // clients of both sides come in over TLS; redis-benchmark sends
	Out    io.Writer

	certs *certificates
	below string // where redis-server's data lie; default: Dir
}

// workload is one row of the comparison.
type workload struct {
	name        string
	command     string // of redis-benchmark -t
	clients     int
	pipeline    int
	sync        string // appendfsync of both sides
	floor, goal float64
}

// The rows of DESIGN.md section 10 that the core answers for. fresh with the embedded counter is our appendfsync always.
var workloads = []workload{
	{"SET 1 client", "set", 1, 1, "always", 1.2, 1.4},
	{"SET 50 clients", "set", 50, 1, "always", 1.4, 1.6},
	{"SET 50 clients, pipelines of 16", "set", 50, 16, "always", 1.5, 1.8},
	{"GET 1 client", "get", 1, 1, "always", 0, 0},
	{"GET 50 clients", "get", 50, 1, "always", 0.9, 1.0},
	{"GET 50 clients, pipelines of 16", "get", 50, 16, "always", 0, 0},
	{"SET everysec, 1 client", "set", 1, 1, "everysec", 0, 0},
	{"SET everysec, 50 clients", "set", 50, 1, "everysec", 0, 0},
	{"SET everysec, 50 clients, pipelines of 16", "set", 50, 16, "everysec", 0, 0},
}

const (
	tlsGoal    = 0.9
	sealedGoal = 3.0
	valueBytes = 1024
	keys       = 50_000 // each 1 KiB: the hot set fits both sides' memory
)

// sample is what one side did in one round.
type sample struct{ rate, p99, cpu float64 } // requests a second, ms, µs of the server's CPU time a request

// pair is a running server of each side.
type pair struct{ ours, theirs *server }

func (p pair) stop() {
	for _, s := range []*server{p.ours, p.theirs} {
		if s != nil {
			s.stop()
		}
	}
}

// CompareRedis runs every workload against this server and redis-server, interleaved, and prints a table.
func CompareRedis(ctx context.Context, o RedisOptions) (err error) {
	if o.Rounds == 0 {
		o.Rounds = 7
	}
	if o.Slice == 0 {
		o.Slice = 2 * time.Second
	}
	load := ""
	switch {
	case !o.TLS && (o.Load == "" || o.Load == "own"):
	case o.Load == "" || o.Load == "own" || o.Load == "redis-benchmark":
		if load, err = lookPath("redis-benchmark", "redis-tools"); err != nil {
			return err
		}
	default:
		return fmt.Errorf("load %q: own or redis-benchmark", o.Load)
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp(".", "cvmstore-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(o.Dir) }()
	}
	if o.Sealed {
		var unmount func() error
		if o.below, unmount, err = mountGocryptfs(ctx, o.Dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unmount()) }()
	}
	over := ""
	if o.TLS {
		over = " over TLS"
		if o.certs, err = makeCertificates(o.Dir); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "SET and GET of %d bytes%s, %d keys, %d rounds of %v a side, interleaved; medians, [smallest to largest ratio]\n\n",
		valueBytes, over, keys, o.Rounds, o.Slice)
	fmt.Fprintf(o.Out, "%-44s %10s %10s %7s %-16s %9s %9s %9s %9s  %s\n", "", "ours/s", "redis/s", "ratio", "", "p99 ms", "redis p99",
		"CPU µs", "redis CPU", "floor, goal")
	for _, mode := range []string{"always", "everysec"} {
		if err := compareMode(ctx, o, load, mode); err != nil {
			return err
		}
	}
	return nil
}

func compareMode(ctx context.Context, o RedisOptions, load, mode string) error {
	var rows []workload
	for _, w := range workloads {
		if w.sync == mode && strings.Contains(w.name, o.Only) {
			if o.TLS {
				w.floor, w.goal = 0, tlsGoal
			}
			if o.Sealed {
				if w.floor, w.goal = 0, 0; w.command == "set" && w.sync == "always" {
					w.goal = sealedGoal
				}
			}
			rows = append(rows, w)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	p, err := startPair(ctx, o, mode)
	defer p.stop()
	if err != nil {
		return err
	}
	for _, s := range []*server{p.ours, p.theirs} { // every key is there before the first GET
		if err := fill(ctx, s, load); err != nil {
			return err
		}
	}
	for _, w := range rows {
		if err := compareRow(ctx, o, load, p, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// fill makes every key.
func fill(ctx context.Context, s *server, program string) error {
	if program == "" {
		_, err := generate(ctx, load{port: s.port, clients: 50, pipeline: 16, n: keys, fill: true})
		return err
	}
	_, err := run(ctx, program, s, workload{command: "set", clients: 50, pipeline: 16}, 6*keys) // all but a few: it chooses at random
	return err
}

func startPair(ctx context.Context, o RedisOptions, mode string) (p pair, err error) {
	program := o.Server
	if program == "" {
		if program, err = self(); err != nil {
			return p, err
		}
	}
	redis, err := lookPath("redis-server", "redis-server")
	if err != nil {
		return p, err
	}
	p.ours, err = startServer(ctx, "cvmstore", func(port int) *exec.Cmd {
		return exec.Command(program, slices.Concat([]string{"serve", "--dir", filepath.Join(o.Dir, "cvmstore-"+mode), "--appendfsync", mode}, o.certs.flags(port))...)
	})
	if err != nil {
		return p, err
	}
	p.ours.tls = o.certs
	dir := filepath.Join(cmp.Or(o.below, o.Dir), "redis-"+mode)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, err
	}
	p.theirs, err = startServer(ctx, "redis-server", func(port int) *exec.Cmd {
		return exec.Command(redis, slices.Concat([]string{
			"--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", mode,
			"--auto-aof-rewrite-percentage", "0",
		}, o.certs.flags(port))...)
	})
	if err == nil {
		p.theirs.tls = o.certs
	}
	return p, err
}

func compareRow(ctx context.Context, o RedisOptions, load string, p pair, w workload) error {
	sides := []*server{p.ours, p.theirs}
	var n [2]int
	for i, s := range sides { // how many requests fill a slice
		first, err := run(ctx, load, s, w, max(2000*w.pipeline, 200))
		if err != nil {
			return err
		}
		n[i] = max(int(first.rate*o.Slice.Seconds()), 100)
	}
	var got [2][]sample
	var ratios []float64
	for round := range o.Rounds {
		var this [2]sample
		for k := range sides {
			i := (k + round) % 2
			before := cpuTime(sides[i].cmd.Process.Pid)
			x, err := run(ctx, load, sides[i], w, n[i])
			if err != nil {
				return err
			}
			x.cpu = float64((cpuTime(sides[i].cmd.Process.Pid) - before).Microseconds()) / float64(n[i])
			this[i] = x
			got[i] = append(got[i], x)
		}
		ratios = append(ratios, this[0].rate/this[1].rate)
	}
	rate := func(x sample) float64 { return x.rate }
	p99 := func(x sample) float64 { return x.p99 }
	cpu := func(x sample) float64 { return x.cpu }
	want := ""
	if w.goal > 0 {
		want = fmt.Sprintf("%.1f, %.1f", w.floor, w.goal)
	}
	fmt.Fprintf(o.Out, "%-44s %10.0f %10.0f %7.2f %-16s %9.2f %9.2f %9.1f %9.1f  %s\n", w.name, median(got[0], rate), median(got[1], rate),
		medianOf(ratios), fmt.Sprintf("[%.2f to %.2f]", slices.Min(ratios), slices.Max(ratios)), median(got[0], p99), median(got[1], p99),
		median(got[0], cpu), median(got[1], cpu), want)
	f := Figure{
		Experiment: "redis", Name: w.name, Unit: "x", Against: "redis-server appendfsync " + w.sync, Samples: ratios,
		Rate: []float64{median(got[0], rate), median(got[1], rate)}, RateUnit: "requests/s", Floor: w.floor, Goal: w.goal,
	}
	switch {
	case o.TLS:
		f.Experiment, f.Name = "tls", w.name+" over TLS"
	case o.Sealed:
		f.Experiment, f.Against = "protected", f.Against+" on gocryptfs"
	}
	record(o.Out, f)
	return nil
}

// run lets redis-benchmark send n requests and reads its CSV line: rps, then avg, min, p50, p95, p99 and max in ms.
func run(ctx context.Context, program string, s *server, w workload, n int) (sample, error) {
	if program == "" {
		return generate(ctx, load{port: s.port, get: w.command == "get", clients: w.clients, pipeline: w.pipeline, n: n})
	}
	args := []string{
		"-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-t", w.command, "-c", strconv.Itoa(w.clients), "-P", strconv.Itoa(w.pipeline),
		"-d", strconv.Itoa(valueBytes), "-r", strconv.Itoa(keys), "-n", strconv.Itoa(n), "--csv",
	}
	out, err := exec.CommandContext(ctx, program, append(args, s.tls.client()...)...).Output()
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark against %s: %w", s.name, err)
	}
	table, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(table) != 2 || len(table[1]) < 7 {
		return sample{}, fmt.Errorf("redis-benchmark against %s printed %q", s.name, out)
	}
	rate, err1 := strconv.ParseFloat(table[1][1], 64)
	p99, err2 := strconv.ParseFloat(table[1][6], 64)
	if err1 != nil || err2 != nil || rate == 0 {
		return sample{}, fmt.Errorf("redis-benchmark against %s printed %q", s.name, out)
	}
	return sample{rate: rate, p99: p99}, nil
}

func median(x []sample, f func(sample) float64) float64 {
	var v []float64
	for _, s := range x {
		v = append(v, f(s))
	}
	return medianOf(v)
}

func medianOf(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
