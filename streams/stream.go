package streams

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// A stream as it stands in memory. The stripe of its key guards it; recovery has a lock of its own.
type stream struct {
	incarnation uint64
	y           *Streams

	stripe atomic.Int32 // of its key; -1: gone, or its key has not been found yet
	table  uint16
	newest volume.Counter // of any change: what a reader's reply depends on
	sum    volume.Sum     // of all multiset items
	keep   map[uint32]use // what the live records take, by segment

	head      head // as it is now: length, added, last and tail move with each append, without a record
	headAt    volume.Place
	headSince volume.Counter // of the header's record; 0: there is none yet

	index index
	gaps  []gap                            // in order; none below head.low
	blobs map[volume.Counter]volume.BlobID // of entries; each holds a reference

	groups map[string]*group
	buried map[nameKey]item // names that are gone, of which older records may be listed
	tombs  []nameKey        // the same, to be looked at in turn

	bytes int64 // counted in Streams.bytes

	mu     sync.Mutex // recovery: replay comes from several goroutines
	replay *replaying
}

// use is how many records, of how many bytes of payload, a stream has in a segment.
type use struct{ records, bytes int64 }

// item is what is known of the newest record of a name.
type item struct {
	counter volume.Counter
	place   volume.Place
	first   uint32 // the oldest segment that may hold a record of the name
}

func (e *item) set(c volume.Counter, at volume.Place) {
	segment := uint32(at >> 32)
	if e.counter == 0 || segment < e.first {
		e.first = segment
	}
	e.counter, e.place = c, at
}

func (e *item) oldest() volume.Place { return volume.Place(e.first) << 32 }

func newStream(y *Streams, incarnation uint64) *stream {
	s := &stream{incarnation: incarnation, y: y, keep: map[uint32]use{}, groups: map[string]*group{}}
	s.stripe.Store(-1)
	return s
}

const streamCost = int64(unsafe.Sizeof(stream{})) + 96

// weigh brings what is counted of the stream up to date.
func (s *stream) weigh() {
	n := streamCost + s.index.bytes + int64(cap(s.gaps))*int64(unsafe.Sizeof(gap{})) + int64(len(s.buried)+len(s.blobs))*96 + int64(len(s.keep))*48
	for _, g := range s.groups {
		n += g.cost()
	}
	s.y.bytes.Add(n - s.bytes)
	s.bytes = n
}

// drop takes the whole stream out of the account.
func (s *stream) drop(l keyspace.Ledger) {
	s.stripe.Store(-1)
	s.y.bytes.Add(-s.bytes)
	l.Remove(s.sum)
	for segment, u := range s.keep {
		l.DeadMany(volume.Place(segment)<<32, u.records, u.bytes)
	}
	if len(s.blobs) > 0 {
		v, by := s.y.space.Volume(), l.Newest()
		for _, id := range s.blobs {
			v.BlobByID(id).Release(by)
		}
	}
}

// took notes a record that is live from now on; gave, one that is not.
func (s *stream) took(at volume.Place, size int) {
	u := s.keep[uint32(at>>32)]
	u.records++
	u.bytes += int64(size)
	s.keep[uint32(at>>32)] = u
}

func (s *stream) gave(at volume.Place, size int) {
	u := s.keep[uint32(at>>32)]
	if u.records--; u.records == 0 {
		delete(s.keep, uint32(at>>32))
		return
	}
	u.bytes -= int64(size)
	s.keep[uint32(at>>32)] = u
}

// hash is the multiset hash of an item.
func (s *stream) hash(v *volume.Volume, c volume.Counter, kind byte, parts ...uint64) volume.Sum {
	var room [64]byte
	return v.ItemHash(volume.StoreKeys, appendItem(room[:0], kind, s.incarnation, parts...), c)
}

func (s *stream) hashEntry(v *volume.Volume, m *meta) volume.Sum {
	return s.hash(v, m.counter, itemEntry, m.id.MS, m.id.Seq)
}

// credit puts an item in, with its record; debit takes it out.
func (s *stream) credit(t *keyspace.Tx, x volume.Sum, at volume.Place, size int) {
	t.Ledger().Add(x)
	s.sum.Add(x)
	s.took(at, size)
}

func (s *stream) debit(t *keyspace.Tx, x volume.Sum, at volume.Place, size int) {
	t.Ledger().Remove(x)
	t.Ledger().Dead(at, size)
	s.sum.Sub(x)
	s.gave(at, size)
}

// open looks a key up, which must be absent or a stream. nil: it is absent.
func open(t *keyspace.Tx, key []byte) (*stream, error) {
	it, err := t.Find(key)
	return opened(t, it, err)
}

func opened(t *keyspace.Tx, it keyspace.Item, err error) (*stream, error) {
	if err != nil || !it.Exists() {
		return nil, err
	}
	if it.Type != keyspace.TypeStream {
		return nil, keyspace.ErrWrongType
	}
	s := t.TypeOf(keyspace.TypeStream).(*Streams).get(it.Ref)
	if s == nil {
		panic("internal error: streams: a key names a stream that is not there")
	}
	t.See(s.newest)
	return s, nil
}

// createSize is what a new stream takes in a batch, in two records.
func createSize(key []byte) int { return keyspace.HeaderSize(len(key)) + headSize }

// create makes a key a new, empty stream. It takes createSize of the reservation.
func create(t *keyspace.Tx, key []byte, o keyspace.Put, h head) *stream {
	y := t.TypeOf(keyspace.TypeStream).(*Streams)
	o.Type = keyspace.TypeStream
	s := y.obtain(t.PutHeader(key, o, 0))
	s.table = t.Table()
	s.stripe.Store(int32(t.Stripe(key)))
	s.head = h
	s.head.low = volume.Counter(s.incarnation) // all its entries come later
	s.putHead(t)
	return s
}

// putHead journals the header as it is. It comes after all other records of a change: it counts what is below it.
func (s *stream) putHead(t *keyspace.Tx) {
	v := t.Volume()
	if s.headSince != 0 {
		s.debit(t, s.hash(v, s.headSince, itemHead), s.headAt, headSize)
	}
	s.head.length = uint64(s.index.length)
	p, c, at := t.Element(KindHead, headSize)
	encodeHead(p, s.incarnation, &s.head)
	s.headSince, s.headAt, s.newest = c, at, c
	s.credit(t, s.hash(v, c, itemHead), at, headSize)
}

// nameOf names an entry in errors.
func nameOf(id ID) string { return "entry " + id.String() }

// corrupt words that an entry cannot be what it should be.
func corrupt(t *keyspace.Tx, key []byte, id ID, why error) error {
	return t.Corrupt(key, fmt.Errorf("%s: %w", nameOf(id), why))
}
