package streams

import (
	"encoding/binary"
	"sort"
	"unsafe"

	"cvmstore/volume"
)

// meta is what the index knows of an entry. Its predecessor's counter is not kept: it follows from the entry before, or the gap.
type meta struct {
	id      ID
	counter volume.Counter
	place   volume.Place
	size    uint32 // of the record's payload
	blob    bool
}

// index holds the entries of a stream in order, packed into leaves: IDs and counters rise together, so both find an entry.
type index struct {
	leaves []*leaf
	length int
	bytes  int64
}

// leaf is a run of entries, each encoded as its difference from the one before.
type leaf struct {
	first, last meta
	n           int // entries
	appended    int // entries, deleted ones included
	sum         volume.Sum
	buf         []byte
}

// leafMax is the most entries in a leaf, whatever is configured: to change one of them all are decoded.
const leafMax = 256

const leafCost = int64(unsafe.Sizeof(leaf{})) + 8

// Flags of an encoded entry.
const (
	sameMS      = 1 << iota // as the entry before
	nextSeq                 // with the same ms one more, else 0
	nextCounter             // one more
	sameSegment             // the place is an offset's difference
	sameSize
	isBlob
)

// push encodes m behind the leaf's last entry.
func (l *leaf) push(m *meta) {
	l.n++
	if l.n == 1 {
		l.first, l.last = *m, *m
		return
	}
	p := &l.last
	flags := byte(0)
	if m.blob {
		flags |= isBlob
	}
	if m.id.MS == p.id.MS {
		flags |= sameMS
	}
	if flags&sameMS != 0 && m.id.Seq == p.id.Seq+1 || flags&sameMS == 0 && m.id.Seq == 0 {
		flags |= nextSeq
	}
	if m.counter == p.counter+1 {
		flags |= nextCounter
	}
	if m.place>>32 == p.place>>32 {
		flags |= sameSegment
	}
	if m.size == p.size {
		flags |= sameSize
	}
	b := append(l.buf, flags)
	if flags&sameMS == 0 {
		b = binary.AppendUvarint(b, m.id.MS-p.id.MS)
	}
	if flags&nextSeq == 0 {
		b = binary.AppendUvarint(b, m.id.Seq)
	}
	if flags&nextCounter == 0 {
		b = binary.AppendUvarint(b, uint64(m.counter-p.counter))
	}
	if flags&sameSegment != 0 {
		b = binary.AppendVarint(b, int64(uint32(m.place))-int64(uint32(p.place)))
	} else {
		b = binary.AppendUvarint(b, uint64(m.place))
	}
	if flags&sameSize == 0 {
		b = binary.AppendUvarint(b, uint64(m.size))
	}
	l.buf, l.last = b, *m
}

// cursor goes through a leaf.
type cursor struct {
	m   meta
	buf []byte
	n   int // entries left, m included
}

func (l *leaf) cursor() cursor { return cursor{l.first, l.buf, l.n} }

func (c *cursor) number() uint64 {
	n, k := binary.Uvarint(c.buf)
	c.buf = c.buf[k:]
	return n
}

// next goes on to the next entry; there must be one.
func (c *cursor) next() {
	m := &c.m
	flags := c.buf[0]
	c.buf = c.buf[1:]
	same := flags&sameMS != 0
	if !same {
		m.id.MS += c.number()
	}
	switch {
	case flags&nextSeq == 0:
		m.id.Seq = c.number()
	case same:
		m.id.Seq++
	default:
		m.id.Seq = 0
	}
	if flags&nextCounter != 0 {
		m.counter++
	} else {
		m.counter += volume.Counter(c.number())
	}
	if flags&sameSegment != 0 {
		d, k := binary.Varint(c.buf)
		c.buf = c.buf[k:]
		m.place = m.place>>32<<32 | volume.Place(uint32(int64(uint32(m.place))+d))
	} else {
		m.place = volume.Place(c.number())
	}
	if flags&sameSize == 0 {
		m.size = uint32(c.number())
	}
	m.blob = flags&isBlob != 0
	c.n--
}

// all decodes the leaf into out, which is emptied first.
func (l *leaf) all(out []meta) []meta {
	out = out[:0]
	if l.n == 0 {
		return out
	}
	c := l.cursor()
	out = append(out, c.m)
	for c.n > 1 {
		c.next()
		out = append(out, c.m)
	}
	return out
}

// refill encodes the leaf anew.
func (l *leaf) refill(list []meta) {
	l.n, l.buf = 0, l.buf[:0]
	for i := range list {
		l.push(&list[i])
	}
}

// close gives back what the leaf will not need, for it is full.
func (l *leaf) close() {
	if cap(l.buf)-len(l.buf) > len(l.buf)/8 {
		l.buf = append(make([]byte, 0, len(l.buf)), l.buf...)
	}
}

func (l *leaf) cost() int64 { return leafCost + int64(cap(l.buf)) }

// push appends an entry, to a leaf of at most limit entries.
func (x *index) push(m *meta, sum volume.Sum, limit int) {
	var l *leaf
	if n := len(x.leaves); n > 0 {
		l = x.leaves[n-1]
	}
	if l == nil || l.appended >= limit {
		if l != nil {
			x.bytes -= l.cost()
			l.close()
			x.bytes += l.cost()
		}
		l = &leaf{}
		x.leaves = append(x.leaves, l)
		x.bytes += l.cost()
	}
	x.bytes -= l.cost()
	l.push(m)
	x.bytes += l.cost()
	l.appended++
	l.sum.Add(sum)
	x.length++
}

// from returns the first leaf that may hold an entry at or behind id.
func (x *index) from(id ID) int {
	return sort.Search(len(x.leaves), func(i int) bool { return !x.leaves[i].last.id.Less(id) })
}

// fromCounter returns the first leaf that may hold an entry of that counter or above.
func (x *index) fromCounter(c volume.Counter) int {
	return sort.Search(len(x.leaves), func(i int) bool { return x.leaves[i].last.counter >= c })
}

// first returns the first entry; ok is false if there is none.
func (x *index) first() (meta, bool) {
	if len(x.leaves) == 0 {
		return meta{}, false
	}
	return x.leaves[0].first, true
}

func (x *index) last() (meta, bool) {
	if len(x.leaves) == 0 {
		return meta{}, false
	}
	return x.leaves[len(x.leaves)-1].last, true
}

// has says whether there is an entry of that ID.
func (x *index) has(id ID) bool {
	_, ok := x.find(id)
	return ok
}

func (x *index) find(id ID) (meta, bool) {
	var found meta
	ok := false
	x.ascend(id, func(m meta, _ volume.Counter) bool {
		if m.id == id {
			found, ok = m, true
		}
		return false
	})
	return found, ok
}

// ascend calls f for the entries from id on, until it returns false. before is the counter of the entry before, 0: there is none.
func (x *index) ascend(id ID, f func(m meta, before volume.Counter) bool) {
	var scratch [leafMax]meta
	i := x.from(id)
	before := volume.Counter(0)
	if i > 0 {
		before = x.leaves[i-1].last.counter
	}
	for ; i < len(x.leaves); i++ {
		list := x.leaves[i].all(scratch[:])
		for j := range list {
			if !list[j].id.Less(id) && !f(list[j], before) {
				return
			}
			before = list[j].counter
		}
	}
}

// descend is ascend from id on downwards.
func (x *index) descend(id ID, f func(m meta, before volume.Counter) bool) {
	var scratch [leafMax]meta
	for i := min(x.from(id), len(x.leaves)-1); i >= 0; i-- {
		list := x.leaves[i].all(scratch[:])
		for j := len(list) - 1; j >= 0; j-- {
			before := volume.Counter(0)
			switch {
			case j > 0:
				before = list[j-1].counter
			case i > 0:
				before = x.leaves[i-1].last.counter
			}
			if !id.Less(list[j].id) && !f(list[j], before) {
				return
			}
		}
	}
}

// locate decodes the leaf that holds the entry of a counter into scratch, and returns where the entry is; ok is false if there is
// none.
func (x *index) locate(c volume.Counter, scratch []meta) (i int, list []meta, j int, ok bool) {
	if i = x.fromCounter(c); i == len(x.leaves) {
		return 0, nil, 0, false
	}
	list = x.leaves[i].all(scratch)
	j = sort.Search(len(list), func(j int) bool { return list[j].counter >= c })
	return i, list, j, j < len(list) && list[j].counter == c
}

// move gives the entry of a counter another place, if it is at the one that is named.
func (x *index) move(c volume.Counter, from, to volume.Place) bool {
	var scratch [leafMax]meta
	i, list, j, ok := x.locate(c, scratch[:])
	if !ok || list[j].place != from {
		return false
	}
	list[j].place = to
	x.refill(i, list)
	return true
}

// remove takes an entry out, whose multiset item is sum.
func (x *index) remove(c volume.Counter, sum volume.Sum) {
	var scratch [leafMax]meta
	i, list, j, ok := x.locate(c, scratch[:])
	if !ok {
		panic("internal error: streams: an entry that was found is gone")
	}
	x.length--
	x.leaves[i].sum.Sub(sum)
	x.refill(i, append(list[:j], list[j+1:]...))
}

func (x *index) refill(i int, list []meta) {
	l := x.leaves[i]
	x.bytes -= l.cost()
	if len(list) == 0 {
		x.leaves = append(x.leaves[:i], x.leaves[i+1:]...)
		return
	}
	l.refill(list)
	x.bytes += l.cost()
}

// cutLeaf takes the first leaf out.
func (x *index) cutLeaf() *leaf {
	l := x.leaves[0]
	x.bytes -= l.cost()
	x.leaves[0] = nil
	x.leaves = x.leaves[1:]
	x.length -= l.n
	return l
}

// cut takes the first n entries of the first leaf out, which has more; sum is that of their items.
func (x *index) cut(n int, sum volume.Sum) {
	var scratch [leafMax]meta
	l := x.leaves[0]
	x.bytes -= l.cost()
	l.refill(l.all(scratch[:])[n:])
	l.sum.Sub(sum)
	x.length -= n
	x.bytes += l.cost()
}
