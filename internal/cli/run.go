package cli

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/ioengine/aegis"
	"cvmstore/keyspace"
	"cvmstore/resp"
	"cvmstore/resp/command"
	"cvmstore/volume"
)

const (
	// stopTimeout bounds how long a stop waits for replies, and then for the last commit.
	stopTimeout = 30 * time.Second
	// reopenTimeout bounds a recovery in place.
	reopenTimeout = 10 * time.Minute
	// fencedTimeout bounds how long a fenced server goes on telling its clients so.
	fencedTimeout = time.Second
	// fencedPoll is how often the volume is asked whether it was fenced. Clients are told at once; this is the process.
	fencedPoll = 100 * time.Millisecond
)

// run serves clients until ctx ends, a client sends SHUTDOWN, or the volume was fenced. It closes the volume. A volume that
// failed otherwise goes on answering what it can (DESIGN.md 4.5).
func run(ctx context.Context, o *options, log zerolog.Logger, v *volume.Volume, space *keyspace.Space, p *parts) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	volumes := newOpened(v, space, o.reopen)
	server, err := resp.New(resp.Options{
		Reload: volumes.reload(), Exposed: func(c resp.Config) error { return exposed(c, o.insecurePort) },
		Config: o.server, Volume: v, Space: space, Log: log, Version: Version,
		Info:       append([]command.Field{{Name: "aegis_implementation", Value: aegis.Implementation()}}, o.nvme.fields()...),
		OnShutdown: stop, Receipts: p.receipts(), Attested: p.attested(),
		ConfigFile: o.configFile, Rewrite: o.rewrite(),
	})
	if err != nil {
		return errors.Join(err, closeVolume(v))
	}
	server.Start()
	stopHTTP, err := startHTTP(o, log, server)
	if err != nil {
		drain, done := context.WithTimeout(context.Background(), fencedTimeout)
		defer done()
		return errors.Join(err, server.Shutdown(drain), closeVolume(v))
	}
	defer stopHTTP()
	if o.startup != nil {
		o.startup.end("listeners")
		o.startup.report(log)
	}
	ready := log.Info()
	if addr := server.Addr(); addr != nil {
		ready = ready.Stringer("addr", addr)
	}
	if addr := server.TLSAddr(); addr != nil {
		ready = ready.Stringer("tls", addr)
	}
	if o.server.UnixSocket != "" {
		ready = ready.Str("unix", o.server.UnixSocket)
	}
	ready.Msg("ready to accept connections")

	stopMaintaining := maintain(ctx, volumes)
	defer stopMaintaining()
	grace := stopTimeout
	go reloadTLS(ctx, o, log, server)
	fenced := waitFenced(ctx, volumes)
	if fenced != nil {
		log.Error().Err(fenced).Msg("fenced: stopping")
		grace = fencedTimeout
	} else {
		log.Info().Msg("stopping: the last replies leave, then the volume closes")
	}
	drain, done := context.WithTimeout(context.Background(), grace)
	defer done()
	if err := server.Shutdown(drain); err != nil {
		log.Warn().Err(err).Msg("some clients were cut off before their replies left")
	}
	stopMaintaining()
	closed := closeVolume(volumes.Load())
	if fenced != nil {
		return fenced
	}
	if closed == nil {
		log.Info().Msg("stopped: everything is durable and committed")
	}
	return closed
}

// reloadTLS reads the certificates again when it is asked to, until ctx ends.
func reloadTLS(ctx context.Context, o *options, log zerolog.Logger, server *resp.Server) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.reload:
		}
		if err := server.ReloadTLS(); err != nil {
			log.Error().Err(err).Msg("certificates not reloaded: the old ones stay in use")
		} else if server.TLSAddr() != nil {
			log.Info().Msg("certificates reloaded")
		}
	}
}

// waitFenced returns nil when ctx ends, or the volume's error once another server has taken over.
func waitFenced(ctx context.Context, volumes *opened) error {
	tick := time.NewTicker(fencedPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := volumes.Load().Err(); errors.Is(err, volume.ErrFenced) || errors.Is(err, epoch.ErrFenced) {
			return err
		}
	}
}

func closeVolume(v *volume.Volume) error {
	ctx, done := context.WithTimeout(context.Background(), stopTimeout)
	defer done()
	return v.Close(ctx)
}
