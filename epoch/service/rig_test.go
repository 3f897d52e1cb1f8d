package service_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/boltstore"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/service"
	"cvmstore/epoch/wire"
)

var storeA, storeB = epoch.StoreID{1}, epoch.StoreID{2}

// party is somebody with a key.
type party struct {
	cert tls.Certificate
	key  ed25519.PrivateKey
	id   wire.Identity
}

func newParty(t *testing.T) *party {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed)
	return must[*party](t)(partyFrom(seed))
}

func partyFrom(seed []byte) (*party, error) {
	private := ed25519.NewKeyFromSeed(seed)
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	id, err := wire.IdentityOf(private.Public())
	return &party{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, private, id}, err
}

func (p *party) public() [32]byte { return [32]byte(p.key.Public().(ed25519.PublicKey)) }

// rig is a service on loopback.
type rig struct {
	t       *testing.T
	db      *boltstore.Store
	service *service.Service
	server  *service.Server
	port    *party
	sign    *party
	clock   time.Time
}

func newRig(t *testing.T, l service.Limits) *rig {
	t.Helper()
	r := &rig{t: t, port: newParty(t), sign: newParty(t), clock: time.UnixMilli(1_000_000)}
	var err error
	if r.db, err = boltstore.Open(filepath.Join(t.TempDir(), "counter.db")); err != nil {
		t.Fatal(err)
	}
	r.service, err = service.New(context.Background(), service.Options{
		Store: r.db, Sign: r.sign.key, Log: zerolog.Nop(), Clock: func() time.Time { return r.clock },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.server, err = service.Listen(r.service, "127.0.0.1:0", r.port.cert, l, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = r.server.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = r.db.Close()
	})
	return r
}

// client returns somebody who is enrolled, and their client.
func (r *rig) client(role service.Role) (*party, *remote.Client) {
	r.t.Helper()
	p := newParty(r.t)
	if err := r.service.Enrol(context.Background(), p.id, "test", role); err != nil {
		r.t.Fatal(err)
	}
	return p, r.dial(p)
}

func (r *rig) dial(p *party) *remote.Client {
	r.t.Helper()
	return r.dialWith(p, func(*remote.Options) {})
}

func (r *rig) dialWith(p *party, tune func(*remote.Options)) *remote.Client {
	r.t.Helper()
	o := remote.Options{
		TLS:     wire.PinnedTLS(p.cert, r.port.id),
		Timeout: 10 * time.Second, Backoff: time.Millisecond,
	}
	if r.server != nil {
		o.URLs, o.Key = []string{"https://" + r.server.Addr().String()}, r.service.PublicKey()
	}
	tune(&o)
	c, err := remote.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func commit(c epoch.Service, req epoch.CommitRequest) (epoch.Stamp, error) {
	type result struct {
		s   epoch.Stamp
		err error
	}
	done := make(chan result, 1)
	c.Commit(req, func(s epoch.Stamp, err error) { done <- result{s, err} })
	r := <-done
	return r.s, r.err
}

// next is the commit after a record.
func next(r epoch.Record) epoch.CommitRequest {
	v := r.Current.Value + 1
	return epoch.CommitRequest{Store: r.Store, Gen: r.Gen, Expected: r.Current.Tag, Value: v, Tag: epoch.Tag{0: byte(r.Gen), 1: byte(v), 31: 1}}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// opened makes store id for a new client and opens it.
func (r *rig) opened(id epoch.StoreID) (*party, *remote.Client, epoch.Record) {
	r.t.Helper()
	p, c := r.client(service.RoleClient)
	if err := c.Create(context.Background(), id); err != nil {
		r.t.Fatal(err)
	}
	return p, c, must[epoch.OpenReply](r.t)(c.Open(context.Background(), id)).Record
}
