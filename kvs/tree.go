package kvs

// A tree keeps elements in an order and knows their ranks: a counted B+tree over element numbers. What the order is, its
// users know: they search, then insert at a rank.
type tree struct{ root *node }

// node is a leaf with elements, or an inner node with kids; first holds each kid's first element, so that a search touches
// the elements it compares and nothing else.
type node struct {
	kids []*node
	ids  []elemID // a leaf's elements; of an inner node, the first element of each kid
	n    int      // elements below
}

const (
	nodeMax = 64
	nodeMin = nodeMax / 4
)

func (t *tree) len() int {
	if t.root == nil {
		return 0
	}
	return t.root.n
}

// at returns the element of a rank.
func (t *tree) at(rank int) elemID {
	n := t.root
	for n.kids != nil {
		i := 0
		i, rank = n.kid(rank)
		n = n.kids[i]
	}
	return n.ids[rank]
}

// kid returns which kid holds a rank below n.n, and the rank in it.
func (n *node) kid(rank int) (i, in int) {
	for i, k := range n.kids {
		if rank < k.n {
			return i, rank
		}
		rank -= k.n
	}
	panic("internal error: kvs: rank beyond the tree")
}

// search returns how many elements are before a point: before is true for them and false for all others.
func (t *tree) search(before func(elemID) bool) int {
	n, rank := t.root, 0
	if n == nil {
		return 0
	}
	for n.kids != nil {
		i := partition(n.ids[1:], before) // the last kid whose first element is before the point, or the first kid
		for _, k := range n.kids[:i] {
			rank += k.n
		}
		n = n.kids[i]
	}
	return rank + partition(n.ids, before)
}

// partition returns how many of ids, from the front, are before the point.
func partition(ids []elemID, before func(elemID) bool) int {
	lo, hi := 0, len(ids)
	for lo < hi {
		if mid := (lo + hi) / 2; before(ids[mid]) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// walk calls f for the elements with ranks in [from, to), in order or backwards, until f returns false.
func (t *tree) walk(from, to int, backwards bool, f func(elemID) bool) {
	from, to = max(from, 0), min(to, t.len())
	if from < to {
		t.root.walk(from, to, backwards, f)
	}
}

func (n *node) walk(from, to int, backwards bool, f func(elemID) bool) bool {
	if n.kids == nil {
		for i := range to - from {
			at := from + i
			if backwards {
				at = to - 1 - i
			}
			if !f(n.ids[at]) {
				return false
			}
		}
		return true
	}
	first, last := 0, n.n // ranks of the kid under view
	visit := func(k *node) bool {
		lo, hi := max(from, first), min(to, first+k.n)
		return lo >= hi || k.walk(lo-first, hi-first, backwards, f)
	}
	if backwards {
		for i := len(n.kids) - 1; i >= 0 && last > from; i-- {
			first = last - n.kids[i].n
			if !visit(n.kids[i]) {
				return false
			}
			last = first
		}
		return true
	}
	for _, k := range n.kids {
		if first >= to {
			break
		}
		if !visit(k) {
			return false
		}
		first += k.n
	}
	return true
}

// insert puts an element at a rank, before what stands there.
func (t *tree) insert(rank int, id elemID) {
	if t.root == nil {
		t.root = &node{}
	}
	if right := t.root.insert(rank, id); right != nil {
		left := t.root
		t.root = &node{kids: []*node{left, right}, ids: []elemID{left.ids[0], right.ids[0]}, n: left.n + right.n}
	}
}

// insert returns the new right half, if the node had to be split.
func (n *node) insert(rank int, id elemID) (right *node) {
	n.n++
	if n.kids == nil {
		n.ids = insertAt(n.ids, rank, id)
		return n.split(rank == len(n.ids)-1)
	}
	i := len(n.kids) - 1
	if rank < n.n-1 {
		i, rank = n.kid(rank)
	} else {
		rank = n.kids[i].n
	}
	part := n.kids[i].insert(rank, id)
	n.ids[i] = n.kids[i].ids[0]
	if part == nil {
		return nil
	}
	n.kids = insertAt(n.kids, i+1, part)
	n.ids = insertAt(n.ids, i+1, part.ids[0])
	return n.split(i+1 == len(n.kids)-1)
}

// split halves a node that is too large. At the end of the order it leaves the left one nearly full: that is where lists
// and counters grow.
func (n *node) split(atEnd bool) (right *node) {
	if len(n.ids) <= nodeMax {
		return nil
	}
	half := len(n.ids) / 2
	if atEnd {
		half = len(n.ids) - nodeMin
	}
	right = &node{ids: append(make([]elemID, 0, len(n.ids)-half+8), n.ids[half:]...)}
	if n.kids != nil {
		right.kids = append(make([]*node, 0, len(n.kids)-half+8), n.kids[half:]...)
		clear(n.kids[half:])
		n.kids = n.kids[:half]
		right.count()
	} else {
		right.n = len(right.ids)
	}
	n.ids = n.ids[:half]
	n.n -= right.n
	return right
}

func (n *node) count() {
	n.n = 0
	for _, k := range n.kids {
		n.n += k.n
	}
}

func insertAt[T any](s []T, i int, x T) []T {
	if len(s) == cap(s) && cap(s) < nodeMax+1 {
		s = append(make([]T, 0, min(2*cap(s)+4, nodeMax+1)), s...)
	}
	s = append(s, x)
	copy(s[i+1:], s[i:])
	s[i] = x
	return s
}

func deleteAt[T any](s []T, i int) []T {
	var zero T
	copy(s[i:], s[i+1:])
	s[len(s)-1] = zero
	return s[:len(s)-1]
}

// remove takes the element of a rank out and returns it.
func (t *tree) remove(rank int) elemID {
	id := t.root.remove(rank)
	switch {
	case t.root.n == 0:
		t.root = nil
	case len(t.root.kids) == 1:
		t.root = t.root.kids[0]
	}
	return id
}

func (n *node) remove(rank int) elemID {
	n.n--
	if n.kids == nil {
		id := n.ids[rank]
		n.ids = deleteAt(n.ids, rank)
		return id
	}
	i, in := n.kid(rank)
	k := n.kids[i]
	id := k.remove(in)
	switch {
	case k.n == 0:
		n.kids, n.ids = deleteAt(n.kids, i), deleteAt(n.ids, i)
	case len(k.ids) < nodeMin && len(n.kids) > 1:
		n.merge(max(i-1, 0))
	default:
		n.ids[i] = k.ids[0]
	}
	return id
}

// merge joins kids i and i+1, or shares what they hold evenly if it is too much for one.
func (n *node) merge(i int) {
	a, b := n.kids[i], n.kids[i+1]
	ids := append(append(make([]elemID, 0, len(a.ids)+len(b.ids)), a.ids...), b.ids...)
	var kids []*node
	if a.kids != nil {
		kids = append(append(make([]*node, 0, len(ids)), a.kids...), b.kids...)
	}
	if len(ids) <= nodeMax*3/4 {
		a.ids, a.kids, a.n = ids, kids, a.n+b.n
		n.kids, n.ids = deleteAt(n.kids, i+1), deleteAt(n.ids, i+1)
		n.ids[i] = a.ids[0]
		return
	}
	half := len(ids) / 2
	a.ids, b.ids = append([]elemID(nil), ids[:half]...), append([]elemID(nil), ids[half:]...)
	if kids != nil {
		a.kids, b.kids = append([]*node(nil), kids[:half]...), append([]*node(nil), kids[half:]...)
		a.count()
		b.count()
	} else {
		a.n, b.n = len(a.ids), len(b.ids)
	}
	n.ids[i], n.ids[i+1] = a.ids[0], b.ids[0]
}

// build makes the tree of elements that are in order.
func (t *tree) build(ids []elemID) {
	t.root = nil
	if len(ids) == 0 {
		return
	}
	const fill = nodeMax * 7 / 8
	var level []*node
	for len(ids) > 0 {
		k := min(fill, len(ids))
		level = append(level, &node{ids: append([]elemID(nil), ids[:k]...), n: k})
		ids = ids[k:]
	}
	for len(level) > 1 {
		var up []*node
		for len(level) > 0 {
			k := min(fill, len(level))
			n := &node{kids: append([]*node(nil), level[:k]...)}
			for _, kid := range n.kids {
				n.ids = append(n.ids, kid.ids[0])
			}
			n.count()
			up = append(up, n)
			level = level[k:]
		}
		level = up
	}
	t.root = level[0]
}
