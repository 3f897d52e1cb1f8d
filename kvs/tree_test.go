package kvs

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// check asserts that counts and first elements are right, and that no node is too large.
func (n *node) check(t *testing.T) {
	t.Helper()
	if len(n.ids) == 0 || len(n.ids) > nodeMax {
		t.Fatalf("a node of %d", len(n.ids))
	}
	if n.kids == nil {
		if n.n != len(n.ids) {
			t.Fatalf("leaf counts %d of %d", n.n, len(n.ids))
		}
		return
	}
	sum := 0
	for i, k := range n.kids {
		k.check(t)
		sum += k.n
		if n.ids[i] != k.ids[0] {
			t.Fatal("first element of a kid is wrong")
		}
	}
	if sum != n.n || len(n.kids) != len(n.ids) {
		t.Fatalf("inner node counts %d of %d", n.n, sum)
	}
}

// The tree is a slice that inserts and removes at a rank.
func TestTreeIsASlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var tr tree
	var twin []elemID
	for round := range 60000 {
		grow := round/10000%2 == 0
		if len(twin) == 0 || rng.IntN(10) < 3 != grow {
			at := rng.IntN(len(twin) + 1)
			switch rng.IntN(4) {
			case 0:
				at = len(twin)
			case 1:
				at = 0
			}
			tr.insert(at, elemID(round))
			twin = slices.Insert(twin, at, elemID(round))
		} else {
			at := rng.IntN(len(twin))
			if got := tr.remove(at); got != twin[at] {
				t.Fatalf("removed %d, want %d", got, twin[at])
			}
			twin = slices.Delete(twin, at, at+1)
		}
		if round%997 == 0 {
			compare(t, &tr, twin, rng)
		}
	}
	tr.build(twin)
	compare(t, &tr, twin, rng)
	for len(twin) > 0 {
		at := rng.IntN(len(twin))
		tr.remove(at)
		twin = slices.Delete(twin, at, at+1)
	}
	compare(t, &tr, twin, rng)
}

func compare(t *testing.T, tr *tree, twin []elemID, rng *rand.Rand) {
	t.Helper()
	if tr.root != nil {
		tr.root.check(t)
	}
	var all []elemID
	tr.walk(0, tr.len(), false, func(id elemID) bool { all = append(all, id); return true })
	if !slices.Equal(all, twin) {
		t.Fatalf("tree of %d, twin of %d differ", len(all), len(twin))
	}
	if len(twin) == 0 {
		return
	}
	from := rng.IntN(len(twin))
	to := from + rng.IntN(len(twin)-from+1)
	var part []elemID
	tr.walk(from, to, true, func(id elemID) bool { part = append(part, id); return true })
	slices.Reverse(part)
	if !slices.Equal(part, twin[from:to]) || tr.at(from) != twin[from] {
		t.Fatal("a part of the tree differs")
	}
	index := map[elemID]int{}
	for i, id := range twin {
		index[id] = i
	}
	if got := tr.search(func(id elemID) bool { return index[id] < to }); got != to {
		t.Fatalf("search found %d, want %d", got, to)
	}
}
