package keyspace

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"cvmstore/volume"
)

// Errors that commands return; more come from volume (see the package's documentation). The texts with a Redis error
// code are replies as they stand.
var (
	// ErrMiss: a value is on the device only. Nothing was changed. Fetch Misses, Supply them, run the command again.
	ErrMiss = errors.New("value not in memory")
	// ErrWrongType is Redis' answer to a command on a key of another type.
	ErrWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	// ErrKeyTooLong: a key of more than KeyMax bytes was to be written.
	ErrKeyTooLong = fmt.Errorf("ERR key exceeds the limit of %d bytes", KeyMax)
)

// Options of a Space. The zero value is usable.
type Options struct {
	Databases  int   // how many; default 16, at most 65535
	CacheBytes int64 // for values in memory; default 256 MiB; negative: none
	BlobBytes  int   // values of at least so many bytes are blobs; default 64 KiB; negative: none

	// Hash replaces the seeded hash of keys, so that a simulation sees keys in the same order each time. Its top 8 bits
	// choose the stripe, the next 24 the shard and the slot.
	Hash func(key []byte) uint64
	// Rand replaces the random numbers of RandomKey: it returns one in [0, n).
	Rand func(n uint64) uint64
	// OnChange is told of each change of a key, under the key's lock, after the change: keyspace notifications and client
	// tracking. event is Redis' name for it ("set", "del", "expired"); a flush has no key. What it makes of it must not be
	// shown to anyone before counter c has reached their level (DESIGN.md 4.3). It must not call the space, nor keep key.
	// A swap ("swapdb") has no key either, and is told of both databases.
	OnChange func(db int, key []byte, event string, c volume.Counter)
}

const (
	databasesDefault  = 16
	databasesMax      = 1<<16 - 256 // above it are the numbers of private tables
	cacheBytesDefault = 256 << 20
)

// Space holds all databases. Make it, register types, open the volume with it as the replayer of volume.StoreKeys, attach
// the volume; then it serves transactions from any goroutine.
type Space struct {
	o    Options
	v    *volume.Volume
	seed maphash.Seed

	stripes   [stripeCount]stripe
	tables    []*table         // by database; guarded by all stripes
	swapped   []volume.Counter // by database: the newest swap that gave it its table; guarded by all stripes
	swapPlace []volume.Place   // where the record of that swap lies
	numbered  []*table         // by slot: that is by number, then the private ones; never changes
	types     [typesMax]Type
	sizers    []Sizer // of types
	elements  []elementKinds
	system    *System

	replayMu sync.Mutex    // recovery: flushes and swaps
	base     int64         // store time of Attach, ms, at which the access clock began
	clock    atomic.Uint32 // seconds since then; entries' access fields hold the low 24 bits
	uses     atomic.Pointer[Uses]
	indexed  atomic.Int64 // bytes that the keys take in the index; see Used
	held     atomic.Bool  // see HoldDeletes

	evictMu sync.Mutex // one eviction at a time
	evict   Tx
	victim  victim

	observer func(Event) // see Observe
	loads    budget      // of values that commands have in memory as a whole

	graves        graves
	tidyMu        sync.Mutex // guards the next three
	tidyAt        int        // stripe that Tidy looks at next
	tombsHeld     int        // bytes that kept tombstones take on the device, as of the last round
	tombsCounting int        // in this round

	cycleMu sync.Mutex // one expiry cycle at a time
	cycle   Tx
	cycleAt int // stripe at which the next cycle starts
}

// table is what a database holds besides its part of each stripe. Its fields are changed with the lock of a stripe and
// volume's append lock held, and read with either that or all stripes.
type table struct {
	number   uint16 // in records and multiset items; stays when databases are swapped
	slot     int    // in Space.numbered and stripe.dirs
	live     int    // keys that exist, expired ones that nobody noticed included
	keyBytes int    // of their names
	expires  int    // those of them with an expiry
	sum      volume.Sum
	flushed  volume.Counter // newest flush: keys that were never seen are absent since then
	newest   volume.Counter // newest change
	blobs    blobSet        // that are values of its keys

	flushPlace volume.Place // of the newest flush's record
}

// New makes an empty Space.
func New(o Options) *Space {
	if o.Databases <= 0 {
		o.Databases = databasesDefault
	}
	o.Databases = min(o.Databases, databasesMax)
	if o.BlobBytes == 0 {
		o.BlobBytes = blobBytesDefault
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = cacheBytesDefault
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64N
	}
	s := &Space{o: o, seed: maphash.MakeSeed()}
	s.types[TypeString] = stringType{}
	s.system = newSystem(s)
	s.Reset()
	return s
}

// Reset implements volume.Replayer: it forgets everything.
func (s *Space) Reset() {
	s.tables = make([]*table, s.o.Databases+privateTables)
	for i := range s.tables {
		s.tables[i] = &table{number: s.numberOf(i), slot: i}
	}
	s.numbered = slices.Clone(s.tables)
	s.swapped = make([]volume.Counter, len(s.tables))
	s.swapPlace = make([]volume.Place, len(s.tables))
	for i := range s.stripes {
		st := &s.stripes[i]
		st.dirs = make([]*directory, len(s.tables))
		st.ring = newRing(s.o.CacheBytes / stripeCount)
		st.tombs, st.kept = tombstones{}, nil
		st.expiry = never
		for _, w := range st.watched {
			w.changes++ // whoever watches through a reload cannot know what the key was meanwhile
		}
	}
	for _, x := range s.elements {
		x.e.Reset()
	}
}

// Attach gives the space the volume that has replayed it.
func (s *Space) Attach(v *volume.Volume) {
	s.v = v
	s.base = v.Now()
}

// Databases returns how many databases there are.
func (s *Space) Databases() int { return s.o.Databases }

// hash returns the key's hash; the top half goes into the entry.
func (s *Space) hash(key []byte) uint32 {
	if s.o.Hash != nil {
		return uint32(s.o.Hash(key) >> 32)
	}
	return uint32(maphash.Bytes(s.seed, key) >> 32)
}

func stripeOf(h uint32) int { return int(h >> (32 - stripeBits)) }

// keyName names a key where its bytes must not stand: in errors and logs.
func (s *Space) keyName(key []byte) string {
	sum := s.v.ItemHash(volume.StoreKeys, append([]byte{itemName}, key...), 0)
	return fmt.Sprintf("key #%016x", sum[0])
}

// Stats are figures for INFO and metrics.
type Stats struct {
	Hits, Misses  uint64 // of values looked for in the cache
	ChunksEvicted uint64
	CacheBytes    int    // allocated for cached values
	Tombstones    int    // deletes that are not yet fresh
	Expired       uint64 // keys that were deleted because their time had come
	Evicted       uint64 // keys that were deleted to make room
}

// Stats adds up the stripes, one after the other.
func (s *Space) Stats() Stats {
	var sum Stats
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.Lock()
		sum.Hits += st.ring.hits
		sum.Misses += st.ring.misses
		sum.ChunksEvicted += st.ring.evicted
		sum.CacheBytes += st.ring.bytes
		sum.Tombstones += st.tombs.len()
		sum.Expired += st.expired
		sum.Evicted += st.evicted
		st.mu.Unlock()
	}
	return sum
}
