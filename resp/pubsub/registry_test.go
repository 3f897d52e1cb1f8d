package pubsub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cvmstore/keyspace"
)

// TestRegistryIsASetOfSubscriptions compares it with a plain list of (kind, name, subscriber).
func TestRegistryIsASetOfSubscriptions(t *testing.T) {
	type sub struct {
		k    Kind
		name string
		who  int
	}
	var r Registry[int]
	var list []sub
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "ab", "b", "a*", "*", "[ab]", "nobody"}
	for step := range 20_000 {
		s := sub{Kind(rng.IntN(3)), names[rng.IntN(6)], rng.IntN(5)}
		i := slices.Index(list, s)
		if rng.IntN(2) == 0 {
			if got := r.Subscribe(s.k, s.name, s.who); got != (i < 0) {
				t.Fatalf("step %d: subscribe %v: %v", step, s, got)
			}
			if i < 0 {
				list = append(list, s)
			}
		} else {
			if got := r.Unsubscribe(s.k, s.name, s.who); got != (i >= 0) {
				t.Fatalf("step %d: unsubscribe %v: %v", step, s, got)
			}
			if i >= 0 {
				list = slices.Delete(list, i, i+1)
			}
		}
		channel, k := names[rng.IntN(len(names))], Kind(rng.IntN(2)*int(Shard))
		var want, got []string
		counts := map[string]int{}
		for _, x := range list {
			if x.k == k && x.name == channel || k == Channel && x.k == Pattern && keyspace.Match([]byte(x.name), []byte(channel)) {
				want = append(want, fmt.Sprint(x))
			}
			if x.k == k {
				counts[x.name]++
			}
		}
		r.Receivers(k, []byte(channel), func(who int, k Kind, name string) { got = append(got, fmt.Sprint(sub{k, name, who})) })
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Fatalf("step %d: %d %q: got %v, want %v", step, k, channel, got, want)
		}
		if r.Count(k) != len(counts) || r.Subscribers(k, channel) != counts[channel] || len(r.Names(k, nil)) != len(counts) {
			t.Fatalf("step %d: counts", step)
		}
	}
	for _, s := range list {
		r.Unsubscribe(s.k, s.name, s.who)
	}
	if r.Count(Channel)+r.Count(Pattern)+r.Count(Shard)+len(r.order) != 0 {
		t.Error("something is left")
	}
}
