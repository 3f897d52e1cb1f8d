package service

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
)

// What the operator does. None of it can open or commit a store; the orders need the owner's signature.

// StoreInfo is what the operator sees of a store, and what JSON carries.
type StoreInfo struct {
	Store       string   `json:"store"`
	Generation  uint64   `json:"generation"`
	Value       uint64   `json:"value"`
	Tag         string   `json:"tag"`
	CommittedBy uint64   `json:"committed_by"`
	Frozen      bool     `json:"frozen"`
	StampMs     int64    `json:"stamp_ms"`
	Opener      string   `json:"opener"`
	Owner       string   `json:"owner"`
	Identities  []string `json:"identities"`
}

// pageMax bounds a page of a listing.
const pageMax = 500

func (e *entry) info() StoreInfo {
	r := &e.record
	i := StoreInfo{
		Store: hex.EncodeToString(r.Store[:]), Generation: uint64(r.Gen), Value: uint64(r.Current.Value),
		Tag: hex.EncodeToString(r.Current.Tag[:]), CommittedBy: uint64(r.Current.Gen), Frozen: e.frozen, StampMs: int64(e.stamp),
		Opener: hex.EncodeToString(e.opener[:]), Owner: hex.EncodeToString(e.owner[:]),
	}
	for _, o := range e.identities {
		i.Identities = append(i.Identities, hex.EncodeToString(o.id[:]))
	}
	return i
}

// Stores lists up to limit stores after a given one.
func (s *Service) Stores(ctx context.Context, after string, limit int) ([]StoreInfo, error) {
	page, err := s.store.List(ctx, storePrefix, storePrefix+after, min(limit, pageMax))
	if err != nil {
		return nil, err
	}
	list := []StoreInfo{}
	for _, p := range page {
		e, err := decodeEntry(p.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Key, err)
		}
		list = append(list, e.info())
	}
	return list, nil
}

// Identities lists up to limit enrolled identities after a given one.
func (s *Service) Identities(ctx context.Context, after string, limit int) ([]Enrolled, error) {
	page, err := s.store.List(ctx, identityPrefix, identityPrefix+after, min(limit, pageMax))
	if err != nil {
		return nil, err
	}
	list := []Enrolled{}
	for _, p := range page {
		e, _, err := decodeEnrolled(p)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// CreateFor makes the record of a new store that id may open; once: until its first opening commit.
func (s *Service) CreateFor(ctx context.Context, store epoch.StoreID, id wire.Identity, once bool, owner [32]byte) error {
	_, err := s.create(ctx, &entry{record: epoch.Record{Store: store}, owner: owner, identities: []opener{{id: id, once: once}}})
	return err
}

// Allow lets one more identity open a store. It fences nobody. Identities that are spent make room.
func (s *Service) Allow(ctx context.Context, store epoch.StoreID, id wire.Identity, once bool) error {
	_, err := s.update(ctx, store, func(e *entry) error {
		if e.find(id) >= 0 {
			return nil
		}
		if len(e.identities) == openersMax {
			i := slices.IndexFunc(e.identities, func(o opener) bool { return o.spent && o.id != e.opener })
			if i < 0 {
				return fmt.Errorf("%d identities may open this store already: disallow one first: %w", openersMax, epoch.ErrForbidden)
			}
			e.identities = slices.Delete(e.identities, i, i+1)
		}
		e.identities = append(e.identities, opener{id: id, once: once})
		return nil
	})
	return err
}

// Disallow takes an identity's right to open and commit a store away.
func (s *Service) Disallow(ctx context.Context, store epoch.StoreID, id wire.Identity) error {
	_, err := s.update(ctx, store, func(e *entry) error {
		e.identities = slices.DeleteFunc(e.identities, func(o opener) bool { return o.id == id })
		return nil
	})
	return err
}

// Freeze stops a store's commits and opens, or lets them go on.
func (s *Service) Freeze(ctx context.Context, store epoch.StoreID, frozen bool) error {
	_, err := s.update(ctx, store, func(e *entry) error {
		e.frozen = frozen
		return nil
	})
	if err == nil {
		s.log.Warn().Hex("store", store[:]).Bool("frozen", frozen).Msg("by the operator")
	}
	return err
}

// CarryOut carries out an owner's order. owner and id are for a recreate: whose order it is, and who may open the store then.
func (s *Service) CarryOut(ctx context.Context, order []byte, owner [32]byte, id wire.Identity) error {
	o, err := wire.ParseOrder(order)
	if err != nil {
		return err
	}
	if o.Instance != s.instance {
		return fmt.Errorf("the order is for another service (instance %x, this is %x): %w", o.Instance, s.instance, wire.ErrOrder)
	}
	switch o.Kind {
	case wire.OrderRollback:
		_, err = s.update(ctx, o.Store, func(e *entry) error {
			if err := wire.VerifyOrder(e.owner[:], order); err != nil {
				return err
			}
			next, err := e.record.RolledBack(o.Gen, o.Tag, epoch.State{Value: o.Value, Tag: o.Target})
			if err != nil {
				return err
			}
			e.record, e.opener = next, wire.Identity{}
			return nil
		})
	case wire.OrderRecreate:
		if err := wire.VerifyOrder(owner[:], order); err != nil {
			return err
		}
		if o.Value == 0 || o.Target == (epoch.Tag{}) || o.Gen == 0 {
			return fmt.Errorf("%w: it names no state", wire.ErrMalformed)
		}
		_, err = s.create(ctx, &entry{
			record: epoch.Record{Store: o.Store, Gen: o.Gen, Current: epoch.State{Value: o.Value, Tag: o.Target}, Floor: o.Value},
			owner:  owner, identities: []opener{{id: id}},
		})
	}
	if err == nil {
		s.log.Warn().Hex("store", o.Store[:]).Stringer("order", o.Kind).Uint64("value", uint64(o.Value)).Msg("carried out by the owner's order")
	}
	return err
}

// operatorRequest is the JSON body of the operator's requests; each uses some of the fields.
type operatorRequest struct {
	Identity string `json:"identity,omitempty"`
	Name     string `json:"name,omitempty"`
	Role     Role   `json:"role,omitempty"`
	Once     bool   `json:"once,omitempty"`
	Store    string `json:"store,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Order    string `json:"order,omitempty"`
}

func parseOperator(body []byte) (r operatorRequest, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, errors.Join(wire.ErrMalformed, err)
	}
	return r, nil
}

func (r *operatorRequest) owner() (key [32]byte, err error) {
	if r.Owner == "" {
		return key, nil
	}
	b, err := hex.DecodeString(r.Owner)
	if err != nil || len(b) != len(key) {
		return key, fmt.Errorf("%w: an owner's key is 64 hexadecimal digits", wire.ErrMalformed)
	}
	return [32]byte(b), nil
}

// ParseStore reads a store's hexadecimal id.
func ParseStore(text string) (id epoch.StoreID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%w: a store id is 32 hexadecimal digits", wire.ErrMalformed)
	}
	return epoch.StoreID(b), nil
}
