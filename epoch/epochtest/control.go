package epochtest

import (
	"maps"
	"math/rand/v2"
	"slices"

	"cvmstore/epoch"
)

// What a test does to the counter, from outside.

// Pending returns how many commits are under way (Options.Async).
func (m *Memory) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue)
}

// Deliver lets the oldest commit under way arrive and calls its done, from this goroutine. It reports whether there was one.
func (m *Memory) Deliver() bool { return m.DeliverAt(0) }

// DeliverAt is Deliver for the commit at place i of the queue: a network that reorders.
func (m *Memory) DeliverAt(i int) bool {
	m.mu.Lock()
	if i >= len(m.queue) {
		m.mu.Unlock()
		return false
	}
	msg := m.queue[i]
	m.queue = slices.Delete(m.queue, i, i+1)
	stamp, err := m.arrive(msg)
	m.mu.Unlock()
	if msg.done != nil {
		msg.done(stamp, err)
	}
	return true
}

// Drop loses the oldest commit under way for good: it never arrives. It reports whether there was one.
func (m *Memory) Drop() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return false
	}
	m.queue = m.queue[1:]
	return true
}

// Replay delivers a copy of req, as a network may that kept the message, and tells nobody the answer.
func (m *Memory) Replay(req epoch.CommitRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = m.arrive(message{req: req})
}

// Kill is the death of every client: commits under way may still arrive, but nobody hears of it.
func (m *Memory) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.queue {
		m.queue[i].done = nil
	}
}

// PowerCut is Kill on a machine that loses its power: with Options.Lagging, commits under way are gone (they were calls in the
// dead process) and each record goes back to its durable state or to one written since.
func (m *Memory) PowerCut(rng *rand.Rand) {
	m.Kill()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.opts.Lagging {
		return
	}
	m.queue = nil
	for _, id := range slices.SortedFunc(maps.Keys(m.stores), compareIDs) {
		r := m.stores[id]
		if len(r.unsure) > 0 && r.now != r.durable {
			if i := rng.IntN(len(r.unsure) + 1); i < len(r.unsure) {
				r.now = r.unsure[i]
			} else {
				r.now = r.durable
			}
		}
		// What was found after the restart is flushed before it is believed.
		r.flush()
	}
}

func compareIDs(a, b epoch.StoreID) int { return slices.Compare(a[:], b[:]) }

// Snapshot is the counter's state at a moment, for Restore.
type Snapshot map[epoch.StoreID]epoch.Record

// Snapshot returns all records as they are now.
func (m *Memory) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := make(Snapshot, len(m.stores))
	for id, r := range m.stores {
		s[id] = r.now
	}
	return s
}

// Restore puts the records of s back, as an operator who rolls the counter back does, or a test that moves it.
func (m *Memory) Restore(s Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores = make(map[epoch.StoreID]*record, len(s))
	for id, rec := range s {
		r := &record{}
		r.set(rec, false)
		m.stores[id] = r
	}
}

// Edit changes the record of a store: an authorised rollback, a test's start. It must exist.
func (m *Memory) Edit(store epoch.StoreID, f func(*epoch.Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.stores[store]
	next := r.now
	f(&next)
	r.set(next, false)
}

// Durable returns the record as a power cut could bring it back at worst.
func (m *Memory) Durable(store epoch.StoreID) epoch.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stores[store].durable
}

// Counts returns how many commits changed a record, and how many faults were injected.
func (m *Memory) Counts() (commits, faults int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits, m.faults
}
