// Package epochtest is a trusted counter in memory for tests and the simulator: the real commit rule, with a clock, lost
// messages, lost answers, delays, power cuts and rollbacks that the test decides on. It imports epoch only.
package epochtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"cvmstore/epoch"
)

// ErrInjected is what a caller sees of an injected fault: the outcome is unknown to it.
var ErrInjected = errors.New("injected: no answer from the counter")

// Fault is what befalls one call.
type Fault uint8

// Faults of a call.
const (
	FaultNone   Fault = iota
	FaultLost         // the request never arrives
	FaultAnswer       // the request takes effect, its answer is lost
)

// Call names a method of epoch.Service, for Options.Fault.
type Call string

// The calls that Options.Fault is asked about.
const (
	CallCreate Call = "Create"
	CallOpen   Call = "Open"
	CallRead   Call = "Read"
	CallCommit Call = "Commit"
	CallSync   Call = "Sync"
)

// Options decide what kind of counter it is. The zero value is a real service at its best: durable before it answers, answers
// at once, no faults.
type Options struct {
	// Clock returns the service's time; nil stands still at 1.
	Clock func() epoch.Stamp
	// Bounded is what TimeBounded answers.
	Bounded bool
	// Lagging makes commits durable only at Sync, Open and Create, as the embedded counter does. It matters at PowerCut.
	Lagging bool
	// Async holds every commit back until Deliver.
	Async bool
	// Fault is asked before each call, by whoever calls; nil is FaultNone. It must not call back into Memory.
	Fault func(Call) Fault
	// Rand fills Open's random bytes; nil derives them from the number of the Open, so that a run can be repeated.
	Rand *rand.Rand
}

// Memory is an epoch.Service. All methods may be called from any goroutine, but with the same seed and one goroutine a run is
// the same each time.
type Memory struct {
	opts Options

	mu      sync.Mutex
	stores  map[epoch.StoreID]*record
	queue   []message
	opens   uint64
	faults  int
	commits int
}

// record is one store's record and what of it a power cut could bring back.
type record struct {
	now     epoch.Record
	durable epoch.Record
	unsure  []epoch.Record // written since the last flush, oldest first; any of them may be what the disk holds
}

// unsureMax bounds the states that PowerCut chooses from.
const unsureMax = 64

// message is a commit under way. Its done is nil once the process that sent it is dead.
type message struct {
	req   epoch.CommitRequest
	fault Fault
	done  func(epoch.Stamp, error)
}

// NewMemory returns a counter without records.
func NewMemory(o Options) *Memory {
	return &Memory{opts: o, stores: make(map[epoch.StoreID]*record)}
}

var _ epoch.Service = (*Memory)(nil)

// begin asks for a fault and locks.
func (m *Memory) begin(c Call) Fault {
	fault := FaultNone
	if m.opts.Fault != nil {
		fault = m.opts.Fault(c)
	}
	m.mu.Lock()
	if fault != FaultNone {
		m.faults++
	}
	return fault
}

func (m *Memory) stamp() epoch.Stamp {
	if m.opts.Clock == nil {
		return 1
	}
	return m.opts.Clock()
}

func (m *Memory) find(store epoch.StoreID) (*record, error) {
	r := m.stores[store]
	if r == nil {
		return nil, fmt.Errorf("store %x: %w", store, epoch.ErrNoRecord)
	}
	return r, nil
}

func (r *record) set(next epoch.Record, lagging bool) {
	r.now = next
	if !lagging {
		r.flush()
		return
	}
	if len(r.unsure) == unsureMax {
		r.unsure = slices.Delete(r.unsure, unsureMax/2, unsureMax/2+1)
	}
	r.unsure = append(r.unsure, next)
}

func (r *record) flush() { r.durable, r.unsure = r.now, r.unsure[:0] }

// Create implements epoch.Service.
func (m *Memory) Create(ctx context.Context, store epoch.StoreID) error {
	fault := m.begin(CallCreate)
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault == FaultLost {
		return ErrInjected
	}
	if m.stores[store] != nil {
		return epoch.ErrExists
	}
	r := &record{}
	r.set(epoch.Record{Store: store}, false)
	m.stores[store] = r
	if fault == FaultAnswer {
		return ErrInjected
	}
	return nil
}

// Open implements epoch.Service. A lost answer costs a generation.
func (m *Memory) Open(ctx context.Context, store epoch.StoreID) (epoch.OpenReply, error) {
	fault := m.begin(CallOpen)
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return epoch.OpenReply{}, err
	}
	if fault == FaultLost {
		return epoch.OpenReply{}, ErrInjected
	}
	r, err := m.find(store)
	if err != nil {
		return epoch.OpenReply{}, err
	}
	r.set(r.now.Opened(), false)
	m.opens++
	if fault == FaultAnswer {
		return epoch.OpenReply{}, ErrInjected
	}
	return epoch.OpenReply{Record: r.now, Stamp: m.stamp(), Random: m.random()}, nil
}

func (m *Memory) random() (b [32]byte) {
	rng := m.opts.Rand
	if rng == nil {
		rng = rand.New(rand.NewPCG(m.opens, 0x0b5e55ed))
	}
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Read implements epoch.Service.
func (m *Memory) Read(ctx context.Context, store epoch.StoreID) (epoch.ReadReply, error) {
	fault := m.begin(CallRead)
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return epoch.ReadReply{}, err
	}
	if fault != FaultNone {
		return epoch.ReadReply{}, ErrInjected
	}
	r, err := m.find(store)
	if err != nil {
		return epoch.ReadReply{}, err
	}
	return epoch.ReadReply{Record: r.now, Stamp: m.stamp()}, nil
}

// Commit implements epoch.Service.
func (m *Memory) Commit(req epoch.CommitRequest, done func(epoch.Stamp, error)) {
	fault := m.begin(CallCommit)
	msg := message{req: req, fault: fault, done: done}
	if m.opts.Async {
		m.queue = append(m.queue, msg)
		m.mu.Unlock()
		return
	}
	stamp, err := m.arrive(msg)
	m.mu.Unlock()
	done(stamp, err)
}

// arrive carries out a commit and returns what its sender sees. The lock is held.
func (m *Memory) arrive(msg message) (epoch.Stamp, error) {
	if msg.fault == FaultLost {
		return 0, ErrInjected
	}
	r, err := m.find(msg.req.Store)
	if err != nil {
		return 0, err
	}
	next, err := r.now.Apply(msg.req)
	if err == nil && next != r.now {
		r.set(next, m.opts.Lagging)
		m.commits++
	}
	if msg.fault == FaultAnswer {
		return 0, ErrInjected
	}
	if err != nil {
		return 0, err
	}
	return m.stamp(), nil
}

// Sync implements epoch.Service.
func (m *Memory) Sync(ctx context.Context) error {
	fault := m.begin(CallSync)
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault == FaultLost {
		return ErrInjected
	}
	for _, r := range m.stores {
		r.flush()
	}
	if fault == FaultAnswer {
		return ErrInjected
	}
	return nil
}

// TimeBounded implements epoch.Service.
func (m *Memory) TimeBounded() bool { return m.opts.Bounded }

// Close implements epoch.Service. It does nothing: the counter outlives its clients.
func (m *Memory) Close() error { return nil }
