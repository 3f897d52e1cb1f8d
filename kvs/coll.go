package kvs

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// A coll is a large collection as it stands in memory: one fixed-size struct an element without pointers, names in an arena,
// a hash index over them and, for sorted sets and lists, a tree. Values of hashes and lists stay on the device; sorted sets
// have their scores here. The stripe of its key guards it all; recovery has a lock of its own.
type coll struct {
	incarnation uint64
	typ         keyspace.TypeID
	space       *keyspace.Space

	stripe  atomic.Int32 // of its key; -1: gone, or its key has not been found yet
	table   uint16
	newest  volume.Counter // of a change of an element: what a reader's reply depends on
	sum     volume.Sum     // of all elements' multiset items
	longest uint32         // the longest name or value since the collection became large
	keep    map[uint32]use // what the live records take, by segment

	chunks [][]elem
	top    elemID // elements ever used are below it
	idle   elemID // first free one; noElem: none
	live   int
	names  names
	dict   dict
	tree   tree
	tombs  []elemID // buried elements, to be looked at in turn

	bytes int64         // of elements and names
	total *atomic.Int64 // the same of all collections

	mu sync.Mutex // recovery: replay comes from several goroutines
}

// elem is one element.
type elem struct {
	counter volume.Counter
	place   volume.Place
	aux     uint64 // sorted sets: the score's bits; hashes and lists: where the value is in the cache
	name    uint64 // in names
	nameLen uint32
	size    uint32 // of the record's payload
	hash    uint32
	state   uint32 // low two bits; above them the oldest segment that may hold a record of this name
}

// elemID numbers the elements of one collection.
type elemID uint32

const noElem = ^elemID(0)

// States of an element. A buried one was removed, but older records of its name may still be listed: its tombstone is needed.
const (
	elemFree uint32 = iota
	elemLive
	elemBuried

	elemStates = 3
)

func (e *elem) is(state uint32) bool { return e.state&elemStates == state }

// first is the oldest segment that may hold a record of the element's name.
func (e *elem) first() volume.Place { return volume.Place(e.state>>2) << 32 }

// seen notes the place of a record of the element, and its state.
func (e *elem) seen(state uint32, at volume.Place) {
	first := uint32(at >> 32)
	if old := e.state >> 2; old != 0 {
		first = min(first, old)
	}
	e.state = first<<2 | state
}

// use is how many records, of how many bytes of payload, a collection has in a segment.
type use struct{ records, bytes int64 }

const (
	elemChunkShift = 10
	elemChunk      = 1 << elemChunkShift
)

// elemCost is what an element takes beside its name: the struct, and its part of index and tree.
const elemCost = int64(unsafe.Sizeof(elem{})) + 16

func (c *coll) weigh(n int64) {
	c.bytes += n
	c.total.Add(n)
}

func newColl(space *keyspace.Space, incarnation uint64, total *atomic.Int64) *coll {
	c := &coll{incarnation: incarnation, space: space, idle: noElem, keep: map[uint32]use{}, total: total}
	c.stripe.Store(-1)
	return c
}

// at returns an element. The pointer is valid until the next add.
func (c *coll) at(id elemID) *elem { return &c.chunks[id>>elemChunkShift][id&(elemChunk-1)] }

func (c *coll) name(e *elem) []byte { return c.names.get(e.name, e.nameLen) }

// valueLen is the length of an element's value: of a hash or a list.
func (e *elem) valueLen() int { return int(e.size) - valueHeader - int(e.nameLen) }

// find looks a live element up by name.
func (c *coll) find(name []byte) (elemID, bool) {
	id, ok := c.findAny(name)
	return id, ok && c.at(id).is(elemLive)
}

// findAny finds buried ones as well.
func (c *coll) findAny(name []byte) (elemID, bool) {
	return c.dict.find(c, c.space.HashOf(name), name)
}

// add makes an element for a name that is not there, or only buried.
func (c *coll) add(name []byte) (elemID, *elem) {
	c.live++
	if id, ok := c.findAny(name); ok {
		return id, c.at(id)
	}
	id := c.idle
	if id != noElem {
		c.idle = elemID(c.at(id).name)
	} else {
		id = c.top
		c.top++
		c.room(id)
	}
	e := c.at(id)
	*e = elem{name: c.names.add(name), nameLen: uint32(len(name)), hash: c.space.HashOf(name)}
	c.dict.insert(c, id, e.hash)
	c.weigh(elemCost + int64(len(name)))
	return id, e
}

// room makes sure that there is a place for id. The first chunk grows, so that small collections stay small.
func (c *coll) room(id elemID) {
	i := int(id >> elemChunkShift)
	if i == len(c.chunks) {
		n := elemChunk
		if i == 0 {
			n = 16
		}
		c.chunks = append(c.chunks, make([]elem, n))
	}
	if in := int(id & (elemChunk - 1)); in >= len(c.chunks[i]) {
		c.chunks[i] = append(make([]elem, 0, 2*len(c.chunks[i])), c.chunks[i]...)
		c.chunks[i] = c.chunks[i][:cap(c.chunks[i])]
	}
}

// forget takes an element out of everything but the tree.
func (c *coll) forget(id elemID) {
	e := c.at(id)
	c.dict.remove(c, id, e.hash)
	c.weigh(-elemCost - int64(e.nameLen))
	c.names.drop(e.name, e.nameLen)
	*e = elem{name: uint64(c.idle)}
	c.idle = id
}

// tombsPerChange is how many tombstones a change looks at: more than it can leave.
const tombsPerChange = 3

// purge forgets buried elements whose tombstones nothing needs any more.
func (c *coll) purge(v *volume.Volume) {
	for range min(tombsPerChange, len(c.tombs)) {
		id := c.tombs[0]
		c.tombs = c.tombs[1:]
		switch e := c.at(id); {
		case !e.is(elemBuried):
		case v.Lists(e.first(), e.place):
			c.tombs = append(c.tombs, id)
		default:
			c.forget(id)
		}
	}
}

// took notes a record that is live from now on; gave, one that is not.
func (c *coll) took(at volume.Place, size uint32) {
	u := c.keep[uint32(at>>32)]
	u.records++
	u.bytes += int64(size)
	c.keep[uint32(at>>32)] = u
}

func (c *coll) gave(at volume.Place, size uint32) {
	u := c.keep[uint32(at>>32)]
	if u.records--; u.records == 0 {
		delete(c.keep, uint32(at>>32))
		return
	}
	u.bytes -= int64(size)
	c.keep[uint32(at>>32)] = u
}

// each calls f for all live elements, in no order.
func (c *coll) each(f func(id elemID, e *elem) bool) {
	for id := range c.top {
		if e := c.at(id); e.is(elemLive) && !f(id, e) {
			return
		}
	}
}

// random returns some element.
func (c *coll) random(t *keyspace.Tx) elemID {
	if n := c.tree.len(); n > 0 {
		return c.tree.at(int(t.Random(uint64(n))))
	}
	const tries = 200 // then the next one from there on: almost all places are free
	var id elemID
	for range tries {
		id = elemID(t.Random(uint64(c.top)))
		if c.at(id).is(elemLive) {
			return id
		}
	}
	for !c.at(id).is(elemLive) {
		id = (id + 1) % c.top
	}
	return id
}

// memory is about how many bytes the collection takes.
func (c *coll) memory() int {
	n := int(unsafe.Sizeof(*c)) + c.names.bytes + c.dict.bytes() + len(c.keep)*48
	for _, chunk := range c.chunks {
		n += cap(chunk) * int(unsafe.Sizeof(elem{}))
	}
	return n + c.tree.len()*8
}
