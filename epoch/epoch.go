// Package epoch owns the trusted counter: the words Counter, Epoch and Generation, the interface of the counter service
// (DESIGN.md section 9; the paper, Appendix A), and its back ends. It imports nothing of ours.
package epoch

import (
	"context"
	"errors"
)

// Counter is the number of a mutation: handed out by Next in commit order, without I/O (the paper, Table X).
type Counter uint64

// Generation is the number of one run of a server on a store. Each Open makes a new one.
type Generation uint64

// Epoch is the number of a span of mutations between two commits to the trusted counter.
type Epoch uint64

// StoreID names a store at the counter service; random, made once.
type StoreID [16]byte

// Tag is a chain tag: 256 bits that authenticate a frame and everything before it.
type Tag [32]byte

// Stamp is the service's clock, in milliseconds since the Unix epoch.
type Stamp int64

// State is one committed state: the counter value and the chain tag of the frame that it ends, and the generation that
// committed it. Gen 0 with a Value above 0 is an authorised rollback: no frame after the tag is accepted. Value 0: nothing
// was ever committed.
type State struct {
	Value Counter
	Tag   Tag
	Gen   Generation
}

// Record is what the service holds for a store.
type Record struct {
	Store   StoreID
	Gen     Generation // the newest generation opened; commits of earlier ones are refused
	Current State
	// Before is the state that Current replaced, where Current was committed in PARALLEL (DESIGN.md 4.6): then a restart may
	// be one commit behind. Empty otherwise, so that the record itself says what recovery may accept.
	Before State
	// Floor is set by an authorised rollback to the value that it replaced: the next state is above it. Else 0.
	Floor Counter
}

// OpenReply answers Open; Record.Gen is the caller's new generation.
type OpenReply struct {
	Record
	Stamp  Stamp
	Random [32]byte // fresh at every Open (DESIGN.md 5.1)
}

// ReadReply answers Read.
type ReadReply struct {
	Record
	Stamp Stamp
}

// CommitRequest asks for a compare and swap of the current state.
type CommitRequest struct {
	Store    StoreID
	Gen      Generation // checked first, for retries too
	Expected Tag        // the tag of the state that this one replaces; zero for a store with value 0
	Value    Counter
	Tag      Tag
	Opening  bool // an opening frame's commit
	// Parallel says that the frames of this state may not be durable yet: the state before stays acceptable. An opening
	// commit never is.
	Parallel bool
}

// Service is a trusted counter. All methods may be called from any goroutine.
type Service interface {
	// Create makes the record of a new store, once, with value 0. ErrExists.
	Create(ctx context.Context, store StoreID) error
	// Open makes a new generation and fences every earlier one. It never repeats an answer. ErrNoRecord.
	Open(ctx context.Context, store StoreID) (OpenReply, error)
	// Read returns the record. It fences nobody. ErrNoRecord.
	Read(ctx context.Context, store StoreID) (ReadReply, error)
	// Commit asks for a commit and calls done exactly once with its result, maybe before Commit returns (then no thread
	// was waited for), maybe from another goroutine. done must not block. ErrFenced, ErrConflict; any other error means
	// that the outcome is unknown, and the same request may be sent again: it succeeds if the state is already exactly
	// that.
	Commit(req CommitRequest, done func(Stamp, error))
	// Sync makes every commit that was answered durable. A service that is durable before it answers does nothing.
	Sync(ctx context.Context) error
	// TimeBounded says whether the stamps come from a clock that the host does not own (DESIGN.md 4.7).
	TimeBounded() bool
	Close() error
}

// Errors of the service, told apart by what the caller must do.
var (
	ErrNoRecord = errors.New("the counter has no record of this store")
	ErrExists   = errors.New("the counter has a record of this store already")
	ErrFenced   = errors.New("fenced: a later generation was opened")
	ErrConflict = errors.New("the counter's tag is not the expected one")
	// ErrFrozen: the operator froze the store. Nothing was changed; after a thaw the same request may succeed.
	ErrFrozen = errors.New("the store is frozen at the counter")
	// ErrForbidden: this identity may not do that. Nothing was changed.
	ErrForbidden = errors.New("refused by the counter service")
)
