package e2e

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// TestVerify: the check of TestKillUnderLoad accepts each state between the acknowledged one and the newest, and nothing else. (One
// before it compared keys one by one, and took a DEL after an MSET for half of the MSET.)
func TestVerify(t *testing.T) {
	const rounds = 60
	refused := map[string]int{}
	for seed := range uint64(rounds) {
		w := newWriter(0, seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 30 {
			w.sent = append(w.sent, w.random())
		}
		for range rng.IntN(25) {
			before := maps.Clone(w.acked)
			w.acknowledge()
			if replaced(before, w.acked) {
				refused["a state before the acknowledged one"]++
				if w.verify(before) == nil {
					t.Fatalf("seed %d: a state before the acknowledged one was accepted", seed)
				}
			}
		}
		state := maps.Clone(w.acked)
		for n := 0; n <= len(w.sent); n++ {
			if err := w.verify(state); err != nil {
				t.Fatalf("seed %d, %d commands: %v", seed, n, err)
			}
			if n < len(w.sent) {
				for _, half := range halves(state, w.sent[n]) {
					refused["half an MSET"]++
					if w.verify(half) == nil {
						t.Fatalf("seed %d: half of command %d was accepted", seed, n)
					}
				}
				maps.Copy(state, w.sent[n].after)
			}
		}
	}
	for _, what := range []string{"half an MSET", "a state before the acknowledged one"} {
		if refused[what] < rounds {
			t.Errorf("%s: refused %d times in %d rounds", what, refused[what], rounds)
		}
	}
}

// replaced says whether a value of before is not in after any more. Each value is written by one command only, so before is not the
// state after any later command.
func replaced(before, after map[string]string) bool {
	for key, value := range before {
		if value != missing && after[key] != value {
			return true
		}
	}
	return false
}

// halves are the states in which an MSET took effect on one of its keys only, if no later command can leave the same.
func halves(before map[string]string, c change) (list []map[string]string) {
	if len(c.after) != 2 {
		return nil
	}
	for key, value := range c.after {
		half := maps.Clone(before)
		half[key] = value
		after := maps.Clone(before)
		maps.Copy(after, c.after)
		if replaced(half, after) {
			list = append(list, half)
		}
	}
	return list
}
