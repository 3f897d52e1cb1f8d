package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// AbuseOptions say how badly to treat a server.
type AbuseOptions struct {
	Dir    string // for its data; default: a temporary directory in the current one
	Server string // our program; default: the one that runs
	Idle   int    // connections that do nothing; default 10,000
	Rounds int    // of well-behaved clients, before and during; default 5
	Slice  time.Duration
	Out    io.Writer
}

const (
	abusePassword = "abuse"
	slowReaders   = 100
	slowWriters   = 500
	halfOpen      = 600 // TLS handshakes; more than the server keeps
	malformedEach = 10 * time.Millisecond
	abuseClients  = 20 // that behave
	abuseP99      = 2  // goal: their p99 under abuse, against without
)

// Abuse measures what well-behaved clients notice of clients that are not, and what those make the server hold.
func Abuse(ctx context.Context, o AbuseOptions) (err error) {
	o.Idle, o.Rounds = orDefault(o.Idle, 10_000), orDefault(o.Rounds, 5)
	if o.Slice == 0 {
		o.Slice = 2 * time.Second
	}
	if o.Server == "" {
		if o.Server, err = self(); err != nil {
			return err
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp(".", "cvmstore-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(o.Dir) }()
	}
	certs, err := makeCertificates(o.Dir)
	if err != nil {
		return err
	}
	tlsPort, err := freePort()
	if err != nil {
		return err
	}
	s, err := startServer(ctx, "cvmstore", func(port int) *exec.Cmd {
		return exec.Command(o.Server, "serve", "--dir", filepath.Join(o.Dir, "abuse"), "--requirepass", abusePassword,
			"--maxclients", strconv.Itoa(o.Idle+5000), "--port", strconv.Itoa(port),
			"--tls-port", strconv.Itoa(tlsPort), "--tls-cert-file", certs.cert, "--tls-key-file", certs.key, "--tls-auth-clients", "no")
	})
	if err != nil {
		return err
	}
	defer s.stop()
	a := &abuse{AbuseOptions: o, s: s, tlsPort: tlsPort}
	return a.measure(ctx)
}

// abuse is one run: the connections that it holds, and what goes on in the background.
type abuse struct {
	AbuseOptions
	s       *server
	tlsPort int

	mu    sync.Mutex
	conns []net.Conn
	work  sync.WaitGroup
}

func (a *abuse) measure(ctx context.Context) error {
	if _, err := generate(ctx, load{port: a.s.port, clients: abuseClients, pipeline: 16, n: keys, fill: true, password: abusePassword}); err != nil {
		return err
	}
	// The first reads after so many writes are not usual.
	if _, err := generate(ctx, load{port: a.s.port, get: true, clients: abuseClients, pipeline: 1, n: keys, password: abusePassword}); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%d clients send GET of %d bytes, %d rounds of %v; medians\n\n%-46s %10s %9s %10s %10s\n", abuseClients, valueBytes,
		a.Rounds, a.Slice, "", "GET/s", "p99 ms", "RSS MiB", "clients")
	before, err := a.row(ctx, "nobody else")
	if err != nil {
		return err
	}
	whole := ctx
	ctx, stop := context.WithCancel(ctx)
	end := func() {
		stop()
		a.closeAll()
		a.work.Wait()
	}
	defer end()
	worst, worstStep := 0.0, ""
	for _, step := range []struct {
		name  string
		begin func(context.Context) error
	}{
		{fmt.Sprintf("+ %d idle connections", a.Idle), a.idle},
		{fmt.Sprintf("+ %d that never take their replies", slowReaders), a.readers},
		{fmt.Sprintf("+ %d that send a byte a second", slowWriters), a.writers},
		{fmt.Sprintf("+ %d half-open TLS handshakes", halfOpen), a.handshakes},
		{"+ malformed and oversized ones before login", a.malformed},
	} {
		if err := step.begin(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		x, err := a.row(ctx, step.name)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if x.p99 > worst {
			worst, worstStep = x.p99, step.name
		}
	}
	end()
	after, err := a.row(whole, "nobody else, again") // other work on this machine shows as a difference between the two
	if err != nil {
		return err
	}
	usual := (before.p99 + after.p99) / 2
	record(a.Out, Figure{Experiment: "abuse", Name: "GET p99 under abuse (" + worstStep + ")", Unit: "x", Against: "nobody else there", Value: worst / usual, Goal: abuseP99, AtMost: true})
	fmt.Fprintf(a.Out, "\np99 under abuse is at most %.2f times the mean of both without (%s; goal: %d)\n", worst/usual, worstStep, abuseP99)
	return nil
}

// row measures the clients that behave.
func (a *abuse) row(ctx context.Context, name string) (sample, error) {
	l := load{port: a.s.port, get: true, clients: abuseClients, pipeline: 1, n: 5000, password: abusePassword}
	first, err := generate(ctx, l)
	if err != nil {
		return sample{}, err
	}
	l.n = max(int(first.rate*a.Slice.Seconds()), 1000)
	var got []sample
	for range a.Rounds {
		x, err := generate(ctx, l)
		if err != nil {
			return sample{}, err
		}
		got = append(got, x)
	}
	m := sample{rate: median(got, func(x sample) float64 { return x.rate }), p99: median(got, func(x sample) float64 { return x.p99 })}
	clients, err := a.clients()
	fmt.Fprintf(a.Out, "%-46s %10.0f %9.2f %10.1f %10d\n", name, m.rate, m.p99, float64(residentOf(a.s.cmd.Process.Pid))/(1<<20), clients)
	return m, err
}

// residentOf reads a process's resident size, bytes.
func residentOf(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// clients asks the server how many are connected.
func (a *abuse) clients() (n int, err error) {
	c, err := a.login()
	if err != nil {
		return 0, err
	}
	_, _ = io.WriteString(c, "INFO clients\r\n")
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if v, ok := strings.CutPrefix(line, "connected_clients:"); ok {
			_ = c.Close()
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
}

func (a *abuse) dial(port int) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), startTimeout)
	if err == nil {
		a.mu.Lock()
		a.conns = append(a.conns, c)
		a.mu.Unlock()
	}
	return c, err
}

func (a *abuse) login() (net.Conn, error) {
	c, err := a.dial(a.s.port)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(startTimeout))
	if _, err := io.WriteString(c, "AUTH "+abusePassword+"\r\n"); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, make([]byte, len("+OK\r\n"))); err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}

func (a *abuse) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		_ = c.Close()
	}
}

func (a *abuse) idle(context.Context) error {
	for range a.Idle {
		if _, err := a.login(); err != nil {
			return err
		}
	}
	return nil
}

// readers ask for much, until the server reads no more of it, and take nothing.
func (a *abuse) readers(context.Context) error {
	ask := []byte(strings.Repeat("GET key:000000000001\r\n", 1000))
	for range slowReaders {
		c, err := a.login()
		if err != nil {
			return err
		}
		_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		for sent := 0; sent < 1000; sent++ {
			if _, err := c.Write(ask); err != nil {
				break
			}
		}
	}
	return nil
}

// writers send a command of which a byte comes each second.
func (a *abuse) writers(ctx context.Context) error {
	var slow []net.Conn
	for range slowWriters {
		c, err := a.login()
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, "*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$500000000\r\n"); err != nil {
			return err
		}
		slow = append(slow, c)
	}
	a.background(ctx, time.Second/slowWriters, func(i int) { _, _ = slow[i%len(slow)].Write([]byte("x")) })
	return nil
}

// handshakes begin and never end. The server gives up the oldest ones: each is begun again.
func (a *abuse) handshakes(ctx context.Context) error {
	open := make([]net.Conn, halfOpen)
	begin := func(i int) error {
		c, err := a.dial(a.tlsPort)
		if err != nil {
			return err
		}
		open[i] = c
		_, err = c.Write([]byte{22, 3, 1, 1, 0, 1, 0, 0, 252}) // the front of a ClientHello
		return err
	}
	for i := range open {
		if err := begin(i); err != nil {
			return err
		}
	}
	one := make([]byte, 1)
	a.background(ctx, 5*time.Millisecond, func(i int) {
		c := open[i%len(open)]
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(one); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = c.Close()
			_ = begin(i % len(open))
		}
	})
	return nil
}

// malformed ones come one after the other, each on a connection of its own, until they are closed.
func (a *abuse) malformed(ctx context.Context) error {
	bad := []string{
		"*1000000000\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n" + strings.Repeat("x", 20_000), "$5\r\n",
		"*-5\r\n", "*1\r\n$99999999999999999999\r\n", strings.Repeat("a", 70_000), "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
		"*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\nSET k v\r\n", "\x00\xff\xfe\r\n", "*1\r\n:1\r\n",
	}
	a.background(ctx, malformedEach, func(i int) {
		c, err := net.DialTimeout("tcp", a.s.address(), time.Second)
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = io.WriteString(c, bad[i%len(bad)])
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	})
	return nil
}

// background does something at intervals until the run ends.
func (a *abuse) background(ctx context.Context, every time.Duration, do func(i int)) {
	a.work.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				do(i)
			}
		}
	})
}
