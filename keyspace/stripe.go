package keyspace

import "sync"

// A stripe is the part of all databases whose keys' hashes begin with the same 8 bits. One lock guards it all, so that a
// key of the same name in two databases (MOVE, COPY) needs one lock, and swapping databases needs no others than a flush.
type stripe struct {
	mu      sync.Mutex
	locks   uint64       // counts lockings, so that ring knows what it lent under the present one
	dirs    []*directory // by table number; nil: empty
	expiry  int64        // no key expires before this
	ring    ring
	tombs   tombstones
	kept    []tombstone         // fresh deletes whose keys have older records on the device
	watched map[string]*watched // nil until somebody watches; key: table number, key
	expired uint64              // keys deleted because their time had come
	evicted uint64              // keys deleted to make room

	_ [64]byte // the next stripe's lock stands on a cache line of its own
}

func (st *stripe) lock() {
	st.mu.Lock()
	st.locks++
}

// dir returns the stripe's part of a table, made if need be.
func (st *stripe) dir(slot int) *directory {
	d := st.dirs[slot]
	if d == nil {
		d = newDirectory()
		st.dirs[slot] = d
	}
	return d
}

// spot is where an entry stands. It is valid until the next insertion into, or removal from, its shard.
type spot struct {
	st *stripe
	d  *directory
	sh *shard
	i  int // -1: the key has no entry
}

func (p spot) entry() *entry { return &p.sh.entries[p.i] }
func (p spot) key() []byte   { return p.sh.key(p.entry()) }

// find looks a key up; the stripe is locked.
func (s *Space) find(tb *table, h uint32, key []byte) spot {
	st := &s.stripes[stripeOf(h)]
	d := st.dirs[tb.slot]
	if d == nil {
		return spot{st: st, i: -1}
	}
	sh := d.shard(h)
	return spot{st, d, sh, sh.find(h, key)}
}

// obtain looks a key up, and adds an entry if there is none. The new entry is pending: not live, with counter 0.
func (s *Space) obtain(tb *table, h uint32, key []byte) spot {
	p := s.find(tb, h, key)
	if p.i >= 0 {
		return p
	}
	p.d = p.st.dir(tb.slot)
	p.sh, p.i = p.d.insert(h, key)
	p.entry().access = flagPending
	return p
}

// noteExpiry keeps the lower bounds of shard, directory and stripe true.
func (p spot) noteExpiry(at int64) {
	if at == 0 {
		return
	}
	p.sh.expiry = min(p.sh.expiry, at)
	p.d.expiry = min(p.d.expiry, at)
	p.st.expiry = min(p.st.expiry, at)
}
