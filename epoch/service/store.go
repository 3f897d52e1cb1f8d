package service

import (
	"context"
	"errors"
)

// Store keeps small values by key. A value's owner is the store: callers do not change what they get.
type Store interface {
	// Update replaces the value of a key (nil: there is none) by what change makes of it, as one step that no other update
	// of that key comes between, and returns the new value once it is durable. change may run more than once and must have no
	// other effect. If change fails nothing is changed and its error is returned; if it returns the value that it got,
	// nothing is written. ErrOutcomeUnknown: it may have happened.
	Update(ctx context.Context, key string, change func(old []byte) ([]byte, error)) ([]byte, error)
	// Get returns the value of a key, nil if there is none: the newest that any Update has returned, never an older one.
	Get(ctx context.Context, key string) ([]byte, error)
	// List returns up to limit pairs whose keys begin with prefix and are greater than after, in order.
	List(ctx context.Context, prefix, after string, limit int) ([]Pair, error)
	Close() error
}

// Pair is one key and its value.
type Pair struct {
	Key   string
	Value []byte
}

// ErrOutcomeUnknown is an update that may have happened.
var ErrOutcomeUnknown = errors.New("the store did not answer: outcome unknown")
