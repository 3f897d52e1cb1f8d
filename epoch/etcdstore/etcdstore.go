// Package etcdstore keeps the counter service's values in an etcd cluster, so that the service outlives the loss of a member.
//
// An update is a linearizable read, then a transaction that compares the key's revision: it happens only if nobody else changed the
// key meanwhile, and it is in the log of a majority, flushed, before it answers. Reads are linearizable only: a member that was cut off
// from the majority cannot answer with what it last saw. What etcd cannot prevent is that its operator restores a snapshot on a
// majority of the members; that is why they belong in separate trust domains (docs/OPERATIONS.md).
package etcdstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cvmstore/epoch/service"
)

// Options of Open.
type Options struct {
	Endpoints []string    // of the members: host:port, or https://host:port with TLS
	TLS       *tls.Config // nil: plaintext, for loopback only
	Prefix    string      // before every key; default "cvmstore/counter/"
	Timeout   time.Duration
}

// Store is a service.Store in etcd.
type Store struct {
	client *clientv3.Client
	opts   Options
}

var _ service.Store = (*Store)(nil)

const (
	prefixDefault  = "cvmstore/counter/"
	timeoutDefault = 5 * time.Second
	conflictsMax   = 64 // of one update with others of the same key; each means that another one succeeded
)

// Open returns a store. It connects when it is first asked something.
func Open(o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = prefixDefault
	}
	if o.Timeout == 0 {
		o.Timeout = timeoutDefault
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: o.Endpoints, TLS: o.TLS, DialTimeout: o.Timeout, Logger: zap.NewNop(),
		DialKeepAliveTime: o.Timeout, DialKeepAliveTimeout: o.Timeout, // a member that is paused is found out
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return &Store{client: c, opts: o}, nil
}

// Update implements service.Store.
func (s *Store) Update(ctx context.Context, key string, change func([]byte) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	full := s.opts.Prefix + key
	for range conflictsMax {
		old, revision, err := s.get(ctx, full)
		if err != nil {
			return nil, err
		}
		next, err := change(old)
		if err != nil {
			return nil, err
		}
		if old != nil && bytes.Equal(next, old) {
			return old, nil
		}
		// Revision 0 is a key that does not exist, and compares as such.
		answer, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(full), "=", revision)).
			Then(clientv3.OpPut(full, string(next))).
			Commit()
		if err != nil {
			return nil, fmt.Errorf("%w: etcd: %w", service.ErrOutcomeUnknown, err)
		}
		if answer.Succeeded {
			return next, nil
		}
	}
	return nil, errors.New("etcd: too many others update this key")
}

// get is a linearizable read: the client's default, which is said here because everything depends on it.
func (s *Store) get(ctx context.Context, full string) (value []byte, revision int64, err error) {
	answer, err := s.client.Get(ctx, full)
	if err != nil {
		return nil, 0, fmt.Errorf("etcd: %w", err)
	}
	if len(answer.Kvs) == 0 {
		return nil, 0, nil
	}
	return answer.Kvs[0].Value, answer.Kvs[0].ModRevision, nil
}

// Get implements service.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	value, _, err := s.get(ctx, s.opts.Prefix+key)
	return value, err
}

// List implements service.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]service.Pair, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	from := max(prefix, after+"\x00")
	answer, err := s.client.Get(ctx, s.opts.Prefix+from,
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.opts.Prefix+prefix)), clientv3.WithLimit(int64(limit)))
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	list := make([]service.Pair, 0, len(answer.Kvs))
	for _, kv := range answer.Kvs {
		list = append(list, service.Pair{Key: strings.TrimPrefix(string(kv.Key), s.opts.Prefix), Value: kv.Value})
	}
	return list, nil
}

// Close ends the connections. Updates under way have an unknown outcome.
func (s *Store) Close() error { return s.client.Close() }
