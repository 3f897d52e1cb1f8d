package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/resp"
	"cvmstore/seal/attest"
	"cvmstore/seal/provision"
	"cvmstore/seal/ratls"
)

// proxyCommand is "cvmstore proxy": for clients that know nothing of attestation.
type proxyCommand struct {
	Server     string        `required:"" placeholder:"HOST:PORT" help:"The server's TLS port."`
	Policy     string        `default:"policy.toml" help:"Which VMs are accepted; configs/policy.toml explains each field."`
	Store      string        `placeholder:"HEX" help:"The store that the server must serve, 32 hexadecimal digits; empty: any."`
	Listen     string        `default:"127.0.0.1:6379" help:"Where clients of this machine connect: HOST:PORT on loopback, or unix:PATH."`
	Cert       string        `placeholder:"FILE" help:"Certificate and key to show to the server, PEM in one file, if it asks for one."`
	Timeout    time.Duration `default:"20s" help:"For connecting and attesting together."`
	MaxClients int           `default:"1000" help:"Connections at the same time."`
	LogFormat  string        `default:"auto" enum:"auto,console,json" help:"auto: console on a terminal, json otherwise."`
}

// proxy gives clients a local port. Each of their connections has one of its own to the server, attested before a byte passes.
type proxy struct {
	dialer  *ratls.Dialer
	server  string
	log     zerolog.Logger
	places  chan struct{}
	running sync.WaitGroup
}

// Run serves until a signal.
func (c *proxyCommand) Run(s *streams) error {
	ctx, log, stop := s.begin(c.LogFormat)
	defer stop()
	d, err := c.dialer()
	if err != nil {
		return err
	}
	l, err := c.listen()
	if err != nil {
		return err
	}
	p := &proxy{dialer: d, server: c.Server, log: log, places: make(chan struct{}, max(1, c.MaxClients))}
	log.Info().Stringer("addr", l.Addr()).Str("server", c.Server).Msg("ready: each connection is attested before it is used")
	return p.serve(ctx, l)
}

func (c *proxyCommand) dialer() (*ratls.Dialer, error) {
	policy, err := attest.ReadPolicy(c.Policy)
	if err != nil {
		return nil, usageError{err}
	}
	d := &ratls.Dialer{Verifier: &attest.Verifier{Policy: policy}, Timeout: c.Timeout}
	if c.Store != "" {
		var id provision.StoreID
		if err := id.UnmarshalText([]byte(c.Store)); err != nil {
			return nil, usageErrorf("--store: %w", err)
		}
		d.Store = (*[16]byte)(&id)
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Cert)
		if err != nil {
			return nil, fmt.Errorf("--cert %s: %w", c.Cert, err)
		}
		d.Cert = &pair
	}
	return d, nil
}

// listen opens the local port. What clients send to it is in the clear, so it is for this machine only.
func (c *proxyCommand) listen() (net.Listener, error) {
	if path, unix := strings.CutPrefix(c.Listen, "unix:"); unix {
		old := syscall.Umask(0o077)
		defer syscall.Umask(old)
		return net.Listen("unix", path)
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, usageErrorf("--listen: %w", err)
	}
	if err := exposed(resp.Config{Port: 1, Bind: []string{host}}, false); err != nil {
		return nil, err
	}
	return net.Listen("tcp", c.Listen)
}

// serve takes connections until ctx ends, then closes all of them.
func (p *proxy) serve(ctx context.Context, l net.Listener) error {
	defer p.running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	for {
		client, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = client.Close()
			}
			return nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
			p.log.Warn().Err(err).Msg("a client could not be accepted")
			select { // no busy loop while descriptors are short
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		if err != nil {
			return err
		}
		select {
		case p.places <- struct{}{}:
		default:
			refuseClient(client, "max number of clients reached")
			continue
		}
		p.running.Add(1)
		go func() {
			defer func() {
				<-p.places
				p.running.Done()
			}()
			p.carry(ctx, client)
		}()
	}
}

// acceptPause is how long a port without descriptors waits; refuseTimeout bounds telling a client why.
const (
	acceptPause   = 50 * time.Millisecond
	refuseTimeout = time.Second
)

// refuseClient tells a client why and closes.
func refuseClient(client net.Conn, why string) {
	_ = client.SetDeadline(time.Now().Add(refuseTimeout))
	_, _ = fmt.Fprintf(client, "-ERR cvmstore proxy: %s\r\n", strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, why))
	_ = client.Close()
}

// carry attests a server connection for a client and passes bytes both ways until one side ends or ctx does.
func (p *proxy) carry(ctx context.Context, client net.Conn) {
	server, facts, err := p.dialer.Dial(ctx, "tcp", p.server)
	if err != nil {
		p.log.Error().Err(err).Msg("client refused: the server is not what it must be")
		refuseClient(client, err.Error())
		return
	}
	p.log.Debug().Hex("measurement", facts.Measurement).Msg("attested")
	closeBoth := func() {
		_ = client.Close()
		_ = server.Close()
	}
	defer context.AfterFunc(ctx, closeBoth)()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(server, client)
		if half, ok := server.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // what was asked is still answered
		}
	}()
	_, _ = io.Copy(client, server)
	closeBoth()
	<-ended
}
