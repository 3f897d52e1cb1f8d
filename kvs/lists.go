package kvs

import (
	"encoding/binary"
	"errors"

	"cvmstore/keyspace"
)

// Errors of lists.
var (
	ErrNoSuchKey  = errors.New("ERR no such key")
	ErrIndexRange = errors.New("ERR index out of range")
)

// listHandle is a list as one command finds it.
type listHandle struct {
	t    *keyspace.Tx
	k    *Collections
	key  []byte
	item keyspace.Item
	big  *coll    // a large list; nil: packed, or absent
	vals [][]byte // of a packed one
}

func openList(t *keyspace.Tx, key []byte) (*listHandle, error) {
	h := &listHandle{t: t, key: key, k: t.TypeOf(keyspace.TypeList).(*collType).Collections}
	var err error
	if h.item, err = t.Find(key); err != nil || !h.item.Exists() {
		return h, err
	}
	if h.item.Type != keyspace.TypeList {
		return h, keyspace.ErrWrongType
	}
	if h.item.Large() {
		if h.big = h.k.get(h.item.Ref); h.big == nil {
			panic("internal error: kvs: a key names a list that is not there")
		}
		t.See(h.big.newest)
		return h, nil
	}
	val, _, err := t.Load(key, keyspace.TypeList)
	if err != nil {
		return h, err
	}
	r := packedReader{p: val}
	n := r.number()
	if !r.bad && n <= uint64(len(val)) {
		h.vals = make([][]byte, n)
		for i := range h.vals {
			h.vals[i] = r.bytes()
		}
	}
	if r.bad || len(r.p) != 0 {
		return h, t.Corrupt(key, errElement)
	}
	return h, nil
}

func (h *listHandle) exists() bool { return h.item.Exists() }

func (h *listHandle) len() int {
	if h.big != nil {
		return h.big.tree.len()
	}
	return len(h.vals)
}

// values returns the elements with ranks in [from, to). It asks for all that are on the device before it gives up.
func (h *listHandle) values(from, to int) ([][]byte, error) {
	if h.big == nil {
		return h.vals[from:to], nil
	}
	out := make([][]byte, 0, to-from)
	var missed error
	h.big.tree.walk(from, to, false, func(id elemID) bool {
		val, err := h.k.load(h.t, h.key, h.big, id)
		if err != nil && (missed == nil || isMiss(missed)) {
			missed = err
		}
		out = append(out, val)
		return missed == nil || isMiss(missed)
	})
	return out, missed
}

// listEdit is what a command does to a list, in this order.
type listEdit struct {
	dels   []int    // ranks that go, ascending
	set    int      // the rank that gets a value, after that
	insert int      // the rank before which a value is inserted, after that
	val    []byte   // for set or insert
	mode   editMode // which of them
	left   [][]byte // pushed at the front, one after the other
	right  [][]byte // pushed at the end
}

type editMode uint8

const (
	editEnds editMode = iota
	editSet
	editInsert
)

// plan checks an edit and says what it takes.
func (h *listHandle) plan(event string, e listEdit) (plan, error) {
	n := h.len() - len(e.dels) + len(e.left) + len(e.right)
	if e.mode == editInsert {
		n++
	}
	if n == 0 {
		if !h.exists() {
			return plan{}, nil
		}
		return erasePlan(h.t, h.key, event), nil
	}
	for _, part := range [...][][]byte{e.left, e.right, {e.val}} {
		for _, v := range part {
			if size := valueHeader + labelMax + len(v); size > h.t.MaxRecord() {
				return plan{}, &SizeError{len(v), h.t.MaxRecord() - valueHeader - labelMax}
			}
		}
	}
	if len(h.key) > keyspace.KeyMax || keyspace.PutSize(len(h.key), packedMax) > h.t.MaxRecord() {
		return plan{}, keyspace.ErrKeyTooLong
	}
	if h.big != nil {
		return h.planLarge(event, &e), nil
	}
	return h.planPacked(event, e.apply(h.vals)), nil
}

// apply makes the edit in a slice.
func (e *listEdit) apply(vals [][]byte) [][]byte {
	out := make([][]byte, 0, len(vals)+len(e.left)+len(e.right)+1)
	for i := len(e.left) - 1; i >= 0; i-- {
		out = append(out, e.left[i])
	}
	dels := e.dels
	at := 0 // the rank without what was deleted
	for i, v := range vals {
		if len(dels) > 0 && dels[0] == i {
			dels = dels[1:]
			continue
		}
		if e.mode == editInsert && at == e.insert {
			out = append(out, e.val)
		}
		if e.mode == editSet && at == e.set {
			v = e.val
		}
		out = append(out, v)
		at++
	}
	if e.mode == editInsert && at == e.insert {
		out = append(out, e.val)
	}
	return append(out, e.right...)
}

// planPacked makes these elements the list's value: one record, or, if they are too much for that, one each.
func (h *listHandle) planPacked(event string, vals [][]byte) plan {
	size := uvarintSize(len(vals))
	for _, v := range vals {
		size += uvarintSize(len(v)) + len(v)
	}
	o := keyspace.Put{Type: keyspace.TypeList, Encoding: encodingQuicklist, Expiry: h.item.Expiry, Event: event}
	if size <= packedMax {
		return plan{keyspace.PutSize(len(h.key), size), 1, len(vals) >= len(h.vals), func() {
			p := binary.AppendUvarint(make([]byte, 0, size), uint64(len(vals)))
			for _, v := range vals {
				p = append(binary.AppendUvarint(p, uint64(len(v))), v...)
			}
			h.t.Put(h.key, o, p)
		}}
	}
	bytes := keyspace.HeaderSize(len(h.key))
	for _, v := range vals {
		bytes += valueHeader + labelMax + len(v)
	}
	return plan{bytes, len(vals) + 1, true, func() {
		c := h.k.create(h.t, h.key, o)
		for _, v := range vals {
			h.k.push(h.t, c, v, false)
		}
	}}
}

func (h *listHandle) planLarge(event string, e *listEdit) plan {
	c := h.big
	var p plan
	for _, part := range [...][][]byte{e.left, e.right} {
		for _, v := range part {
			p.bytes += valueHeader + labelMax + len(v)
			p.records++
		}
	}
	dels := make([]elemID, len(e.dels))
	for i, rank := range e.dels {
		dels[i] = c.tree.at(rank)
		p.bytes += goneHeader + int(c.at(dels[i]).nameLen)
	}
	p.records += len(dels)
	p.grows = p.records > len(dels) || e.mode != editEnds
	var label []byte
	switch e.mode {
	case editSet:
		label = c.label(e.set)
	case editInsert:
		label = between(c.label(e.insert-1), c.label(e.insert))
	}
	if e.mode != editEnds {
		p.bytes += valueHeader + len(label) + len(e.val)
		p.records++
	}
	p.apply = func() {
		for i := len(dels) - 1; i >= 0; i-- {
			c.tree.remove(e.dels[i])
			h.k.remove(h.t, c, dels[i])
		}
		switch e.mode {
		case editSet:
			h.k.put(h.t, c, label, e.val, 0)
		case editInsert:
			c.tree.insert(e.insert, h.k.put(h.t, c, label, e.val, 0))
		}
		for _, v := range e.left {
			h.k.push(h.t, c, v, true)
		}
		for _, v := range e.right {
			h.k.push(h.t, c, v, false)
		}
		h.t.ChangedValue(h.key, event, c.newest)
	}
	return p
}

// push journals a new element at an end of a large list.
func (k *Collections) push(t *keyspace.Tx, c *coll, val []byte, left bool) {
	n := c.tree.len()
	major, rank := uint64(labelMiddle), n
	switch {
	case n == 0:
	case left:
		major, rank = labelMajor(c.label(0))-1, 0
	default:
		major = labelMajor(c.label(n-1)) + 1
	}
	var label [8]byte
	binary.BigEndian.PutUint64(label[:], major)
	c.tree.insert(rank, k.put(t, c, label[:], val, 0))
}

// An element of a large list is named by a label, whose bytes are in the order of the list: 8 bytes, counted up and down from
// the middle by pushes, and more where something was inserted between two.
const (
	labelMiddle = 1 << 63
	labelMax    = 8 // of a push
)

// label returns the label of a rank, nil beyond the ends.
func (c *coll) label(rank int) []byte {
	if rank < 0 || rank >= c.tree.len() {
		return nil
	}
	return c.name(c.at(c.tree.at(rank)))
}

func labelMajor(label []byte) uint64 {
	var b [8]byte
	copy(b[:], label)
	return binary.BigEndian.Uint64(b[:])
}

// between makes a label between two; nil is beyond an end. It grows by a byte for about eight insertions at one place. No label
// that it makes ends in a zero byte, so there is always room before one.
func between(a, b []byte) []byte {
	switch {
	case a == nil:
		return binary.BigEndian.AppendUint64(nil, labelMajor(b)-1)
	case b == nil:
		return binary.BigEndian.AppendUint64(nil, labelMajor(a)+1)
	}
	digit := func(i int) int {
		if i < len(a) {
			return int(a[i])
		}
		return 0
	}
	i := 0
	var out []byte
	for digit(i) == int(b[i]) {
		out = append(out, b[i])
		i++
	}
	if gap := int(b[i]) - digit(i); gap > 1 {
		return append(out, byte(digit(i)+gap/2))
	}
	out = append(out, byte(digit(i)))
	for i++; digit(i) == 0xff; i++ {
		out = append(out, 0xff)
	}
	return append(out, byte((digit(i)+256)/2))
}

func (h *listHandle) commit(event string, e listEdit) error {
	p, err := h.plan(event, e)
	if err != nil {
		return err
	}
	return run(h.t, p)
}
