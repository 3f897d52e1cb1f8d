package resp

import (
	"container/list"
	"context"
	"crypto/tls"
	"sync"
	"time"
)

// handshakeTimeout bounds how long a client may take for its TLS handshake.
const handshakeTimeout = 10 * time.Second

// handshakes are the TLS handshakes under way, each on a goroutine of its own, oldest first. When there are too many the oldest
// is given up: a client that means it is done within milliseconds, so it is the half-open ones that go.
type handshakes struct {
	sync.Mutex
	running sync.WaitGroup
	pending list.List // of context.CancelFunc
	closed  bool
}

// handshakesMax bounds them. Each holds some tens of kilobytes and, for its time, two descriptors.
const handshakesMax = 512

// begin makes room for one more; ok is false when the server stops.
func (h *handshakes) begin() (ctx context.Context, end func(), ok bool) {
	h.Lock()
	defer h.Unlock()
	if h.closed {
		return nil, nil, false
	}
	if h.pending.Len() >= handshakesMax {
		oldest := h.pending.Front()
		oldest.Value.(context.CancelFunc)()
		h.pending.Remove(oldest)
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	place := h.pending.PushBack(cancel)
	h.running.Add(1)
	return ctx, func() {
		h.Lock()
		h.pending.Remove(place) // does nothing if it was given up
		h.Unlock()
		cancel()
		h.running.Done()
	}, true
}

// stop gives all of them up and waits for their goroutines.
func (h *handshakes) stop() {
	h.Lock()
	h.closed = true
	for e := h.pending.Front(); e != nil; e = e.Next() {
		e.Value.(context.CancelFunc)()
	}
	h.Unlock()
	h.running.Wait()
}

// handshake makes a session's connection secure and then hands it to the loop. It returns at once.
func (l *loop) handshake(s *session, to *loop) {
	srv := l.srv
	ctx, end, ok := srv.handshakes.begin()
	if !ok {
		l.unaccepted(s.conn)
		return
	}
	go func() {
		defer end()
		secured, err := secureConn(ctx, s.conn, srv.tls.Load())
		if err != nil {
			srv.tlsFailed.Add(1)
			srv.log.Debug().Uint64("client", s.ID).Err(err).Msg("no TLS handshake")
			l.unaccepted(s.conn)
			return
		}
		s.conn = secured
		to.post(func(l *loop) { l.adopt(s) })
	}()
}

// unaccepted closes a connection that has been counted and becomes no session.
func (l *loop) unaccepted(c conn) {
	c.close()
	l.srv.connected.Add(-1)
}

// secureConn performs the handshake on a connection. The descriptor stays open if it fails.
func secureConn(ctx context.Context, c conn, config *tls.Config) (*secure, error) {
	key, err := publicKey(config)
	if err != nil {
		return nil, err
	}
	early, err := blockingConn(c.fd())
	if err != nil {
		return nil, err
	}
	wire := &tlsWire{sock: c, early: early}
	t := tls.Server(wire, config)
	stop := context.AfterFunc(ctx, func() { _ = early.SetDeadline(time.Unix(1, 0)) })
	err = t.Handshake()
	if stop() && err == nil {
		err = ctx.Err()
	} else if err == nil {
		err = context.Canceled
	}
	_ = early.Close() // a duplicate of the descriptor
	if err != nil {
		return nil, err
	}
	wire.early = nil
	// What came behind the handshake stands in crypto/tls already.
	return &secure{tls: t, wire: wire, key: key, more: true}, nil
}
