// Package remote is the client of the trusted counter service: an epoch.Service over TLS 1.3, and what else a server or an
// operator asks of it.
//
// Every call is bounded: an attempt by a timeout, a call by a number of attempts, with jitter between them. An attempt whose
// answer was lost is sent again as it was, which the service takes as the same request (Open excepted: that costs a
// generation). An answer that says no is final and not tried again. What comes back is checked: the service's key by the TLS
// configuration, statements by signature, nonce and store.
package remote

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
)

// Options of New.
type Options struct {
	URLs []string          // https://host:port; several: members of one replicated service, tried in turn
	TLS  *tls.Config       // shows the client's certificate and checks the service's key; see wire.PinnedTLS
	Key  ed25519.PublicKey // verifies statements
	// Dial makes a connection; nil: TCP. For tests that stand between.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Timeout  time.Duration // of one attempt; default 2 s
	Attempts int           // of one call; default 3
	Backoff  time.Duration // the longest first pause between two attempts, doubled each time; default 50 ms
}

// Client is an epoch.Service. Its methods may be called from any goroutine.
type Client struct {
	opts   Options
	pool   pool
	ctx    context.Context
	cancel context.CancelFunc
	calls  sync.WaitGroup

	mu     sync.Mutex
	at     int // which URL answered last
	trip   time.Duration
	closed bool
}

var _ epoch.Service = (*Client)(nil)

// answerMax bounds what is read of an answer.
const answerMax = 1 << 20

// New returns a client. It connects when it is first asked something.
func New(o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 3
	}
	if o.Backoff == 0 {
		o.Backoff = 50 * time.Millisecond
	}
	if len(o.URLs) == 0 {
		return nil, errors.New("counter client: no URL")
	}
	for _, u := range o.URLs {
		if p, err := url.Parse(u); err != nil || p.Scheme != "https" || p.Host == "" || p.Path != "" && p.Path != "/" || p.RawQuery != "" {
			return nil, fmt.Errorf("counter client: %q is not of the form https://HOST:PORT", u)
		}
	}
	c := &Client{opts: o}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.pool = pool{tls: o.TLS, dial: o.Dial}
	if c.pool.dial == nil {
		c.pool.dial = new(net.Dialer).DialContext
	}
	return c, nil
}

// final says whether trying again is of no use.
func final(err error) bool {
	for _, e := range []error{
		epoch.ErrNoRecord, epoch.ErrExists, epoch.ErrFenced, epoch.ErrConflict, epoch.ErrFrozen, epoch.ErrForbidden,
		wire.ErrOrder, wire.ErrMalformed, wire.ErrSignature,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// try calls attempt until it succeeds, fails for good, or the attempts are used up.
func (c *Client) try(ctx context.Context, attempt func(ctx context.Context, url string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errClosed) })()
	pause := c.opts.Backoff
	for n := 1; ; n++ {
		c.mu.Lock()
		u := c.opts.URLs[c.at%len(c.opts.URLs)]
		c.mu.Unlock()
		start := time.Now()
		once, done := context.WithTimeout(ctx, c.opts.Timeout)
		err := attempt(once, u)
		done()
		if err == nil {
			c.mu.Lock()
			c.trip = time.Since(start)
			c.mu.Unlock()
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("counter service %s: %w: %w", u, cause, err)
		}
		if final(err) || n == c.opts.Attempts {
			return fmt.Errorf("counter service %s: %w", u, err)
		}
		c.mu.Lock()
		c.at++ // another member may be alive
		c.mu.Unlock()
		select {
		case <-time.After(jittered(pause)):
		case <-ctx.Done():
		}
		pause = min(2*pause, time.Second)
	}
}

var errClosed = errors.New("the client was closed")

// jittered returns between half of d and d, so that many servers that lost one service do not come back in step.
func jittered(d time.Duration) time.Duration {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d/2)+1))
	if err != nil {
		return d
	}
	return d/2 + time.Duration(n.Int64())
}

// post sends one request and returns the answer's body.
func (c *Client) post(ctx context.Context, u, path, kind string, body []byte) ([]byte, error) {
	status, text, err := c.pool.exchange(ctx, u, path, kind, body)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, wire.DecodeError(status, text)
	}
	return text, nil
}

func (c *Client) send(ctx context.Context, r *wire.Request) ([]byte, error) {
	body := r.Append(make([]byte, 0, wire.RequestBytesMax))
	var answer []byte
	err := c.try(ctx, func(ctx context.Context, u string) (err error) {
		answer, err = c.post(ctx, u, wire.Path(r.Op), "application/octet-stream", body)
		return err
	})
	return answer, err
}

// ask is an Open or a Read: the answer is a statement, which is checked. Each attempt has a nonce of its own unless one is given.
func (c *Client) ask(ctx context.Context, op wire.Op, store epoch.StoreID, nonce *wire.Nonce) (s wire.Statement, raw []byte, err error) {
	err = c.try(ctx, func(ctx context.Context, u string) error {
		r := wire.Request{Op: op, Store: store}
		if nonce != nil {
			r.Nonce = *nonce
		} else if _, err := rand.Read(r.Nonce[:]); err != nil {
			return err
		}
		answer, err := c.post(ctx, u, wire.Path(op), "application/octet-stream", r.Append(nil))
		if err != nil {
			return err
		}
		if s, err = wire.OpenStatement(c.opts.Key, answer); err != nil {
			return err
		}
		raw = answer
		return s.Answers(op, store, r.Nonce)
	})
	return s, raw, err
}

// Create implements epoch.Service.
func (c *Client) Create(ctx context.Context, store epoch.StoreID) error {
	return c.CreateOwned(ctx, store, [32]byte{})
}

// CreateOwned is Create, and registers who signs the store's orders.
func (c *Client) CreateOwned(ctx context.Context, store epoch.StoreID, owner [32]byte) error {
	answer, err := c.send(ctx, &wire.Request{Op: wire.OpCreate, Store: store, Owner: owner})
	if err == nil {
		_, err = wire.ParseAnswer(answer)
	}
	return err
}

// Open implements epoch.Service.
func (c *Client) Open(ctx context.Context, store epoch.StoreID) (epoch.OpenReply, error) {
	s, _, err := c.ask(ctx, wire.OpOpen, store, nil)
	return epoch.OpenReply{Record: s.Record, Stamp: s.Stamp, Random: s.Random}, err
}

// Read implements epoch.Service.
func (c *Client) Read(ctx context.Context, store epoch.StoreID) (epoch.ReadReply, error) {
	s, _, err := c.ask(ctx, wire.OpRead, store, nil)
	return epoch.ReadReply{Record: s.Record, Stamp: s.Stamp}, err
}

// ReadSigned is Read with a nonce of the caller's, and returns the signed statement as well: what a receipt is made of.
func (c *Client) ReadSigned(ctx context.Context, store epoch.StoreID, nonce wire.Nonce) (wire.Statement, []byte, error) {
	return c.ask(ctx, wire.OpRead, store, &nonce)
}

// Commit implements epoch.Service: it returns at once and calls done from a goroutine of its own.
func (c *Client) Commit(req epoch.CommitRequest, done func(epoch.Stamp, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go done(0, errClosed)
		return
	}
	c.calls.Go(func() {
		answer, err := c.send(c.ctx, &wire.Request{Op: wire.OpCommit, Store: req.Store, Commit: req})
		var stamp epoch.Stamp
		if err == nil {
			stamp, err = wire.ParseAnswer(answer)
		}
		done(stamp, err)
	})
}

// Sync implements epoch.Service: the service is durable before it answers.
func (c *Client) Sync(context.Context) error { return nil }

// TimeBounded implements epoch.Service: the stamps are the service's.
func (c *Client) TimeBounded() bool { return true }

// RoundTrip returns how long the last call that succeeded took, 0 before.
func (c *Client) RoundTrip() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trip
}

// Close ends calls under way, whose outcome stays unknown.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.calls.Wait()
	c.pool.close()
	return nil
}
