package keyspace

import "testing"

// What commands load of large values is bounded together; one alone may have more, and one that has begun is never kept waiting.
func TestTheBudgetOfLargeValues(t *testing.T) {
	const most, begins, goesOn = loadBudget, false, true
	var b budget
	for i, s := range []struct {
		take, give int64
		begun, ok  bool
	}{
		{take: 3 * most, begun: begins, ok: true}, // alone
		{take: 1, begun: begins, ok: false},
		{take: most, begun: goesOn, ok: true},
		{give: 4 * most},
		{take: most / 2, begun: begins, ok: true},
		{take: most / 2, begun: begins, ok: true},
		{take: 1, begun: begins, ok: false},
		{give: 1},
		{take: 1, begun: begins, ok: true},
	} {
		if s.give > 0 {
			b.give(s.give)
		} else if ok := b.take(s.take, s.begun); ok != s.ok {
			t.Fatalf("step %d: %v", i, ok)
		}
	}
}
