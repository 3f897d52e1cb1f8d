package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Where a load comes from: one thread that keeps every connection busy, closed loop, and costs less CPU a request than
// redis-benchmark does (which changes its epoll set twice a request). On a machine of two cores that matters: a generator
// that fills its core measures itself.

// load is what a generator sends: n requests in pipelines over connections to one server.
type load struct {
	port     int
	get      bool
	clients  int
	pipeline int
	n        int
	password string // empty: none is asked for
	fill     bool   // the keys come in turn rather than by chance
}

// generator is one run.
type generator struct {
	load
	ep     int
	conns  []loadConn
	value  []byte
	rng    *rand.Rand
	reply  int // length of one reply, bytes: all are the same
	left   int // requests that are still to be sent
	open   int // requests sent and not answered
	next   int // key, if they come in turn
	times  []time.Duration
	events [256]unix.EpollEvent
	buf    [64 << 10]byte
}

type loadConn struct {
	fd      int
	out     []byte
	waiting int // bytes of replies still to come
	count   int // requests in flight
	sent    time.Time
}

// generate runs a load and returns its rate and the 99th percentile of the time from a pipeline's write to its last reply.
func generate(ctx context.Context, l load) (sample, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := &generator{load: l, left: l.n, value: make([]byte, valueBytes), rng: rand.New(rand.NewPCG(rand.Uint64(), 1)), reply: len("+OK\r\n")}
	if l.get {
		g.reply = len("$"+strconv.Itoa(valueBytes)+"\r\n") + valueBytes + len("\r\n")
	}
	for i := range g.value {
		g.value[i] = byte(g.rng.Uint32())
	}
	var err error
	if g.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return sample{}, err
	}
	defer g.close()
	for range l.clients {
		if err := g.connect(); err != nil {
			return sample{}, err
		}
	}
	start := time.Now()
	if err := g.run(ctx, start); err != nil {
		return sample{}, err
	}
	took := time.Since(start)
	slices.Sort(g.times)
	p99 := g.times[len(g.times)*99/100]
	return sample{rate: float64(l.n) / took.Seconds(), p99: float64(p99) / float64(time.Millisecond)}, nil
}

func (g *generator) connect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	g.conns = append(g.conns, loadConn{fd: fd})
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: g.port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if g.password != "" {
		if err := login(fd, g.password); err != nil {
			return err
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return unix.EpollCtl(g.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(len(g.conns) - 1)})
}

// login says the password on a connection that still blocks.
func login(fd int, password string) error {
	if _, err := unix.Write(fd, []byte("AUTH "+password+"\r\n")); err != nil {
		return err
	}
	var answer [64]byte
	n, err := unix.Read(fd, answer[:])
	if err == nil && string(answer[:max(n, 0)]) != "+OK\r\n" {
		err = fmt.Errorf("AUTH: %q", answer[:max(n, 0)])
	}
	return err
}

func (g *generator) close() {
	for _, c := range g.conns {
		_ = unix.Close(c.fd)
	}
	_ = unix.Close(g.ep)
}

func (g *generator) run(ctx context.Context, now time.Time) error {
	for i := range g.conns {
		if err := g.send(&g.conns[i], now); err != nil {
			return err
		}
	}
	deadline := now.Add(loadTimeout)
	for g.open > 0 {
		n, err := unix.EpollWait(g.ep, g.events[:], 1000)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		now = time.Now()
		if ctx.Err() != nil || now.After(deadline) {
			return fmt.Errorf("load stopped with %d requests unanswered: %w", g.open, context.Cause(ctx))
		}
		for _, e := range g.events[:max(n, 0)] {
			if err := g.receive(&g.conns[e.Fd]); err != nil {
				return err
			}
		}
	}
	return nil
}

// send writes the next pipeline of a connection, if any is left.
func (g *generator) send(c *loadConn, now time.Time) error {
	c.count = min(g.pipeline, g.left)
	if c.count == 0 {
		return nil
	}
	g.left -= c.count
	g.open += c.count
	c.out = c.out[:0]
	for range c.count {
		key := g.key()
		if g.get {
			c.out = append(c.out, "*2\r\n$3\r\nGET\r\n$16\r\n"...)
			c.out = appendKey(c.out, key)
			continue
		}
		c.out = append(c.out, "*3\r\n$3\r\nSET\r\n$16\r\n"...)
		c.out = appendKey(c.out, key)
		c.out = append(c.out, "$"...)
		c.out = strconv.AppendInt(c.out, int64(len(g.value)), 10)
		c.out = append(c.out, "\r\n"...)
		c.out = append(c.out, g.value...)
		c.out = append(c.out, "\r\n"...)
	}
	c.waiting = c.count * g.reply
	c.sent = now
	for rest := c.out; len(rest) > 0; {
		n, err := unix.Write(c.fd, rest)
		if errors.Is(err, unix.EAGAIN) { // a pipeline is small against a socket's buffer: the server will drain it
			runtime.Gosched()
			continue
		}
		if err != nil {
			return fmt.Errorf("send to port %d: %w", g.port, err)
		}
		rest = rest[n:]
	}
	return nil
}

func (g *generator) key() int {
	if !g.fill {
		return g.rng.IntN(keys)
	}
	g.next = (g.next + 1) % keys
	return g.next
}

// receive takes what came and, when a pipeline is answered, sends the next.
func (g *generator) receive(c *loadConn) error {
	n, err := unix.Read(c.fd, g.buf[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil:
		return fmt.Errorf("receive from port %d: %w", g.port, err)
	case n == 0 || n > c.waiting || c.waiting == c.count*g.reply && g.buf[0] == '-':
		return fmt.Errorf("port %d answered %q", g.port, g.buf[:min(n, 100)])
	}
	if c.waiting -= n; c.waiting > 0 {
		return nil
	}
	now := time.Now()
	g.open -= c.count
	g.times = append(g.times, now.Sub(c.sent))
	return g.send(c, now)
}

// appendKey writes key number n, as redis-benchmark names it.
func appendKey(b []byte, n int) []byte {
	const digits = "key:000000000000\r\n"
	b = append(b, digits...)
	for i := len(b) - 3; n > 0; i, n = i-1, n/10 {
		b[i] = byte('0' + n%10)
	}
	return b
}
