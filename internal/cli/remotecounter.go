package cli

import (
	"crypto/ed25519"
	"strings"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/wire"
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
