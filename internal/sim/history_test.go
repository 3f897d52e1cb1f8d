package sim

import "testing"

// TestHistoriesThatAreWrongAreRefused: the search for an order finds none where there is none.
func TestHistoriesThatAreWrongAreRefused(t *testing.T) {
	set := func(val string, call, ret int64) *operation {
		return &operation{verb: vSet, val: val, out: "OK", known: true, call: call, ret: ret}
	}
	get := func(out string, call, ret int64) *operation {
		return &operation{verb: vGet, out: out, known: true, call: call, ret: ret}
	}
	for _, c := range []struct {
		name string
		ok   bool
		ops  []*operation
	}{
		{"in order", true, []*operation{set("1", 1, 2), get("$1", 3, 4)}},
		{"at the same time", true, []*operation{set("1", 1, 4), get("(nil)", 2, 3)}},
		{"a value that was never written", false, []*operation{set("1", 1, 2), get("$2", 3, 4)}},
		{"an old value", false, []*operation{set("1", 1, 2), set("2", 3, 4), get("$1", 5, 6)}},
		{"a value that was seen and is gone", false, []*operation{set("1", 1, 6), get("$1", 2, 3), get("(nil)", 4, 5)}},
		{"a value that comes back", false, []*operation{set("1", 1, 2), set("2", 3, 10), get("$2", 4, 5), get("$1", 6, 7)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistories(new(int64))
			for _, o := range c.ops {
				h.add(0, "k", o)
			}
			if got := broken(h.check) == nil; got != c.ok {
				t.Errorf("accepted: %v", got)
			}
		})
	}
}

// broken runs f and returns the promise that it breaks.
func broken(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}
