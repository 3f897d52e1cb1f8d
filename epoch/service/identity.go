package service

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
)

// Role is what an enrolled identity may do.
type Role string

// The roles. A client opens and commits stores that name it, and creates a bounded number of its own; an operator enrols,
// lists, freezes and carries orders, and can neither open nor commit.
const (
	RoleClient   Role = "client"
	RoleOperator Role = "operator"
)

// Enrolled is one identity that the service talks to.
type Enrolled struct {
	Identity string `json:"identity"` // hexadecimal
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	Created  int    `json:"created"` // stores
}

// Caller is who asks: the TLS layer has checked that it holds the identity's key.
type Caller struct {
	ID   wire.Identity
	Role Role
}

const (
	identityPrefix = "identity/"
	nameMax        = 64
	createdMax     = 64 // stores that one client may create by itself
	enrolledMax    = 100_000
)

func identityKey(id wire.Identity) string { return identityPrefix + hex.EncodeToString(id[:]) }

// roll is who is enrolled, in memory: a handshake asks it and no disk. It is read when the service starts and again by Refresh,
// for what other members of a replicated service enrolled.
type roll struct {
	mu   sync.RWMutex
	list map[wire.Identity]Role
}

func (r *roll) role(id wire.Identity) (Role, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	role, ok := r.list[id]
	return role, ok
}

// Refresh reads the list of enrolled identities again.
func (s *Service) Refresh(ctx context.Context) error {
	list := map[wire.Identity]Role{}
	for after := identityPrefix; ; {
		page, err := s.store.List(ctx, identityPrefix, after, pageMax)
		if err != nil {
			return err
		}
		for _, p := range page {
			e, id, err := decodeEnrolled(p)
			if err != nil {
				return err
			}
			list[id] = e.Role
			after = p.Key
		}
		if len(page) < pageMax {
			break
		}
	}
	s.roll.mu.Lock()
	s.roll.list = list
	s.roll.mu.Unlock()
	return nil
}

func decodeEnrolled(p Pair) (e Enrolled, id wire.Identity, err error) {
	if err := json.Unmarshal(p.Value, &e); err != nil {
		return e, id, fmt.Errorf("%w: %s: %w", errEntry, p.Key, err)
	}
	id, err = ParseIdentity(strings.TrimPrefix(p.Key, identityPrefix))
	return e, id, err
}

// ParseIdentity reads an identity's hexadecimal form.
func ParseIdentity(text string) (id wire.Identity, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%w: an identity is 64 hexadecimal digits", wire.ErrMalformed)
	}
	return wire.Identity(b), nil
}

// Enrol makes an identity known, or changes its name and role.
func (s *Service) Enrol(ctx context.Context, id wire.Identity, name string, role Role) error {
	clean := len(name) <= nameMax && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
	if !clean || role != RoleClient && role != RoleOperator {
		return fmt.Errorf("%w: a name has up to %d printable characters, a role is client or operator", wire.ErrMalformed, nameMax)
	}
	s.roll.mu.RLock()
	full := len(s.roll.list) >= enrolledMax
	s.roll.mu.RUnlock()
	if full {
		return fmt.Errorf("%w: %d identities are enrolled", epoch.ErrForbidden, enrolledMax)
	}
	_, err := s.store.Update(ctx, identityKey(id), func(old []byte) ([]byte, error) {
		e := Enrolled{Identity: hex.EncodeToString(id[:])}
		if old != nil {
			if err := json.Unmarshal(old, &e); err != nil {
				return nil, errors.Join(errEntry, err)
			}
		}
		e.Name, e.Role = name, role
		return json.Marshal(e)
	})
	if err != nil {
		return err
	}
	s.roll.mu.Lock()
	s.roll.list[id] = role
	s.roll.mu.Unlock()
	return nil
}

// mayCreate counts a store against its creator's share, before it is made: a crash in between costs one.
func (s *Service) mayCreate(ctx context.Context, id wire.Identity) error {
	_, err := s.store.Update(ctx, identityKey(id), func(old []byte) ([]byte, error) {
		var e Enrolled
		if old == nil {
			return nil, fmt.Errorf("%w: not enrolled", epoch.ErrForbidden)
		}
		if err := json.Unmarshal(old, &e); err != nil {
			return nil, errors.Join(errEntry, err)
		}
		if e.Created >= createdMax {
			return nil, fmt.Errorf("%w: this identity has created %d stores; the operator can create more", epoch.ErrForbidden, createdMax)
		}
		e.Created++
		return json.Marshal(e)
	})
	return err
}
