package kvs

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Collections holds the large collections of a space, by incarnation. It is their type for keys (keyspace.LargeType) and
// answers for the records of their elements (keyspace.Elements). Make it before the volume is opened.
type Collections struct {
	space  *keyspace.Space
	values *valueCache

	// Limits decide which encoding OBJECT ENCODING names, as Redis' parameters of the same names. They may be changed at any
	// time, as a whole.
	limits atomic.Pointer[Limits]

	bytes atomic.Int64 // that elements and their names take

	mu    sync.RWMutex
	colls map[uint64]*coll

	found sync.Map // recovery: incarnation → foundKey
}

// Limits are Redis' thresholds between compact and full encodings.
type Limits struct {
	HashEntries, HashValue           int64
	SetIntset, SetEntries, SetValue  int64
	ZSetEntries, ZSetValue, ListSize int64
}

// DefaultLimits are Redis'.
func DefaultLimits() Limits {
	return Limits{
		HashEntries: 128, HashValue: 64, SetIntset: 512, SetEntries: 128, SetValue: 64, ZSetEntries: 128, ZSetValue: 64, ListSize: -2,
	}
}

// NewCollections registers hashes, sets, sorted sets and lists with a space. cacheBytes bounds the values of large hashes and
// lists that are kept in memory.
func NewCollections(space *keyspace.Space, cacheBytes int64) *Collections {
	k := &Collections{space: space, values: newValueCache(cacheBytes), colls: map[uint64]*coll{}}
	l := DefaultLimits()
	k.limits.Store(&l)
	for typ, name := range map[keyspace.TypeID]string{
		keyspace.TypeHash: "hash", keyspace.TypeSet: "set", keyspace.TypeZSet: "zset", keyspace.TypeList: "list",
	} {
		space.Register(typ, &collType{k, typ, name})
	}
	space.RegisterElements(KindValue, KindGone, k)
	return k
}

// SetLimits replaces the thresholds. What is encoded already stays so until it changes.
func (k *Collections) SetLimits(l Limits) { k.limits.Store(&l) }

func (k *Collections) get(incarnation uint64) *coll {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.colls[incarnation]
}

// obtain returns the collection of an incarnation, made if need be.
func (k *Collections) obtain(incarnation uint64) *coll {
	if c := k.get(incarnation); c != nil {
		return c
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.colls[incarnation]
	if c == nil {
		c = newColl(k.space, incarnation, &k.bytes)
		k.colls[incarnation] = c
	}
	return c
}

// collType is one of the four types.
type collType struct {
	*Collections
	typ  keyspace.TypeID
	name string
}

// Name implements keyspace.Type.
func (y *collType) Name() string { return y.name }

// Bytes implements keyspace.Sizer. One of the types answers for all.
func (y *collType) Bytes() int64 {
	if y.typ != keyspace.TypeHash {
		return 0
	}
	return y.bytes.Load()
}

// Drop implements keyspace.Type: the elements go with their collection, without a look at each.
func (y *collType) Drop(ref uint64, l keyspace.Ledger) {
	y.mu.Lock()
	c := y.colls[ref]
	delete(y.colls, ref)
	y.mu.Unlock()
	if c != nil {
		c.drop(l)
	}
}

func (c *coll) drop(l keyspace.Ledger) {
	c.stripe.Store(-1)
	c.weigh(-c.bytes)
	l.Remove(c.sum)
	for segment, u := range c.keep {
		l.DeadMany(volume.Place(segment)<<32, u.records, u.bytes)
	}
}

// Flush implements keyspace.Type.
func (y *collType) Flush(table uint16, l keyspace.Ledger) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for ref, c := range y.colls {
		if c.table == table && c.typ == y.typ {
			delete(y.colls, ref)
			c.drop(l)
		}
	}
}

// Renamed implements keyspace.LargeType.
func (y *collType) Renamed(ref uint64, table uint16, stripe int) {
	c := y.get(ref)
	c.table = table
	c.stripe.Store(int32(stripe))
}

// foundKey is where recovery has found the key of a collection.
type foundKey struct {
	typ    keyspace.TypeID
	table  uint16
	stripe int
}

// Found implements keyspace.Type.
func (y *collType) Found(table uint16, stripe int, ref uint64) {
	y.found.Store(ref, foundKey{y.typ, table, stripe})
}

// Meta implements keyspace.Elements.
func (k *Collections) Meta(kind volume.Kind, p []byte) int { return elementMeta(kind, p) }

// Reset implements keyspace.Elements.
func (k *Collections) Reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.colls = map[uint64]*coll{}
	k.bytes.Store(0)
	k.found.Clear()
}

// Replay implements keyspace.Elements.
func (k *Collections) Replay(_ *volume.Volume, r volume.Record) error {
	x, err := decodeElement(r.Kind, r.Payload)
	if err != nil {
		return err
	}
	c := k.obtain(x.incarnation)
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.findAny(x.name)
	if !ok {
		id, _ = c.add(x.name)
	}
	e := c.at(id)
	e.seen(e.state&elemStates, r.Place)
	switch {
	case e.counter > r.Counter:
	case e.counter == r.Counter:
		e.place = max(e.place, r.Place)
	default:
		e.counter, e.place, e.size, e.aux, e.state = r.Counter, r.Place, uint32(r.Size), 0, e.state&^elemStates|elemLive
		switch r.Kind {
		case KindScore:
			e.aux = scoreBits(x.score)
		case KindGone:
			e.state = e.state&^elemStates | elemBuried
		}
	}
	return nil
}

// Settle implements keyspace.Elements.
func (k *Collections) Settle(v *volume.Volume, d *volume.Delta) error {
	var live []*coll
	for ref, c := range k.colls {
		f, ok := k.found.Load(ref)
		if !ok {
			c.weigh(-c.bytes)
			delete(k.colls, ref)
			continue
		}
		key := f.(foundKey)
		c.typ, c.table = key.typ, key.table
		c.stripe.Store(int32(key.stripe))
		live = append(live, c)
	}
	var missing error
	k.found.Range(func(ref, _ any) bool {
		if k.colls[ref.(uint64)] == nil {
			missing = fmt.Errorf("no element of a collection was found: %w", volume.ErrCorrupt)
		}
		return missing == nil
	})
	k.found.Clear()
	if missing != nil {
		return missing
	}
	work := make(chan *coll)
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 16) {
		all.Go(func() {
			for c := range work {
				c.settle(d)
			}
		})
	}
	for _, c := range live {
		work <- c
	}
	close(work)
	all.Wait()
	for _, c := range live {
		c.hashAll(v)
		d.Add(c.sum)
	}
	return nil
}

// settle says which records are live and builds the tree.
func (c *coll) settle(d *volume.Delta) {
	c.live = 0
	for id := range c.top {
		e := c.at(id)
		switch e.state & elemStates {
		case elemBuried:
			c.newest = max(c.newest, e.counter)
			c.tombs = append(c.tombs, id)
		case elemLive:
			c.live++
			c.newest = max(c.newest, e.counter)
			c.longest = max(c.longest, e.nameLen)
			if c.typ == keyspace.TypeHash || c.typ == keyspace.TypeList {
				c.longest = max(c.longest, uint32(e.valueLen()))
			}
			c.took(e.place, e.size)
			d.Live(e.place, int(e.size))
		}
	}
	if c.typ == keyspace.TypeZSet || c.typ == keyspace.TypeList {
		c.tree.build(c.sorted())
	}
}

// hashAll adds up the multiset items, on all cores.
func (c *coll) hashAll(v *volume.Volume) {
	workers := min(runtime.GOMAXPROCS(0), 1+len(c.chunks)/4)
	sums := make([]volume.Sum, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			var item []byte
			for i := w; i < len(c.chunks); i += workers {
				for j := range c.chunks[i] {
					if e := &c.chunks[i][j]; e.is(elemLive) {
						var x volume.Sum
						x, item = c.item(v, e, item)
						sums[w].Add(x)
					}
				}
			}
		})
	}
	all.Wait()
	for _, x := range sums {
		c.sum.Add(x)
	}
}

// item is the multiset hash of an element, with scratch.
func (c *coll) item(v *volume.Volume, e *elem, scratch []byte) (volume.Sum, []byte) {
	score := uint64(0)
	if c.typ == keyspace.TypeZSet {
		score = e.aux
	}
	scratch = appendElementItem(scratch[:0], c.incarnation, score, c.name(e))
	return v.ItemHash(volume.StoreKeys, scratch, e.counter), scratch
}

// sorted returns the live elements in order: by score and member, or by position.
func (c *coll) sorted() []elemID {
	type pair struct {
		score float64
		id    elemID
	}
	all := make([]pair, 0, c.live)
	c.each(func(id elemID, e *elem) bool {
		p := pair{id: id}
		if c.typ == keyspace.TypeZSet {
			p.score = scoreOf(e.aux)
		}
		all = append(all, p)
		return true
	})
	slices.SortFunc(all, func(a, b pair) int {
		switch {
		case a.score < b.score:
			return -1
		case a.score > b.score:
			return 1
		}
		return compareBytes(c.name(c.at(a.id)), c.name(c.at(b.id)))
	})
	ids := make([]elemID, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	return ids
}

// withRecord calls f, under the lock of its key, with the collection that a record belongs to, if that is alive.
func (k *Collections) withRecord(r volume.Record, f func(c *coll, x *element)) {
	x, err := decodeElement(r.Kind, r.Payload)
	if err != nil {
		return
	}
	c := k.get(x.incarnation)
	if c == nil {
		return
	}
	for again := true; again; { // the key may be renamed meanwhile
		stripe := c.stripe.Load()
		if stripe < 0 {
			return
		}
		k.space.WithStripe(int(stripe), func() {
			if again = c.stripe.Load() != stripe; !again {
				f(c, &x)
			}
		})
	}
}

// needed reports whether recovery would come to another state without the record.
func (c *coll) needed(v *volume.Volume, r *volume.Record, x *element) (*elem, bool) {
	id, ok := c.findAny(x.name)
	if !ok {
		return nil, false
	}
	e := c.at(id)
	if e.counter != r.Counter || e.place != r.Place {
		return nil, false
	}
	return e, r.Kind != KindGone || v.Lists(e.first(), e.place)
}

// Live implements keyspace.Elements.
func (k *Collections) Live(v *volume.Volume, r volume.Record) (live bool) {
	k.withRecord(r, func(c *coll, x *element) { _, live = c.needed(v, &r, x) })
	return live
}

// Move implements keyspace.Elements.
func (k *Collections) Move(v *volume.Volume, r volume.Record) (moved bool, err error) {
	k.withRecord(r, func(c *coll, x *element) {
		e, ok := c.needed(v, &r, x)
		if !ok {
			return
		}
		var t *volume.Tx
		if t, err = v.Begin(r.Size, 1, volume.ClassMove); err != nil {
			return
		}
		payload, at := t.Append(volume.StoreKeys, r.Kind, r.Counter, r.Size)
		copy(payload, r.Payload)
		if r.Kind != KindGone {
			c.gave(e.place, e.size)
			c.took(at, e.size)
			t.Dead(r.Place, r.Size)
		} else {
			t.Dead(at, r.Size) // a tombstone counts as dead from the start
		}
		e.place = at
		t.End()
		moved = true
	})
	return moved, err
}

// CollectionsOf returns the collections of a space, nil if it has none.
func CollectionsOf(space *keyspace.Space) *Collections {
	if y, ok := space.TypeOf(keyspace.TypeHash).(*collType); ok {
		return y.Collections
	}
	return nil
}
