package kvs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Names stay what they are, whatever comes and goes beside them, whether a long or a short one comes first.
func TestNamesStayWhatTheyAre(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var a names
		want := map[uint64]string{} // by place; an empty name has none
		for i := range 4000 {
			if len(want) > 0 && rng.IntN(3) == 0 {
				for at, name := range want {
					if got := string(a.get(at, uint32(len(name)))); got != name {
						t.Fatalf("seed %d: %.40q became %.40q", seed, name, got)
					}
					a.drop(at, uint32(len(name)))
					delete(want, at)
					break
				}
				continue
			}
			name := fmt.Sprint(i, strings.Repeat("n", rng.IntN(1+rng.IntN(900))))
			at := a.add([]byte(name))
			if old, ok := want[at]; ok {
				t.Fatalf("seed %d: a place was given out twice, for %.40q and %.40q", seed, old, name)
			}
			want[at] = name
		}
		for at, name := range want {
			if got := string(a.get(at, uint32(len(name)))); got != name {
				t.Fatalf("seed %d: %.40q became %.40q", seed, name, got)
			}
		}
	}
}
