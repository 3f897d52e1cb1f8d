// Package ops shows a running server to those who operate it: metrics for Prometheus, health, and a status page. In come snapshots
// of figures (Source) and the question who may see them; out goes HTTP. It changes nothing, and costs the event loops nothing.
package ops

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	"cvmstore/resp"
)

// Source is what is shown; *resp.Server satisfies it.
type Source interface {
	Figures() resp.Figures
	// MayWatch reports whether a user with this password may see it.
	MayWatch(remote, user, password string) bool
}

// Options say how to show it.
type Options struct {
	Addr   string // host:port
	Token  string // that may see everything, beside the users; empty: none
	Source Source
	Log    zerolog.Logger
	// TLS, if there is one, is asked for a configuration at each handshake.
	TLS *tls.Config
	// Certificates are watched: the soonest end is a metric.
	CertificateEnd func() time.Time
}

// Server answers until Close.
type Server struct {
	o       Options
	http    *http.Server
	addr    net.Addr
	history history
	stop    context.CancelFunc
}

const (
	// requestTimeout bounds each part of a request, headerMax its head.
	requestTimeout = 10 * time.Second
	headerMax      = 16 << 10
	// connectionsMax bounds the connections; others wait.
	connectionsMax = 64
)

// Start listens and serves.
func Start(o Options) (*Server, error) {
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{o: o, addr: ln.Addr(), stop: stop}
	s.http = &http.Server{
		Handler: s.handler(), ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: headerMax, TLSConfig: o.TLS,
	}
	ln = netutil.LimitListener(ln, connectionsMax)
	if o.TLS != nil {
		ln = tls.NewListener(ln, o.TLS)
	}
	go s.history.sample(ctx, o.Source)
	go func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error().Err(err).Msg("the status page has stopped")
		}
	}()
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.addr }

// Close ends it.
func (s *Server) Close() {
	s.stop()
	_ = s.http.Close()
}

func (s *Server) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		&collector{s.o.Source, s.o.CertificateEnd}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.guarded(promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: requestTimeout})))
	mux.Handle("GET /status.json", s.guarded(http.HandlerFunc(s.status)))
	for _, f := range []struct{ path, name, kind string }{
		{"/{$}", "page.html", "text/html; charset=utf-8"}, {"/page.css", "page.css", "text/css"}, {"/page.js", "page.js", "text/javascript"},
	} {
		body, err := page.ReadFile("page/" + f.name)
		if err != nil {
			panic("internal error: ops: " + err.Error())
		}
		mux.Handle("GET "+f.path, s.guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", f.kind)
			_, _ = w.Write(body)
		})))
	}
	return secure(mux)
}

// secure sets the headers that keep a browser to this origin.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// guarded asks for a login: a user who may run INFO, or the token.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.allowed(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="cvmstore", charset="UTF-8"`)
			http.Error(w, "log in as a user who may run INFO, or with the token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) allowed(r *http.Request) bool {
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && s.o.Token != "" {
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.o.Token))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	}
	user, password, ok := r.BasicAuth()
	if !ok {
		return false
	}
	if user == "" {
		user = "default"
	}
	return s.o.Source.MayWatch(r.RemoteAddr, user, password)
}

// health says that the process answers, and whether it still writes.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	f := s.o.Source.Figures()
	if f.Volume.Failure != nil {
		http.Error(w, "writing has stopped", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// ready says whether clients should be sent here.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	f := s.o.Source.Figures()
	switch v := &f.Volume; {
	case f.Stopping:
		http.Error(w, "stopping", http.StatusServiceUnavailable)
	case v.Failure != nil:
		http.Error(w, "writing has stopped", http.StatusServiceUnavailable)
	case v.Lease > 0 && v.LeaseLeft < 0:
		http.Error(w, "the trusted counter has not confirmed this server lately", http.StatusServiceUnavailable)
	case v.Full:
		http.Error(w, "the volume is full", http.StatusServiceUnavailable)
	default:
		_, _ = w.Write([]byte("ready\n"))
	}
}
