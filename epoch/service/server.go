package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
)

// Server is the service's port.
type Server struct {
	service *Service
	limits  Limits
	fair    *fairness
	http    *http.Server
	ln      net.Listener
	log     zerolog.Logger
}

// headerBytesMax bounds a request's header: ours have about 200 bytes.
const headerBytesMax = 4 << 10

// Listen opens the port of a service at addr, with the service's certificate. Clients prove who they are by their
// certificate's key alone, which must be enrolled; names, issuers and dates in it count for nothing (DESIGN.md 4.7).
func Listen(s *Service, addr string, cert tls.Certificate, l Limits, log zerolog.Logger) (*Server, error) {
	l.setDefaults()
	srv := &Server{service: s, limits: l, fair: newFairness(l), log: log}
	plain, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("counter service: %w", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert,
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true, VerifyConnection: srv.verify,
	}
	srv.ln = tls.NewListener(&guardedListener{plain, srv.fair}, config)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	srv.http = &http.Server{
		Handler: srv.handler(), Protocols: protocols, ReadTimeout: l.RequestWindow, ReadHeaderTimeout: l.RequestWindow,
		WriteTimeout: 2 * l.RequestWindow, IdleTimeout: l.Idle, MaxHeaderBytes: headerBytesMax,
		ConnContext: withConn, ErrorLog: stdlog.New(refusals{log}, "", 0),
		DisableGeneralOptionsHandler: true,
	}
	return srv, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Serve answers until Shutdown or Close.
func (s *Server) Serve() error {
	err := s.http.Serve(s.ln)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops taking connections and waits for requests under way, until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	return errors.Join(err, s.http.Close())
}

// Refused returns how many connections and requests were turned away or slowed down.
func (s *Server) Refused() (refused, slowed uint64) {
	s.fair.mu.Lock()
	defer s.fair.mu.Unlock()
	return s.fair.refused, s.fair.slowed
}

// verify ends a handshake of somebody who is not enrolled. TLS has checked that the key is the peer's.
func (s *Server) verify(c tls.ConnectionState) error {
	id, err := wire.PeerIdentity(&c)
	if err != nil {
		return err
	}
	if _, ok := s.service.roll.role(id); !ok {
		return fmt.Errorf("identity %x is not enrolled", id)
	}
	return nil
}

type connKey struct{}

// withConn keeps the connection beside its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// caller says who sent a request, and counts its connection.
func (s *Server) caller(r *http.Request) (Caller, error) {
	conn, ok := r.Context().Value(connKey{}).(*tls.Conn)
	if !ok || r.TLS == nil {
		return Caller{}, epoch.ErrForbidden
	}
	id, err := wire.PeerIdentity(r.TLS)
	if err != nil {
		return Caller{}, err
	}
	// Asked again at each request: who was taken off the list while connected is refused from then on.
	role, ok := s.service.roll.role(id)
	if !ok {
		return Caller{}, fmt.Errorf("no longer enrolled: %w", epoch.ErrForbidden)
	}
	guarded, ok := conn.NetConn().(*guardedConn)
	if !ok || !guarded.identified(id) {
		return Caller{}, fmt.Errorf("more than %d connections: %w", s.limits.PerIdentity, wire.ErrSlowDown)
	}
	return Caller{ID: id, Role: role}, nil
}

// refusals carries net/http's complaints (failed handshakes, mostly) to the log, at most so many a second.
type refusals struct{ log zerolog.Logger }

var refusalSampler = &zerolog.BurstSampler{Burst: 10, Period: time.Second}

func (r refusals) Write(p []byte) (int, error) {
	l := r.log.Sample(refusalSampler)
	l.Warn().Str("reason", strings.Map(visible, strings.TrimSpace(string(p[:min(len(p), 300)])))).Msg("refused")
	return len(p), nil
}

func visible(r rune) rune {
	if r < ' ' || r > '~' {
		return '.'
	}
	return r
}
