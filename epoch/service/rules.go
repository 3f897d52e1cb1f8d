package service

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
)

// Service carries requests out on a Store. Its methods may be called from any goroutine.
type Service struct {
	store    Store
	sign     ed25519.PrivateKey
	instance wire.Instance
	log      zerolog.Logger
	roll     roll
	clock    func() time.Time
	newest   atomic.Int64 // the largest stamp given out
}

// Options of New. The signing key is what clients verify statements with; several services on one replicated store share it.
type Options struct {
	Store Store
	Sign  ed25519.PrivateKey
	Clock func() time.Time // nil: the machine's
	Log   zerolog.Logger
}

const instanceKey = "meta/instance"

// New returns the service of a store, whose instance it makes if it is new. The store stays the caller's to close.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{store: o.Store, sign: o.Sign, clock: o.Clock, log: o.Log}
	if s.clock == nil {
		s.clock = time.Now
	}
	var fresh wire.Instance
	if _, err := rand.Read(fresh[:]); err != nil {
		return nil, err
	}
	b, err := s.store.Update(ctx, instanceKey, func(old []byte) ([]byte, error) {
		if old == nil {
			return fresh[:], nil
		}
		return old, nil
	})
	if err != nil {
		return nil, fmt.Errorf("counter service: %w", err)
	}
	if len(b) != len(s.instance) {
		return nil, fmt.Errorf("counter service: instance: %w", errEntry)
	}
	s.instance = wire.Instance(b)
	if err := s.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("counter service: identities: %w", err)
	}
	return s, nil
}

// Instance returns which database this is.
func (s *Service) Instance() wire.Instance { return s.instance }

// PublicKey returns the key that verifies statements.
func (s *Service) PublicKey() ed25519.PublicKey { return s.sign.Public().(ed25519.PublicKey) }

// now is the service's clock, which does not go back while it runs; entries keep it from going back over a restart.
func (s *Service) now() epoch.Stamp {
	t := s.clock().UnixMilli()
	for {
		old := s.newest.Load()
		if t <= old {
			return epoch.Stamp(old)
		}
		if s.newest.CompareAndSwap(old, t) {
			return epoch.Stamp(t)
		}
	}
}

// update changes the entry of a store that exists.
func (s *Service) update(ctx context.Context, id epoch.StoreID, change func(*entry) error) (*entry, error) {
	b, err := s.store.Update(ctx, storeKey(id), func(old []byte) ([]byte, error) {
		e, err := decodeEntry(old)
		if err != nil {
			return nil, err
		}
		if e == nil {
			return nil, fmt.Errorf("store %x: %w", id, epoch.ErrNoRecord)
		}
		if err := change(e); err != nil {
			return nil, err
		}
		if bytes.Equal(e.encode(), old) {
			return old, nil // a retry or a renewal: nothing to write
		}
		e.stamp = e.stamped(s.now())
		return e.encode(), nil
	})
	if err != nil {
		return nil, err
	}
	return decodeEntry(b)
}

// admit says whether who may use a store's record.
func admit(e *entry, who Caller) error {
	if who.Role != RoleClient || e.find(who.ID) < 0 {
		return fmt.Errorf("store %x is not this identity's: %w", e.record.Store, epoch.ErrForbidden)
	}
	return nil
}

// Create makes the record of a new store for the client that asks. A repeated Create of the same, not yet opened, is the same.
func (s *Service) Create(ctx context.Context, who Caller, id epoch.StoreID, owner [32]byte) (epoch.Stamp, error) {
	if who.Role != RoleClient {
		return 0, fmt.Errorf("an operator names the identity that may open it: %w", epoch.ErrForbidden)
	}
	first := &entry{record: epoch.Record{Store: id}, owner: owner, identities: []opener{{id: who.ID}}}
	if b, err := s.store.Get(ctx, storeKey(id)); err != nil {
		return 0, err
	} else if b == nil {
		if err := s.mayCreate(ctx, who.ID); err != nil {
			return 0, err
		}
	}
	return s.create(ctx, first)
}

func (s *Service) create(ctx context.Context, first *entry) (epoch.Stamp, error) {
	first.stamp = s.now()
	b, err := s.store.Update(ctx, storeKey(first.record.Store), func(old []byte) ([]byte, error) {
		if old == nil {
			return first.encode(), nil
		}
		e, err := decodeEntry(old)
		if err != nil {
			return nil, err
		}
		if e.record == first.record && e.owner == first.owner && len(e.identities) == 1 && e.identities[0] == first.identities[0] {
			return old, nil
		}
		return nil, fmt.Errorf("store %x: %w", first.record.Store, epoch.ErrExists)
	})
	if err != nil {
		return 0, err
	}
	e, err := decodeEntry(b)
	if err != nil {
		return 0, err
	}
	return e.stamp, nil
}

// Open makes a new generation and returns the signed statement about it.
func (s *Service) Open(ctx context.Context, who Caller, id epoch.StoreID, nonce wire.Nonce) ([]byte, error) {
	st := wire.Statement{Op: wire.OpOpen, Instance: s.instance, Nonce: nonce}
	if _, err := rand.Read(st.Random[:]); err != nil {
		return nil, err
	}
	e, err := s.update(ctx, id, func(e *entry) error {
		if err := admit(e, who); err != nil {
			return err
		}
		switch o := e.identities[e.find(who.ID)]; {
		case e.frozen:
			return epoch.ErrFrozen
		case o.once && o.spent:
			return fmt.Errorf("this identity has opened store %x and committed; a restarted VM needs a new one: %w", id, epoch.ErrForbidden)
		}
		e.record, e.opener = e.record.Opened(), who.ID
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.log.Info().Hex("store", id[:]).Uint64("generation", uint64(e.record.Gen)).Hex("identity", who.ID[:8]).Msg("opened")
	st.Record, st.Opener, st.Stamp = e.record, e.opener, e.stamped(s.now())
	return st.Sign(s.sign), nil
}

// Read returns the signed statement about a record.
func (s *Service) Read(ctx context.Context, who Caller, id epoch.StoreID, nonce wire.Nonce) ([]byte, error) {
	b, err := s.store.Get(ctx, storeKey(id))
	if err != nil {
		return nil, err
	}
	e, err := decodeEntry(b)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, fmt.Errorf("store %x: %w", id, epoch.ErrNoRecord)
	}
	if err := admit(e, who); err != nil && who.Role != RoleOperator {
		return nil, err
	}
	st := wire.Statement{
		Op: wire.OpRead, Frozen: e.frozen, Record: e.record, Opener: e.opener, Instance: s.instance,
		Stamp: e.stamped(s.now()), Nonce: nonce,
	}
	return st.Sign(s.sign), nil
}

// Commit is the compare and swap of DESIGN.md section 9.
func (s *Service) Commit(ctx context.Context, who Caller, req *epoch.CommitRequest) (epoch.Stamp, error) {
	e, err := s.update(ctx, req.Store, func(e *entry) error {
		if err := admit(e, who); err != nil {
			return err
		}
		if e.frozen {
			return epoch.ErrFrozen
		}
		next, err := e.record.Apply(*req)
		if err != nil {
			return err
		}
		if e.opener != who.ID {
			return fmt.Errorf("generation %d was opened by another identity: %w", req.Gen, epoch.ErrForbidden)
		}
		if req.Opening && next != e.record {
			if i := e.find(who.ID); e.identities[i].once {
				e.identities[i].spent = true
			}
		}
		e.record = next
		return nil
	})
	if err != nil {
		return 0, err
	}
	return e.stamped(s.now()), nil
}
