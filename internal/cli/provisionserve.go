package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/wire"
	"cvmstore/seal/attest"
	"cvmstore/seal/provision"
)

type provisionServe struct {
	provisionDir
	Policy      string `default:"policy.toml" help:"Which VMs are accepted; configs/policy.toml explains each field."`
	Listen      string `default:"127.0.0.1:7434" help:"Where to listen."`
	CounterCert string `placeholder:"FILE" help:"Operator's key and certificate at the counter service: its operator.pem. Needed for stores that have one."`
	LogFormat   string `default:"auto" enum:"auto,console,json" help:"auto: console on a terminal, json otherwise."`
}

// Run serves until a signal.
func (c *provisionServe) Run(s *streams) error {
	ctx, log, stop := s.begin(c.LogFormat)
	defer stop()
	policy, err := attest.ReadPolicy(c.Policy)
	if err != nil {
		return usageError{err}
	}
	p, err := c.open(log)
	if err != nil {
		return err
	}
	defer p.audit.Close() //nolint:errcheck // each entry is durable
	_ = forbidDumps(log)  // it has warned
	id, _, err := identityAt(c.at(provisionIDPEM), "trusted party")
	if err != nil {
		return err
	}
	server := &provision.Server{Keys: p.keys, Verifier: &attest.Verifier{Policy: policy}, Audit: p.audit, Log: log}
	if c.CounterCert != "" {
		operator, err := readIdentity(c.CounterCert)
		if err != nil {
			return err
		}
		server.Registrar = &registrar{operator: operator, keys: p.keys}
	}
	return serveParty(ctx, c.Listen, server, id, log)
}

func serveParty(ctx context.Context, addr string, server *provision.Server, id *identityFile, log zerolog.Logger) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	h := &http.Server{
		Handler: server.Handler(), TLSConfig: provision.TLS(id.cert, nil),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: stdlog.New(io.Discard, "", 0), // the handler logs what matters; the rest is noise of scanners
	}
	log.Info().Stringer("addr", l.Addr()).Hex("pin", id.id[:]).Int("stores", len(server.Keys.Stores())).Msg("ready: the trusted party answers")
	context.AfterFunc(ctx, func() {
		stop, done := context.WithTimeout(context.Background(), stopTimeout)
		defer done()
		_ = h.Shutdown(stop)
	})
	if err := h.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// registrar is the party as the counter service's operator.
type registrar struct {
	operator *identityFile
	keys     *provision.KeyStore
}

// Admit implements provision.Registrar.
func (r *registrar) Admit(ctx context.Context, store provision.StoreID, vm provision.Identity, born bool) error {
	held, ok := r.keys.Stores()[store]
	if !ok {
		return provision.ErrUnknownStore
	}
	known, err := parsePin("the store's counter", []byte(held.Counter.Pin))
	if err != nil {
		return err
	}
	client, err := remote.New(remote.Options{
		URLs: strings.Split(held.Counter.URLs, ","), TLS: wire.PinnedTLS(r.operator.cert, known.identity), Key: known.key,
	})
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // connections only
	fields := map[string]any{
		"identity": hex.EncodeToString(vm[:]), "name": "attested", "role": "client", "once": true, "store": hex.EncodeToString(store[:]),
	}
	if err := client.Post(ctx, "enrol", fields); err != nil {
		return err
	}
	if !born {
		err := client.Post(ctx, "create", fields)
		if !errors.Is(err, epoch.ErrExists) {
			return err
		}
	}
	return client.Post(ctx, "allow", fields)
}
