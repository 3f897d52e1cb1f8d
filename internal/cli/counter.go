package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch/boltstore"
	"cvmstore/epoch/service"
	"cvmstore/epoch/wire"
)

// counterCommand is "cvmstore counter": the service, and what its operator does.
type counterCommand struct {
	Serve         counterServe         `cmd:"" default:"withargs" help:"Run the trusted counter service."`
	Identity      counterIdentity      `cmd:"" help:"Make the key and certificate of a client or an operator."`
	Enrol         counterEnrol         `cmd:"" help:"Make an identity known to the service."`
	List          counterList          `cmd:"" help:"List stores and identities."`
	Create        counterCreate        `cmd:"" help:"Make the record of a new store for an identity."`
	Allow         counterAllow         `cmd:"" help:"Let one more identity open a store."`
	Disallow      counterDisallow      `cmd:"" help:"Take an identity's right to a store away."`
	Freeze        counterFreeze        `cmd:"" help:"Stop a store's commits and opens."`
	Thaw          counterThaw          `cmd:"" help:"Let a frozen store go on."`
	Order         counterOrder         `cmd:"" help:"Sign an order as a store's owner: rollback or recreate. Offline."`
	CarryOut      counterCarryOut      `cmd:"" help:"Bring an owner's order to the service."`
	VerifyReceipt counterVerifyReceipt `cmd:"" help:"Check a receipt of CVM.RECEIPT. Offline."`
}

// Names in the service's directory.
const (
	counterDirDefault  = "./cvmstore-counter"
	counterAddrDefault = "127.0.0.1:7433"
	counterDBName      = "counter.db"
	counterTLSName     = "service.pem"
	counterSignName    = "sign.pem"
	counterOperator    = "operator.pem"
	counterPinName     = "service.pin"
)

// counterServe is "cvmstore counter serve".
type counterServe struct {
	Dir         string   `default:"./cvmstore-counter" help:"Directory of its database and keys; made with mode 0700 if it is missing."`
	Listen      string   `default:"127.0.0.1:7433" help:"Where to listen."`
	Etcd        []string `help:"Members of an etcd cluster that keeps the counters instead of a file in dir: HOST:PORT, with commas." placeholder:"LIST"`
	EtcdCert    string   `help:"Key and certificate for etcd, PEM in one file." placeholder:"FILE"`
	EtcdCA      string   `name:"etcd-ca" help:"Whose certificates etcd's members show, PEM. Without it etcd is spoken to in plaintext: loopback only." placeholder:"FILE"`
	Rate        float64  `default:"5000" help:"Requests a second of one identity before they are slowed down."`
	Connections int      `default:"16" help:"Connections of one identity."`
	LogFormat   string   `default:"auto" enum:"auto,console,json" help:"auto: console on a terminal, json otherwise."`
}

// Run serves until a signal.
func (c *counterServe) Run(s *streams) error {
	ctx, log, stop := s.begin(c.LogFormat)
	defer stop()
	return c.run(ctx, log)
}

func (c *counterServe) run(ctx context.Context, log zerolog.Logger) (err error) {
	if err := prepareDir(c.Dir, log); err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(c.Dir, name) }
	store, err := c.openStore(at(counterDBName), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	sign, _, err := identityAt(at(counterSignName), "statements")
	if err != nil {
		return err
	}
	port, _, err := identityAt(at(counterTLSName), "counter service")
	if err != nil {
		return err
	}
	operator, _, err := identityAt(at(counterOperator), "operator")
	if err != nil {
		return err
	}
	svc, err := service.New(ctx, service.Options{Store: store, Sign: sign.key, Log: log})
	if err != nil {
		return err
	}
	if err := svc.Enrol(ctx, operator.id, "operator", service.RoleOperator); err != nil {
		return err
	}
	p := pin{identity: port.id, key: svc.PublicKey(), instance: svc.Instance()}
	if err := os.WriteFile(at(counterPinName), p.text(), 0o644); err != nil {
		return err
	}
	return c.listen(ctx, log, svc, port.cert)
}

// openStore opens the back end.
func (c *counterServe) openStore(path string, log zerolog.Logger) (service.Store, error) {
	if len(c.Etcd) > 0 {
		return c.openEtcd(log)
	}
	log.Warn().Msg("one file holds all counters: whoever puts an older one back rolls every store back. Keep it where the stores' " +
		"hosts have no access, never restore it from a backup, or use a replicated back end (docs/OPERATIONS.md)")
	return boltstore.Open(path)
}

func (c *counterServe) listen(ctx context.Context, log zerolog.Logger, svc *service.Service, cert tls.Certificate) error {
	server, err := service.Listen(svc, c.Listen, cert, service.Limits{Rate: c.Rate, PerIdentity: c.Connections}, log)
	if err != nil {
		return err
	}
	id, instance := svc.PublicKey(), svc.Instance()
	log.Info().Str("version", Version).Stringer("addr", server.Addr()).Hex("key", id).Hex("instance", instance[:]).
		Int("protocol", wire.Version).Msg("ready: the trusted counter service answers")
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	refresh := time.NewTicker(refreshInterval)
	defer refresh.Stop()
	for {
		select {
		case err := <-served:
			return err
		case <-refresh.C:
			if err := svc.Refresh(ctx); err != nil && ctx.Err() == nil {
				log.Warn().Err(err).Msg("the list of identities could not be read again")
			}
		case <-ctx.Done():
			stop, done := context.WithTimeout(context.Background(), stopTimeout)
			defer done()
			err := errors.Join(server.Shutdown(stop), <-served)
			if err == nil {
				log.Info().Msg("stopped: everything that was answered is durable")
			}
			return err
		}
	}
}

// refreshInterval is how soon another member's enrolments are known.
const refreshInterval = 5 * time.Second
