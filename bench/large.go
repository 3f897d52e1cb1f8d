package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LargeOptions say how to measure large values from the socket to the disk and back.
type LargeOptions struct {
	Dir      string   // for the data of both sides; default: a temporary directory in the current one
	Server   string   // our program; default: the one that runs
	Only     []string // which parts: ratio, latency, written, memory; none: all
	Rounds   int      // default 7
	ValueMiB int      // of each value in ratio, latency and amplification; default 64
	BigMiB   int      // of each value in memory; default 512
	Clients  int      // of memory; default 10
	Out      io.Writer
}

// CompareLarge measures large values beside redis-server with appendfsync always, what they do to the latency of small ones, and
// what memory they take.
func CompareLarge(ctx context.Context, o LargeOptions) error {
	set := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	set(&o.Rounds, 7)
	set(&o.ValueMiB, 64)
	set(&o.BigMiB, 512)
	set(&o.Clients, 10)
	if o.Dir == "" {
		dir, err := os.MkdirTemp(".", "cvmstore-bench-")
		if err != nil {
			return err
		}
		o.Dir = dir
		defer func() { _ = os.RemoveAll(dir) }()
	}
	parts := []struct {
		name string
		run  func(context.Context, LargeOptions) error
	}{{"ratio", largeRatio}, {"latency", largeLatency}, {"written", largeWritten}, {"memory", largeMemory}}
	for _, p := range parts {
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		part := o
		part.Dir = filepath.Join(o.Dir, p.name)
		if err := os.MkdirAll(part.Dir, 0o700); err != nil {
			return err
		}
		if err := p.run(ctx, part); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		_ = os.RemoveAll(part.Dir)
	}
	return nil
}

// largeClient is a connection that moves values of which it keeps a small piece only.
type largeClient struct {
	conn  net.Conn
	r     *bufio.Reader
	piece []byte
	sink  []byte

	put, fetch string // commands; default SET and GET
}

const largeTimeout = 5 * time.Minute

func dialLarge(s *server) (*largeClient, error) {
	conn, err := net.DialTimeout("tcp", s.address(), 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(largeTimeout))
	c := &largeClient{conn: conn, r: bufio.NewReaderSize(conn, 4096), piece: make([]byte, 1<<20), sink: make([]byte, 256<<10), put: "SET", fetch: "GET"}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range c.piece {
		c.piece[i] = byte(rng.Uint32())
	}
	return c, nil
}

// set sends a value and waits for the answer.
func (c *largeClient) set(key string, bytes int) error {
	if _, err := fmt.Fprintf(c.conn, "*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n", len(c.put), c.put, len(key), key, bytes); err != nil {
		return err
	}
	for left := bytes; left > 0; {
		n, err := c.conn.Write(c.piece[:min(left, len(c.piece))])
		if err != nil {
			return err
		}
		left -= n
	}
	if _, err := io.WriteString(c.conn, "\r\n"); err != nil {
		return err
	}
	line, err := c.r.ReadString('\n')
	if err == nil && line != "+OK\r\n" {
		err = fmt.Errorf("SET: %q", line)
	}
	return err
}

// get reads a value and throws it away.
func (c *largeClient) get(key string, bytes int) error {
	if _, err := fmt.Fprintf(c.conn, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(c.fetch), c.fetch, len(key), key); err != nil {
		return err
	}
	line, err := c.r.ReadString('\n')
	if err == nil && line != fmt.Sprintf("$%d\r\n", bytes) {
		err = fmt.Errorf("GET: %q", line)
	}
	if err != nil {
		return err
	}
	left := bytes + 2 - c.r.Buffered()
	_, _ = c.r.Discard(c.r.Buffered())
	for left > 0 {
		n, err := c.conn.Read(c.sink[:min(left, len(c.sink))])
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// largeRatio compares the time of a SET, and of a GET, of one client.
func largeRatio(ctx context.Context, o LargeOptions) error {
	p, err := startPair(ctx, RedisOptions{Dir: o.Dir, Server: o.Server}, "always")
	defer p.stop()
	if err != nil {
		return err
	}
	sides := []*server{p.ours, p.theirs}
	var clients [2]*largeClient
	size := o.ValueMiB << 20
	for i, s := range sides {
		if clients[i], err = dialLarge(s); err != nil {
			return err
		}
		defer func() { _ = clients[i].conn.Close() }()
		for k := range 3 { // and lay out the space
			if err := clients[i].set(fmt.Sprint("v", k%2), size); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	fmt.Fprintf(o.Out, "Values of %d MiB, one client, fresh with the embedded counter against appendfsync always, %d rounds, interleaved; medians, [smallest to largest ratio]\n",
		o.ValueMiB, o.Rounds)
	for _, w := range []struct {
		name string
		goal float64
		run  func(c *largeClient, round int) error
	}{
		{"SET", 1.5, func(c *largeClient, round int) error { return c.set(fmt.Sprint("v", round%2), size) }},
		{"GET", 0.9, func(c *largeClient, round int) error { return c.get(fmt.Sprint("v", round%2), size) }},
	} {
		var rates [2][]float64
		var ratios []float64
		for round := range o.Rounds {
			for k := range sides {
				i := (k + round) % 2
				start := time.Now()
				if err := w.run(clients[i], round); err != nil {
					return fmt.Errorf("%s: %w", sides[i].name, err)
				}
				rates[i] = append(rates[i], float64(size)/1e6/time.Since(start).Seconds())
			}
			ratios = append(ratios, rates[0][round]/rates[1][round])
		}
		fmt.Fprintf(o.Out, "%-4s ours %6.0f MB/s  redis %6.0f MB/s  ratio %.2f [%.2f to %.2f], goal %.1f\n", w.name, medianOf(rates[0]), medianOf(rates[1]),
			medianOf(ratios), slices.Min(ratios), slices.Max(ratios), w.goal)
		record(o.Out, Figure{
			Experiment: "large", Name: fmt.Sprintf("%s of %d MiB over RESP", w.name, o.ValueMiB), Unit: "x", Against: "redis-server appendfsync always",
			Samples: ratios, Rate: []float64{medianOf(rates[0]), medianOf(rates[1])}, RateUnit: "MB/s", Goal: w.goal,
		})
	}
	return nil
}

// startOurs starts our server alone.
func startOurs(ctx context.Context, o LargeOptions) (*server, error) {
	p, err := startPair(ctx, RedisOptions{Dir: o.Dir, Server: o.Server}, "always")
	if p.theirs != nil {
		p.theirs.stop()
	}
	return p.ours, err
}

// largeMemory measures the resident memory while clients set and get large values.
func largeMemory(ctx context.Context, o LargeOptions) error {
	s, err := startOurs(ctx, o)
	if s != nil {
		defer s.stop()
	}
	if err != nil {
		return err
	}
	idle, err := residentKiB(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	peak, stop, watched := idle, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				if now, err := residentKiB(s.cmd.Process.Pid); err == nil {
					peak = max(peak, now)
				}
			}
		}
	}()
	errs := make([]error, o.Clients)
	var all sync.WaitGroup
	for i := range o.Clients {
		all.Go(func() {
			c, err := dialLarge(s)
			if err == nil {
				defer func() { _ = c.conn.Close() }()
				key := fmt.Sprint("large", i)
				if err = c.set(key, o.BigMiB<<20); err == nil {
					err = c.get(key, o.BigMiB<<20)
				}
			}
			errs[i] = err
		})
	}
	all.Wait()
	close(stop)
	<-watched
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%d clients, each SET and GET of %d MiB: resident memory %d MiB idle, at most %d MiB above (goal 256)\n",
		o.Clients, o.BigMiB, idle>>10, (peak-idle)>>10)
	record(o.Out, Figure{
		Experiment: "large", Name: fmt.Sprintf("memory above idle, %d clients with %d MiB each", o.Clients, o.BigMiB), Unit: "MiB",
		Value: float64((peak - idle) >> 10), Goal: 256, AtMost: true,
	})
	return nil
}

// residentKiB is a process' resident memory, buffers included.
func residentKiB(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			return strconv.Atoi(f[1])
		}
	}
	return 0, errors.New("no VmRSS")
}
