package kvs

import (
	"bytes"
	"slices"

	"cvmstore/keyspace"
)

// The commands on lists.

// Push pushes elements at an end, one after the other, and returns the list's length after it; with exists only if there is one.
func Push(t *keyspace.Tx, key []byte, vals [][]byte, left, exists bool) (int, error) {
	h, err := openList(t, key)
	if err != nil || exists && !h.exists() {
		return 0, err
	}
	n := h.len() + len(vals)
	e, event := listEdit{right: vals}, "rpush"
	if left {
		e, event = listEdit{left: vals}, "lpush"
	}
	return n, h.commit(event, e)
}

// Pop removes up to count elements from an end and returns them, the outermost first; exists says whether there is a list.
func Pop(t *keyspace.Tx, key []byte, left bool, count int64) (vals [][]byte, exists bool, err error) {
	h, err := openList(t, key)
	if err != nil || !h.exists() || count <= 0 {
		return nil, h.exists(), err
	}
	n := int(min(count, int64(h.len())))
	from, event := 0, "lpop"
	if !left {
		from, event = h.len()-n, "rpop"
	}
	if vals, err = h.values(from, from+n); err != nil {
		return nil, true, err
	}
	vals = slices.Clone(vals)
	if !left {
		slices.Reverse(vals)
	}
	return vals, true, h.commit(event, listEdit{dels: ranks(from, from+n)})
}

func ranks(from, to int) []int {
	out := make([]int, to-from)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// LLen returns the length.
func LLen(t *keyspace.Tx, key []byte) (int, error) {
	h, err := openList(t, key)
	if err != nil {
		return 0, err
	}
	return h.len(), nil
}

// LRange returns the elements from start to stop, both included; negative ones count from the end.
func LRange(t *keyspace.Tx, key []byte, start, stop int64) ([][]byte, error) {
	h, err := openList(t, key)
	if err != nil {
		return nil, err
	}
	from, to := span(start, stop, h.len())
	return h.values(from, to)
}

// span turns a range with both ends included, negative ones from the end, into [from, to).
func span(start, stop int64, n int) (from, to int) {
	if start < 0 {
		start = max(start+int64(n), 0)
	}
	if stop < 0 {
		stop += int64(n)
	}
	stop = min(stop, int64(n)-1)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop) + 1
}

// LIndex returns the element of a rank, negative ones from the end.
func LIndex(t *keyspace.Tx, key []byte, rank int64) (val []byte, ok bool, err error) {
	h, err := openList(t, key)
	if err != nil {
		return nil, false, err
	}
	if rank < 0 {
		rank += int64(h.len())
	}
	if rank < 0 || rank >= int64(h.len()) {
		return nil, false, nil
	}
	vals, err := h.values(int(rank), int(rank)+1)
	if err != nil {
		return nil, false, err
	}
	return vals[0], true, nil
}

// LSet replaces the element of a rank.
func LSet(t *keyspace.Tx, key []byte, rank int64, val []byte) error {
	h, err := openList(t, key)
	if err != nil {
		return err
	}
	if !h.exists() {
		return ErrNoSuchKey
	}
	if rank < 0 {
		rank += int64(h.len())
	}
	if rank < 0 || rank >= int64(h.len()) {
		return ErrIndexRange
	}
	return h.commit("lset", listEdit{mode: editSet, set: int(rank), val: val})
}

// LInsert inserts before or after the first element that equals pivot. It returns the length, -1 if there is no pivot, 0 if
// there is no list.
func LInsert(t *keyspace.Tx, key []byte, after bool, pivot, val []byte) (int, error) {
	h, err := openList(t, key)
	if err != nil || !h.exists() {
		return 0, err
	}
	vals, err := h.values(0, h.len())
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(vals, func(v []byte) bool { return bytes.Equal(v, pivot) })
	if at < 0 {
		return -1, nil
	}
	if after {
		at++
	}
	n := h.len() + 1
	return n, h.commit("linsert", listEdit{mode: editInsert, insert: at, val: val})
}

// LRem removes the first count elements that equal val, from the end if count is negative, all if it is 0.
func LRem(t *keyspace.Tx, key []byte, count int64, val []byte) (int, error) {
	h, err := openList(t, key)
	if err != nil || !h.exists() {
		return 0, err
	}
	vals, err := h.values(0, h.len())
	if err != nil {
		return 0, err
	}
	var dels []int
	for i, v := range vals {
		if bytes.Equal(v, val) {
			dels = append(dels, i)
		}
	}
	switch {
	case count > 0 && int64(len(dels)) > count:
		dels = dels[:count]
	case count < 0 && int64(len(dels)) > -count && count != -1<<63:
		dels = dels[len(dels)+int(count):]
	}
	if len(dels) == 0 {
		return 0, nil
	}
	return len(dels), h.commit("lrem", listEdit{dels: dels})
}

// LTrim removes all elements but those from start to stop.
func LTrim(t *keyspace.Tx, key []byte, start, stop int64) error {
	h, err := openList(t, key)
	if err != nil || !h.exists() {
		return err
	}
	from, to := span(start, stop, h.len())
	dels := append(ranks(0, from), ranks(to, h.len())...)
	if from == to {
		dels = ranks(0, h.len())
	}
	if len(dels) == 0 {
		return nil
	}
	return h.commit("ltrim", listEdit{dels: dels})
}

// PosOptions of an LPOS.
type PosOptions struct {
	Rank   int64 // the first match that counts: 1 is the first, -1 the last
	Count  int64 // matches wanted; 0: all
	MaxLen int64 // elements looked at; 0: all
}

// LPos returns the ranks of elements that equal val.
func LPos(t *keyspace.Tx, key, val []byte, o PosOptions) (out []int, err error) {
	h, err := openList(t, key)
	if err != nil || !h.exists() {
		return nil, err
	}
	from, to := 0, h.len()
	if o.MaxLen > 0 && o.MaxLen < int64(to) {
		if o.Rank < 0 {
			from = to - int(o.MaxLen)
		} else {
			to = int(o.MaxLen)
		}
	}
	vals, err := h.values(from, to)
	if err != nil {
		return nil, err
	}
	skip := o.Rank - 1
	if o.Rank < 0 {
		skip = -o.Rank - 1
	}
	for i := range vals {
		at := i
		if o.Rank < 0 {
			at = len(vals) - 1 - i
		}
		if !bytes.Equal(vals[at], val) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		out = append(out, from+at)
		if o.Count > 0 && int64(len(out)) == o.Count {
			break
		}
	}
	return out, nil
}

// LMove pops an element from an end of one list and pushes it at an end of another, which may be the same. ok is false if there
// is none.
func LMove(t *keyspace.Tx, from, to []byte, fromLeft, toLeft bool) (val []byte, ok bool, err error) {
	a, err := openList(t, from)
	if err != nil || !a.exists() {
		return nil, false, err
	}
	b, err := openList(t, to)
	if err != nil {
		return nil, false, err
	}
	rank := 0
	pop := "lpop"
	if !fromLeft {
		rank, pop = a.len()-1, "rpop"
	}
	vals, err := a.values(rank, rank+1)
	if err != nil {
		return nil, false, err
	}
	out := listEdit{dels: []int{rank}}
	in, push := listEdit{right: vals}, "rpush"
	if toLeft {
		in, push = listEdit{left: vals}, "lpush"
	}
	if bytes.Equal(from, to) {
		out.left, out.right = in.left, in.right
		return vals[0], true, a.commit(push, out)
	}
	p, err := a.plan(pop, out)
	if err != nil {
		return nil, false, err
	}
	q, err := b.plan(push, in)
	if err != nil {
		return nil, false, err
	}
	return vals[0], true, run(t, q, p)
}
