package keyspace

import (
	"sync"

	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// tombstones is a queue of the deletes of a stripe, oldest first, until they are fresh and their entries can go. It also
// holds, during replay, expiries whose value is still to come.
type tombstones struct {
	queue []tombstone
	head  int
}

type tombstone struct {
	counter volume.Counter
	hash    uint32
	slot    uint16 // of the table
}

// tombsPerOp bounds how many tombstones a transaction purges in each of its stripes: more than it can make in the long run.
const tombsPerOp = 8

func (q *tombstones) len() int { return len(q.queue) - q.head }

func (q *tombstones) push(t tombstone) {
	if q.head > 64 && q.head > len(q.queue)/2 {
		q.queue = q.queue[:copy(q.queue, q.queue[q.head:])]
		q.head = 0
	}
	q.queue = append(q.queue, t)
}

// buried remembers that the entry at p is absent since its counter.
func (p spot) buried(slot int) {
	e := p.entry()
	p.st.tombs.push(tombstone{e.counter, e.hash, uint16(slot)})
}

// purge takes up to limit deletes out of the queue that are fresh: from then on the absence of the key cannot vanish, and a reply
// need not wait for it (DESIGN.md 4.3). Their entries go too, unless older records of the key are still on the device: then the
// tombstone is kept until they are gone (6.3). The stripe is locked.
func (st *stripe) purge(v *volume.Volume, limit int) {
	q := &st.tombs
	for ; limit > 0 && q.head < len(q.queue); limit-- {
		t := q.queue[q.head]
		if !v.Reached(t.counter, volume.LevelFresh) {
			return
		}
		q.head++
		if !st.forget(v, t) {
			st.kept = append(st.kept, t)
		}
	}
	if q.head == len(q.queue) {
		q.queue, q.head = q.queue[:0], 0
		if cap(q.queue) > 1024 {
			q.queue = nil
		}
	}
}

// forget removes a tombstone that nothing needs any more, and reports whether it is gone: the key may have come back, too.
func (st *stripe) forget(v *volume.Volume, t tombstone) bool {
	d := st.dirs[t.slot]
	if d == nil {
		return true
	}
	sh := d.shard(t.hash)
	i := sh.findGone(t.hash, t.counter)
	if i < 0 {
		return true
	}
	if e := &sh.entries[i]; e.access&flagBuried != 0 {
		if tombNeeded(v, e) {
			return false
		}
		v.Dead(e.place, int(e.size))
	}
	sh.remove(i)
	return true
}

// tombNeeded reports whether a tombstone still hides something: a segment that is older than its own, and may hold older records of
// its key, is listed in the durable manifest. What lies in its own segment goes with it.
func tombNeeded(v *volume.Volume, e *entry) bool {
	if mutant.On(mutant.DropTombstone) {
		return false
	}
	return v.Lists(placeIn(e.first()), e.place)
}

// findGone returns the index of the entry with this hash and counter, if it is still buried (or pending), or -1.
func (sh *shard) findGone(h uint32, c volume.Counter) int {
	if len(sh.slots) == 0 {
		return -1
	}
	mask := uint32(len(sh.slots) - 1)
	for s := h & mask; sh.slots[s] != 0; s = (s + 1) & mask {
		i := int(sh.slots[s]&slotIndexMask) - 1
		if e := &sh.entries[i]; e.hash == h && e.counter == c && !e.live() {
			return i
		}
	}
	return -1
}

// graves holds what flushes have detached from the index, until Tidy has reported its records dead.
type graves struct {
	mu   sync.Mutex
	dirs []*directory
}

func (g *graves) push(d *directory) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dirs = append(g.dirs, d)
}

func (g *graves) pop() *directory {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.dirs)
	if n == 0 {
		return nil
	}
	d := g.dirs[n-1]
	g.dirs = g.dirs[:n-1]
	return d
}

// Tidy implements volume.Tidier: one stripe's kept tombstones are looked at again, since segments have gone, and one flushed
// directory's records are reported dead. more: call it again. held is what the kept tombstones of all stripes take on the device.
func (s *Space) Tidy(v *volume.Volume) (more bool, held int) {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	if d := s.graves.pop(); d != nil {
		d.each(func(sh *shard) bool {
			for i := range sh.entries {
				if e := &sh.entries[i]; e.value != 0 {
					v.Dead(e.place, int(e.size))
					if e.live() && e.counter > e.value {
						v.Dead(placeIn(e.metaSeg), ExpireSize(e.keyLen()))
					}
				}
			}
			return true
		})
		return true, s.tombsHeld
	}
	st := &s.stripes[s.tidyAt]
	st.lock()
	st.purge(v, st.tombs.len())
	kept := st.kept[:0]
	for _, t := range st.kept {
		if !st.forget(v, t) {
			kept = append(kept, t)
		}
	}
	st.kept = kept
	if cap(kept) > 64 && len(kept) < cap(kept)/4 {
		st.kept = append([]tombstone(nil), kept...)
	}
	s.tombsCounting += len(kept) * tombBytes
	st.mu.Unlock()
	if s.tidyAt = (s.tidyAt + 1) % stripeCount; s.tidyAt == 0 {
		s.tombsHeld, s.tombsCounting = s.tombsCounting, 0
	}
	return s.tidyAt != 0, s.tombsHeld
}

// tombBytes is about what a tombstone takes on the device.
const tombBytes = 64
