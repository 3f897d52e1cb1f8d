package cli

import (
	"context"
	"crypto/tls"

	"cvmstore/resp"
	"cvmstore/resp/command"
	"cvmstore/seal/attest"
)

// reportsAtOnce bounds the reports that are asked for at the same time: the processor's firmware makes one after the other.
const reportsAtOnce = 2

// attested is how a server that got its keys by attestation shows its clients what it is; nil if it did not.
func (p *parts) attested() *resp.Attested {
	if p == nil || p.provisioned == nil {
		return nil
	}
	by := p.provisioned
	store := [16]byte(p.keys.StoreID())
	turns := make(chan struct{}, reportsAtOnce)
	return &resp.Attested{
		Cert: by.id.cert,
		Attest: func(ctx context.Context, nonce, tlsKey []byte, channel *tls.ConnectionState) (*command.Evidence, error) {
			b, err := attest.ClientBinding(store, nonce, tlsKey, channel)
			if err != nil {
				return nil, err
			}
			select {
			case turns <- struct{}{}:
				defer func() { <-turns }()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			e, err := by.attester.Attest(b.Data())
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			return &command.Evidence{Kind: string(e.Kind), Store: store, Report: e.Report, Certs: e.Certs}, nil
		},
	}
}
