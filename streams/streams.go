package streams

import (
	"sync"
	"sync/atomic"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Streams holds the streams of a space, by incarnation. It is their type for keys (keyspace.LargeType) and answers for their
// records (keyspace.Elements). Make it before the volume is opened.
type Streams struct {
	space *keyspace.Space
	cache *cache

	leafEntries atomic.Int64 // see SetLeafEntries
	bytes       atomic.Int64 // that indexes, gaps and groups take

	mu      sync.RWMutex
	streams map[uint64]*stream

	found sync.Map // recovery: incarnation → foundKey
}

// LeafEntriesDefault is Redis' default of stream-node-max-entries.
const LeafEntriesDefault = 100

// New registers streams with a space. cacheBytes bounds the entries that are kept in memory.
func New(space *keyspace.Space, cacheBytes int64) *Streams {
	y := &Streams{space: space, cache: newCache(cacheBytes), streams: map[uint64]*stream{}}
	y.leafEntries.Store(LeafEntriesDefault)
	space.Register(keyspace.TypeStream, y)
	space.RegisterElements(KindEntry, KindAck, y)
	return y
}

// Of returns the streams of a space, nil if it has none.
func Of(space *keyspace.Space) *Streams {
	y, _ := space.TypeOf(keyspace.TypeStream).(*Streams)
	return y
}

// SetLeafEntries sets how many entries a leaf of the index takes (stream-node-max-entries): approximate trimming drops whole ones.
func (y *Streams) SetLeafEntries(n int64) {
	if n <= 0 {
		n = leafMax
	}
	y.leafEntries.Store(min(n, leafMax))
}

// LeafEntries is what SetLeafEntries has set.
func (y *Streams) LeafEntries() int64 { return y.leafEntries.Load() }

func (y *Streams) get(incarnation uint64) *stream {
	y.mu.RLock()
	defer y.mu.RUnlock()
	return y.streams[incarnation]
}

// obtain returns the stream of an incarnation, made if need be.
func (y *Streams) obtain(incarnation uint64) *stream {
	if s := y.get(incarnation); s != nil {
		return s
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	s := y.streams[incarnation]
	if s == nil {
		s = newStream(y, incarnation)
		y.streams[incarnation] = s
	}
	return s
}

// Name implements keyspace.Type.
func (y *Streams) Name() string { return "stream" }

// Bytes implements keyspace.Sizer.
func (y *Streams) Bytes() int64 { return y.bytes.Load() }

// Drop implements keyspace.Type: the entries go with their stream, without a look at each.
func (y *Streams) Drop(ref uint64, l keyspace.Ledger) {
	y.mu.Lock()
	s := y.streams[ref]
	delete(y.streams, ref)
	y.mu.Unlock()
	if s != nil {
		s.drop(l)
	}
}

// Flush implements keyspace.Type.
func (y *Streams) Flush(table uint16, l keyspace.Ledger) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for ref, s := range y.streams {
		if s.table == table {
			delete(y.streams, ref)
			s.drop(l)
		}
	}
}

// Renamed implements keyspace.LargeType.
func (y *Streams) Renamed(ref uint64, table uint16, stripe int) {
	s := y.get(ref)
	s.table = table
	s.stripe.Store(int32(stripe))
}

// foundKey is where recovery has found the key of a stream.
type foundKey struct {
	table  uint16
	stripe int
}

// Found implements keyspace.Type.
func (y *Streams) Found(table uint16, stripe int, ref uint64) {
	y.found.Store(ref, foundKey{table, stripe})
}

// Meta implements keyspace.Elements.
func (y *Streams) Meta(kind volume.Kind, p []byte) int { return metaOf(kind, p) }

// Reset implements keyspace.Elements.
func (y *Streams) Reset() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.streams = map[uint64]*stream{}
	y.bytes.Store(0)
	y.cache.clear()
	y.found.Clear()
}
