package service

import (
	"context"
	"net"
	"sync"
	"time"

	"cvmstore/epoch/wire"
)

// Fairness. A connection carries one request at a time (HTTP/1.1, no pipelining in net/http), so what one identity can ask for at
// once is its number of connections, which is bounded; and each identity has a rate, above which its requests wait before
// they are looked at. So a flood costs its sender time and the others a share of the machine that does not grow.

// Limits bound what callers can make the service do. Zero values take the defaults.
type Limits struct {
	Connections   int           // in all; default 4096
	Handshakes    int           // connections that have not shown who they are; default 256
	PerIdentity   int           // connections of one identity; default 16
	Rate          float64       // requests a second of one identity before they wait; default 5000
	Burst         int           // default 500
	RequestWindow time.Duration // for a handshake, a request's header, its body, an answer; default 10 s
	Idle          time.Duration // a connection without requests; default 3 min
}

func (l *Limits) setDefaults() {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&l.Connections, 4096)
	def(&l.Handshakes, 256)
	def(&l.PerIdentity, 16)
	def(&l.Burst, 500)
	if l.Rate == 0 {
		l.Rate = 5000
	}
	if l.RequestWindow == 0 {
		l.RequestWindow = 10 * time.Second
	}
	if l.Idle == 0 {
		l.Idle = 3 * time.Minute
	}
}

// waitMax is the longest that a request above its rate waits; beyond it the answer is ErrSlowDown.
const waitMax = time.Second

// fairness knows each identity that is connected, and what it has used of its rate.
type fairness struct {
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	total    int
	fresh    int // connections without an identity yet
	callers  map[wire.Identity]*share
	refused  uint64
	slowed   uint64
	accepted uint64
}

// share is one identity's. tokens may be negative: then so many requests wait.
type share struct {
	connections int
	tokens      float64
	filled      time.Time
}

func newFairness(l Limits) *fairness {
	return &fairness{limits: l, now: time.Now, callers: map[wire.Identity]*share{}}
}

// accept admits a new connection. leave is to be called once when it ends.
func (f *fairness) accept() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.total >= f.limits.Connections || f.fresh >= f.limits.Handshakes {
		f.refused++
		return false
	}
	f.total++
	f.fresh++
	f.accepted++
	return true
}

// identify takes note of whose a connection is.
func (f *fairness) identify(id wire.Identity) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.callers[id]
	if s == nil {
		s = &share{tokens: float64(f.limits.Burst), filled: f.now()}
		f.callers[id] = s
	}
	if s.connections >= f.limits.PerIdentity {
		f.refused++
		return false
	}
	s.connections++
	f.fresh--
	return true
}

// leave forgets a connection; id is nil if it never said whose it is.
func (f *fairness) leave(id *wire.Identity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total--
	if id == nil {
		f.fresh--
		return
	}
	s := f.callers[*id]
	s.connections--
	// An identity without connections is kept until its tokens are back, or else a flood would reconnect to get new ones.
	for old, t := range f.callers {
		if t.connections == 0 && (len(f.callers) > callersKept || f.now().Sub(t.filled) > callerKept) {
			delete(f.callers, old)
		}
		if len(f.callers) <= callersSwept {
			break
		}
	}
}

const (
	callersSwept = 64
	callersKept  = 10_000
	callerKept   = time.Minute
)

// take uses one request of an identity's rate. It waits if that is spent, or reports false if the wait would be too long.
func (f *fairness) take(ctx context.Context, id wire.Identity) bool {
	wait, ok := f.reserve(id)
	if wait <= 0 {
		return ok
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *fairness) reserve(id wire.Identity) (wait time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.callers[id]
	if s == nil {
		return 0, false
	}
	now := f.now()
	s.tokens = min(s.tokens+now.Sub(s.filled).Seconds()*f.limits.Rate, float64(f.limits.Burst))
	s.filled = now
	if s.tokens >= 1 {
		s.tokens--
		return 0, true
	}
	wait = time.Duration((1 - s.tokens) / f.limits.Rate * float64(time.Second))
	f.slowed++
	if wait > waitMax {
		return 0, false
	}
	s.tokens--
	return wait, true
}

// guardedListener closes connections above the limits before any byte of theirs is read.
type guardedListener struct {
	net.Listener
	fair *fairness
}

// guardedConn is a connection that is counted.
type guardedConn struct {
	net.Conn
	fair *fairness
	once sync.Once
	mu   sync.Mutex
	id   *wire.Identity
}

func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.fair.accept() {
			return &guardedConn{Conn: c, fair: l.fair}, nil
		}
		_ = c.Close()
	}
}

// identified takes note of the caller once its handshake is done; false if it has too many connections.
func (c *guardedConn) identified(id wire.Identity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id != nil {
		return *c.id == id
	}
	if !c.fair.identify(id) {
		return false
	}
	c.id = &id
	return true
}

func (c *guardedConn) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		id := c.id
		c.mu.Unlock()
		c.fair.leave(id)
	})
	return c.Conn.Close()
}
