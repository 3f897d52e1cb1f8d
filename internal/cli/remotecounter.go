package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/wire"
	"cvmstore/resp"
)

// remoteCounter is the counter service as one server sees it.
type remoteCounter struct {
	client *remote.Client
	vm     ed25519.PrivateKey // whose identity the service knows; signs receipts
}

// openCounter opens the embedded counter, or gets ready to ask the service.
func (p *parts) openCounter(o *options, log zerolog.Logger) (err error) {
	if p.provisioned != nil {
		return p.openProvisionedCounter(o, log)
	}
	if o.counterURL == "" {
		p.counter, err = epoch.NewEmbedded(o.counterPath())
		return err
	}
	if o.counterPin == "" {
		return usageErrorf("--counter needs --counter-pin: the service's file service.pin, by which its key is known")
	}
	known, err := readPin(o.counterPin)
	if err != nil {
		return err
	}
	id, made, err := identityAt(o.identityPath(), "cvmstore")
	if err != nil {
		return err
	}
	if made {
		log.Warn().Hex("identity", id.id[:]).Str("file", o.identityPath()).
			Msg("made a new identity; the counter's operator enrols it: cvmstore counter enrol --identity ...")
	}
	return p.dialCounter(o.counterURL, known, id, log)
}

// dialCounter gets ready to ask the service at urls.
func (p *parts) dialCounter(urls string, known *pin, id *identityFile, log zerolog.Logger) error {
	store := p.keys.StoreID()
	log.Info().Str("counter", urls).Hex("identity", id.id[:]).Hex("store", store[:]).Msg("freshness comes from a counter service")
	client, err := remote.New(remote.Options{
		URLs: strings.Split(urls, ","), TLS: wire.PinnedTLS(id.cert, known.identity), Key: known.key,
	})
	if err != nil {
		return usageError{err}
	}
	p.counter, p.remote = client, &remoteCounter{client: client, vm: id.key}
	return nil
}

func (p *parts) counterName(o *options) string {
	if p.remote != nil {
		return o.counterURL
	}
	return o.counterPath()
}

// Receipt implements resp.Receipter: the service signs a Read whose nonce is the claim, and the VM signs both.
func (r *remoteCounter) Receipt(ctx context.Context, claim wire.Claim) ([]byte, error) {
	read, signed, err := r.client.ReadSigned(ctx, claim.Store, claim.Nonce())
	if err != nil {
		return nil, err
	}
	if read.Record.Gen != claim.Gen || read.Record.Current.Gen != claim.Gen || read.Record.Current.Value < claim.Counter {
		return nil, fmt.Errorf("generation %d is no longer in charge: %w", claim.Gen, epoch.ErrFenced)
	}
	return wire.SealReceipt(&claim, signed, r.vm), nil
}

// receipts is what signs them, nil without a service.
func (p *parts) receipts() resp.Receipter {
	if p == nil || p.remote == nil {
		return nil
	}
	return p.remote
}

// lease is the fresh lease: without a service there is nobody who could fence this server and not be seen by it.
func (p *parts) lease(o *options) time.Duration {
	if p.remote == nil {
		return 0
	}
	return time.Duration(o.freshLease) * time.Millisecond
}
