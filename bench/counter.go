package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/boltstore"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/service"
	"cvmstore/epoch/wire"
)

// CounterOptions say how Counter measures.
type CounterOptions struct {
	Stores int           // that commit at the same time, each one after another
	Time   time.Duration // of measuring
	Dir    string        // where the service's database lies; empty: a temporary directory
}

// Counter measures the trusted counter service: commits a second over loopback TLS from several stores, each with a connection
// of its own and one commit in flight, durable before they are answered. Service and clients share the machine.
func Counter(ctx context.Context, o CounterOptions, out io.Writer) error {
	dir, err := os.MkdirTemp(o.Dir, "cvmstore-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	rig, err := newCounterRig(ctx, filepath.Join(dir, "counter.db"), service.Limits{Rate: 1e9, Burst: 1e9})
	if err != nil {
		return err
	}
	defer rig.close()
	type result struct {
		took []time.Duration
		err  error
	}
	results := make([]result, o.Stores)
	var ready, all sync.WaitGroup
	ready.Add(o.Stores)
	start := make(chan struct{})
	for i := range o.Stores {
		all.Go(func() {
			c, opened, err := rig.store(ctx, epoch.StoreID{15: byte(i), 14: byte(i >> 8)})
			ready.Done()
			if err != nil {
				results[i].err = err
				return
			}
			defer c.Close() //nolint:errcheck // nothing to lose
			<-start
			results[i].took, results[i].err = commitFor(c, opened, o.Time)
		})
	}
	ready.Wait()
	batches, updates := rig.db.Batching()
	close(start)
	all.Wait()
	b, u := rig.db.Batching()
	var took []time.Duration
	for _, r := range results {
		err = errors.Join(err, r.err)
		took = append(took, r.took...)
	}
	if err != nil {
		return err
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(time.Microsecond) }
	fmt.Fprintf(out, "%d stores, %v: %d commits, %.0f a second; p50 %v, p99 %v, worst %v; %.1f commits a flush\n",
		o.Stores, o.Time, len(took), float64(len(took))/o.Time.Seconds(), at(0.5), at(0.99), at(1), float64(u-updates)/float64(max(b-batches, 1)))
	record(out, Figure{Experiment: "counter", Name: fmt.Sprintf("commits of %d stores", o.Stores), Unit: "commits/s", Value: float64(len(took)) / o.Time.Seconds()})
	record(out, Figure{Experiment: "counter", Name: "commit, p99", Unit: "ms", Value: float64(at(0.99).Microseconds()) / 1000, AtMost: true})
	return nil
}

func commitFor(c *remote.Client, r epoch.Record, d time.Duration) (took []time.Duration, err error) {
	for begin := time.Now(); time.Since(begin) < d; {
		req := epoch.CommitRequest{Store: r.Store, Gen: r.Gen, Expected: r.Current.Tag, Value: r.Current.Value + 1}
		if _, err := rand.Read(req.Tag[:]); err != nil {
			return nil, err
		}
		start := time.Now()
		done := make(chan error, 1)
		c.Commit(req, func(_ epoch.Stamp, err error) { done <- err })
		if err := <-done; err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
		if r, err = r.Apply(req); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// counterRig is a service in this process, on loopback, and what its clients need.
type counterRig struct {
	db      *boltstore.Store
	service *service.Service
	server  *service.Server
	id      wire.Identity
	served  chan error
}

func newCounterRig(ctx context.Context, path string, limits service.Limits) (*counterRig, error) {
	_, sign, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	db, err := boltstore.Open(path)
	if err != nil {
		return nil, err
	}
	r := &counterRig{db: db, served: make(chan error, 1)}
	if r.service, err = service.New(ctx, service.Options{Store: db, Sign: sign, Log: zerolog.Nop()}); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	cert, id, err := selfSigned()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	r.id = id
	if r.server, err = service.Listen(r.service, "127.0.0.1:0", cert, limits, zerolog.Nop()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	go func() { r.served <- r.server.Serve() }()
	return r, nil
}

// store enrols a new client and opens a new store of its.
func (r *counterRig) store(ctx context.Context, id epoch.StoreID) (*remote.Client, epoch.Record, error) {
	cert, who, err := selfSigned()
	if err != nil {
		return nil, epoch.Record{}, err
	}
	if err := r.service.Enrol(ctx, who, "bench", service.RoleClient); err != nil {
		return nil, epoch.Record{}, err
	}
	c, err := remote.New(remote.Options{
		URLs: []string{"https://" + r.server.Addr().String()}, TLS: wire.PinnedTLS(cert, r.id), Key: r.service.PublicKey(),
	})
	if err != nil {
		return nil, epoch.Record{}, err
	}
	if err := c.Create(ctx, id); err != nil {
		return nil, epoch.Record{}, err
	}
	opened, err := c.Open(ctx, id)
	return c, opened.Record, err
}

func (r *counterRig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.server.Shutdown(ctx)
	<-r.served
	_ = r.db.Close()
}

func selfSigned() (tls.Certificate, wire.Identity, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, wire.Identity{}, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		return tls.Certificate{}, wire.Identity{}, err
	}
	id, err := wire.IdentityOf(public)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, id, err
}
