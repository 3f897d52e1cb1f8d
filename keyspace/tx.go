package keyspace

import (
	"math/bits"

	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// Tx is one transaction: a command, or a MULTI or script that is one. It holds the locks of its keys from Begin to End, and
// between Reserve and End the one open batch of the volume. A Tx is used by one goroutine, reused for command after
// command, and must not be copied. The zero value is ready.
type Tx struct {
	w     writer // w.l is the batch while one is open
	db    int
	quiet bool // lookups leave the access clocks alone
	tb    *table
	now   int64 // see Now; 0: not yet asked
	begun bool
	held  [stripeCount / 64]uint64 // stripes locked, a bit each
	keys  [][]byte

	batch   *volume.Tx
	bytes   int // what is left of the reservation
	records int
	changes int // records appended to the batch
	plan    plan
	room    int  // see Script
	here    bool // see Here
	origin  uint64
	noting  bool // see NoteAbsent
	absent  [][]byte

	seen     volume.Counter
	again    bool // the command will be run again: what was supplied is kept
	misses   []volume.Fetch
	supplied map[volume.Place][]byte // payloads of records that the caller fetched
	refused  map[volume.Place]error  // why records could not be fetched
	jobs     []job                   // transfers that the command needs, and those that it got

	memoKey  *byte // the key hashed last; commands look the same key up several times
	memoLen  int
	memoHash uint32

	random uint64 // seed of Random; 0: not yet drawn
	drawn  uint64 // where its sequence is

	before  string // event to tell of before the next delete
	scratch []int  // indices of a shard's entries, for scans
}

// Begin locks the stripes of keys, in order. Keys may repeat. They must not change until End, nor may the slice.
func (s *Space) Begin(t *Tx, db int, keys [][]byte) {
	t.begin(s, db)
	t.keys = keys
	for _, k := range keys {
		i := stripeOf(t.hash(k))
		t.held[i/64] |= 1 << (i % 64)
	}
	t.lockHeld()
}

// BeginAll locks everything: for FLUSHALL, and for whatever needs one view of all keys.
func (s *Space) BeginAll(t *Tx, db int) {
	t.begin(s, db)
	for i := range t.held {
		t.held[i] = ^uint64(0)
	}
	t.lockHeld()
}

func (t *Tx) begin(s *Space, db int) {
	if t.begun {
		panic("internal error: keyspace: transaction begun twice")
	}
	t.begun = true
	t.w.s, t.w.v = s, s.v
	t.db, t.now = db, 0
	t.seen, t.again, t.quiet = 0, false, false
	t.misses = t.misses[:0]
	t.keys, t.changes, t.plan = nil, 0, plan{}
	t.noting, t.absent, t.origin = false, t.absent[:0], 0
	t.room, t.here = 0, false
	t.drawn = 0
	if len(t.supplied) == 0 {
		t.random = 0
	}
}

func (t *Tx) lockHeld() {
	for w, word := range t.held {
		for ; word != 0; word &= word - 1 {
			t.w.s.stripes[w*64+bits.TrailingZeros64(word)].lock()
		}
	}
	t.Use(t.db)
}

// Use changes the transaction's database: the locks are those of the keys' names in all databases. For MOVE, COPY, and
// SELECT within MULTI.
func (t *Tx) Use(db int) {
	t.db, t.tb = db, t.w.s.tables[db]
	t.see(t.w.s.swapped[db])
}

// NoTouch makes the rest of the transaction leave no trace in what OBJECT IDLETIME tells (CLIENT NO-TOUCH).
func (t *Tx) NoTouch() { t.quiet = true }

// End closes the batch, if one is open, and unlocks. Values that were returned are no longer valid.
func (t *Tx) End() {
	if t.batch != nil {
		t.see(t.batch.End())
		t.batch, t.w.l = nil, nil
	}
	for w, word := range t.held {
		for ; word != 0; word &= word - 1 {
			t.unlock(&t.w.s.stripes[w*64+bits.TrailingZeros64(word)])
		}
		t.held[w] = 0
	}
	if (len(t.supplied) > 0 || len(t.refused) > 0 || len(t.jobs) > 0) && !t.again {
		t.Forget()
	}
	t.keys, t.memoKey = nil, nil
	t.begun = false
}

func (t *Tx) unlock(st *stripe) {
	if st.tombs.len() > 0 {
		st.purge(t.w.v, tombsPerOp)
	}
	st.mu.Unlock()
}

// Now is the store time of this transaction, in ms: when it was first needed, for the clock costs as much as a lookup. It
// does not move until End.
func (t *Tx) Now() int64 {
	if t.now == 0 {
		t.now = t.w.v.Now()
		t.w.s.tick(t.now)
	}
	return t.now
}

// MaxRecord is the largest payload of a record, in bytes.
func (t *Tx) MaxRecord() int { return t.w.v.MaxRecord() }

// Seen is the counter that the reply depends on: it may leave when volume.Reached(Seen, level). Valid after End.
func (t *Tx) Seen() volume.Counter { return t.seen }

func (t *Tx) see(c volume.Counter) { t.seen = max(t.seen, c) }

// Misses lists the records that a command which returned ErrMiss needs. Valid until the next Begin.
func (t *Tx) Misses() []volume.Fetch { return t.misses }

// Supply gives the next run of the command the payload of a record that it missed. The payload is the Tx's from then on,
// and kept until a run ends without a miss, a busy volume, or Forget.
func (t *Tx) Supply(at volume.Place, payload []byte) {
	if t.supplied == nil {
		t.supplied = make(map[volume.Place][]byte)
	}
	t.supplied[at] = payload
}

// Refuse is Supply for a record that is damaged: the command that needs it runs once more, and names what it belongs to.
func (t *Tx) Refuse(at volume.Place, err error) {
	if t.refused == nil {
		t.refused = make(map[volume.Place]error)
	}
	t.refused[at] = err
}

// Forget drops what was supplied, for a command that will not be run again.
func (t *Tx) Forget() {
	if len(t.supplied) > suppliedKeep {
		t.supplied = nil // clearing it would go on costing what the largest command needed
	}
	clear(t.supplied)
	clear(t.refused)
	t.forgetJobs()
}

const suppliedKeep = 64

// Reserve opens the transaction's batch, with room for records of so many bytes in all. It comes before the first change
// and after the last check: an error means that nothing was changed. Where a batch is open already (MULTI), it makes sure
// that there is room left.
func (t *Tx) Reserve(bytes, records int, class volume.Class) error {
	for _, k := range t.keys {
		if len(k) > KeyMax {
			return ErrKeyTooLong
		}
	}
	if t.plan.rehearsing {
		return t.plan.note(bytes, records, class)
	}
	if t.batch != nil && t.changes > 0 && mutant.On(mutant.SplitTransaction) {
		t.close()
	}
	if t.batch != nil {
		return t.extend(bytes, records, class)
	}
	return t.open(bytes, records, class)
}

// open begins a batch. After a failure the command may be run again, so it keeps what was supplied.
func (t *Tx) open(bytes, records int, class volume.Class) error {
	batch, err := t.w.v.BeginRoom(bytes, records, class, t.room)
	if err != nil {
		t.again = true
		return err
	}
	t.batch, t.w.l = batch, batch
	t.bytes, t.records, t.changes = bytes, records, 0
	return nil
}

// close ends a batch before the transaction ends.
func (t *Tx) close() {
	t.see(t.batch.End())
	t.batch, t.w.l = nil, nil
}

// append takes a record of the reservation.
func (t *Tx) append(k volume.Kind, size int) (payload []byte, c volume.Counter, at volume.Place) {
	if t.batch == nil || size > t.bytes || t.records == 0 {
		panic("internal error: keyspace: change without reservation")
	}
	t.bytes -= size
	t.records--
	t.changes++
	c = t.batch.Next()
	payload, at = t.batch.Append(volume.StoreKeys, k, c, size)
	return payload, c, at
}

// hash returns the hash of a key, which a command asks for several times.
func (t *Tx) hash(key []byte) uint32 {
	if len(key) == 0 {
		return t.w.s.hash(key)
	}
	if t.memoKey != &key[0] || t.memoLen != len(key) {
		t.memoKey, t.memoLen, t.memoHash = &key[0], len(key), t.w.s.hash(key)
	}
	return t.memoHash
}

// locate finds the entry of a key whose stripe this transaction holds.
func (t *Tx) locate(key []byte) spot {
	h := t.hash(key)
	if i := stripeOf(h); t.held[i/64]&(1<<(i%64)) == 0 {
		panic("internal error: keyspace: key not locked by this transaction")
	}
	return t.w.s.find(t.tb, h, key)
}
