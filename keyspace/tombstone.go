package keyspace

import "cvmstore/volume"

// tombstones is a queue of the deletes of a stripe, oldest first, until they are fresh and their entries can go. It also
// holds, during replay, expiries whose value is still to come.
type tombstones struct {
	queue []tombstone
	head  int
}

type tombstone struct {
	counter volume.Counter
	hash    uint32
	table   uint16
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
func (p spot) buried(table uint16) {
	e := p.entry()
	p.st.tombs.push(tombstone{e.counter, e.hash, table})
}

// purge removes the entries of up to limit deletes that are fresh: from then on the absence of the key cannot vanish, and
// a reply need not wait for it (DESIGN.md 4.3). The stripe is locked.
func (st *stripe) purge(v *volume.Volume, limit int) {
	q := &st.tombs
	for ; limit > 0 && q.head < len(q.queue); limit-- {
		t := q.queue[q.head]
		if !v.Reached(t.counter, volume.LevelFresh) {
			return
		}
		q.head++
		if d := st.dirs[t.table]; d != nil {
			d.shard(t.hash).removeGone(t.hash, t.counter)
		}
	}
	if q.head == len(q.queue) {
		q.queue, q.head = q.queue[:0], 0
		if cap(q.queue) > 1024 {
			q.queue = nil
		}
	}
}

// removeGone removes the entry with this hash and counter, if it is still buried (or pending): the key may have come back.
func (sh *shard) removeGone(h uint32, c volume.Counter) {
	if len(sh.slots) == 0 {
		return
	}
	mask := uint32(len(sh.slots) - 1)
	for s := h & mask; sh.slots[s] != 0; s = (s + 1) & mask {
		i := int(sh.slots[s]&slotIndexMask) - 1
		if e := &sh.entries[i]; e.hash == h && e.counter == c && !e.live() {
			sh.remove(i)
			return
		}
	}
}
