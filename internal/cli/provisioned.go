package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/seal"
	"cvmstore/seal/attest"
	"cvmstore/seal/attest/simulated"
	"cvmstore/seal/provision"
)

// provisioned is what the trusted party released to this server.
type provisioned struct {
	keys    *seal.Keys
	id      *identityFile // a fresh key: the party registered it at the counter
	counter provision.Counter

	attester attest.Attester
	took     provision.Timing
}

// provisionKeys attests, and receives the keys of the store. The released settings take the place of those of file and flags:
// the party decides how its store is served.
func provisionKeys(ctx context.Context, o *options, log zerolog.Logger) (*provisioned, error) {
	c, err := provisionClient(o)
	if err != nil {
		return nil, err
	}
	id, err := newIdentity("cvmstore")
	if err != nil {
		return nil, err
	}
	c.Cert = id.cert
	log.Info().Str("party", o.provision).Str("attester", c.Attester.Name()).Hex("identity", id.id[:]).Msg("asking for the store's keys")
	r, took, err := c.Request(ctx)
	if err != nil {
		return nil, err
	}
	defer clear(r.KeyFile)
	keys, err := seal.ParseKeys(r.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("released keys: %w", err)
	}
	if keys.StoreID() != c.Store {
		keys.Wipe()
		return nil, errors.New("the party released the keys of another store")
	}
	if err := assign(o, "the trusted party's settings", r.Setting); err != nil {
		keys.Wipe()
		return nil, err
	}
	log.Info().Hex("store", c.Store[:]).Dur("challenge_ms", took.Challenge).Dur("attest_ms", took.Attest).Dur("release_ms", took.Release).
		Msg("attested: the trusted party released the keys")
	return &provisioned{keys: keys, id: id, counter: r.Counter, attester: c.Attester, took: took}, nil
}

func provisionClient(o *options) (*provision.Client, error) {
	c := &provision.Client{URL: o.provision}
	if err := c.Store.UnmarshalText([]byte(o.store)); err != nil {
		return nil, usageErrorf("--provision needs --store: %w", err)
	}
	pin, err := hex.DecodeString(o.provisionPin)
	if err != nil || len(pin) != len(c.Party) {
		return nil, usageErrorf("--provision needs --provision-pin: 64 hexadecimal digits, as cvmstore provision serve prints them")
	}
	c.Party = provision.Identity(pin)
	dir, simulate := strings.CutPrefix(o.attester, "simulated:")
	switch {
	case simulate:
		c.Attester, err = openSimulated(dir)
	case o.attester == "":
		c.Attester, err = attest.Guest(o.attestCerts)
	default:
		err = usageErrorf("--attester %s: empty, or simulated:DIR", o.attester)
	}
	return c, err
}

func openSimulated(dir string) (attest.Attester, error) {
	p, err := simulated.Open(dir)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// openProvisionedCounter uses the counter that the party named.
func (p *parts) openProvisionedCounter(o *options, log zerolog.Logger) error {
	c := p.provisioned.counter
	if c.URLs == "" {
		log.Warn().Msg("the trusted party names no counter service: the counter is a file of this machine, and protects against nothing that controls it")
		counter, err := epoch.NewEmbedded(o.counterPath())
		p.counter = counter
		return err
	}
	known, err := parsePin("the released pin", []byte(c.Pin))
	if err != nil {
		return err
	}
	return p.dialCounter(c.URLs, known, p.provisioned.id, log)
}
