package epoch

import (
	"errors"
	"testing"
)

func tag(b byte) Tag { return Tag{31: b} }

func TestCommitRule(t *testing.T) {
	before := State{Value: 5, Tag: tag(5), Gen: 2}
	rec := Record{Gen: 3, Current: State{Value: 9, Tag: tag(9), Gen: 3}, Before: before}
	inherited := Record{Gen: 4, Current: State{Value: 9, Tag: tag(9), Gen: 3}, Before: before}
	cases := []struct {
		name string
		rec  Record
		req  CommitRequest
		err  error
		want Record
	}{
		{
			"a parallel commit moves the current state to before", rec,
			CommitRequest{Gen: 3, Expected: tag(9), Value: 12, Tag: tag(12), Parallel: true},
			nil,
			Record{Gen: 3, Current: State{12, tag(12), 3}, Before: State{9, tag(9), 3}},
		},
		{
			"an ordered commit leaves nothing to go back to", rec,
			CommitRequest{Gen: 3, Expected: tag(9), Value: 12, Tag: tag(12)},
			nil,
			Record{Gen: 3, Current: State{12, tag(12), 3}},
		},
		{
			"an opening commit is never parallel", inherited,
			CommitRequest{Gen: 4, Expected: tag(9), Value: 12, Tag: tag(12), Opening: true, Parallel: true},
			nil,
			Record{Gen: 4, Current: State{12, tag(12), 4}},
		},
		{
			"after an authorised rollback the value starts above what was replaced",
			Record{Gen: 4, Current: State{5, tag(5), 0}, Floor: 9},
			CommitRequest{Gen: 4, Expected: tag(5), Value: 8, Tag: tag(8), Opening: true},
			ErrConflict,
			Record{Gen: 4, Current: State{5, tag(5), 0}, Floor: 9},
		},
		{
			"the first state after an authorised rollback ends it",
			Record{Gen: 4, Current: State{5, tag(5), 0}, Floor: 9},
			CommitRequest{Gen: 4, Expected: tag(5), Value: 12, Tag: tag(12), Opening: true},
			nil,
			Record{Gen: 4, Current: State{12, tag(12), 4}},
		},
		{
			"an opening commit empties before", inherited,
			CommitRequest{Gen: 4, Expected: tag(9), Value: 12, Tag: tag(12), Opening: true},
			nil,
			Record{Gen: 4, Current: State{12, tag(12), 4}},
		},
		{
			"frames without mutations keep the value", rec,
			CommitRequest{Gen: 3, Expected: tag(9), Value: 9, Tag: tag(10)},
			nil,
			Record{Gen: 3, Current: State{9, tag(10), 3}},
		},
		{"a retry succeeds and changes nothing", rec, CommitRequest{Gen: 3, Expected: tag(5), Value: 9, Tag: tag(9), Parallel: true}, nil, rec},
		{
			"a renewal that is not parallel ends the state before", rec,
			CommitRequest{Gen: 3, Expected: tag(9), Value: 9, Tag: tag(9)},
			nil,
			Record{Gen: 3, Current: State{9, tag(9), 3}},
		},
		{"a lease renewal leaves before untouched", rec, CommitRequest{Gen: 3, Expected: tag(9), Value: 9, Tag: tag(9), Parallel: true}, nil, rec},
		{
			"a later generation's renewal keeps who committed first", inherited,
			CommitRequest{Gen: 4, Expected: tag(9), Value: 9, Tag: tag(9)},
			nil, inherited,
		},
		{
			"a retried opening commit finds before empty",
			Record{Gen: 4, Current: State{12, tag(12), 4}},
			CommitRequest{Gen: 4, Expected: tag(9), Value: 12, Tag: tag(12), Opening: true},
			nil,
			Record{Gen: 4, Current: State{12, tag(12), 4}},
		},
		{"the generation is checked first, for retries too", inherited, CommitRequest{Gen: 3, Expected: tag(5), Value: 9, Tag: tag(9)}, ErrFenced, inherited},
		{"a generation that was never opened", rec, CommitRequest{Gen: 4, Expected: tag(9), Value: 12, Tag: tag(12)}, ErrConflict, rec},
		{"another expected tag", rec, CommitRequest{Gen: 3, Expected: tag(8), Value: 12, Tag: tag(12)}, ErrConflict, rec},
		{"another state of the same value", rec, CommitRequest{Gen: 3, Expected: tag(5), Value: 9, Tag: tag(10)}, ErrConflict, rec},
		{"someone else's state is no retry", inherited, CommitRequest{Gen: 4, Expected: tag(5), Value: 9, Tag: tag(9)}, ErrConflict, inherited},
		{"the value never goes down", rec, CommitRequest{Gen: 3, Expected: tag(9), Value: 8, Tag: tag(12)}, ErrConflict, rec},
		{"an empty first state", Record{Gen: 1}, CommitRequest{Gen: 1}, ErrConflict, Record{Gen: 1}},
		{"an empty tag", rec, CommitRequest{Gen: 3, Expected: tag(9), Value: 12}, ErrConflict, rec},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.rec.Apply(c.req)
			if !errors.Is(err, c.err) || (c.err == nil && err != nil) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if got != c.want {
				t.Errorf("record %+v\nwant   %+v", got, c.want)
			}
		})
	}
}

func TestOpenedKeepsStates(t *testing.T) {
	r := Record{Gen: 3, Current: State{9, tag(9), 3}, Before: State{5, tag(5), 2}}
	want := r
	want.Gen = 4
	if got := r.Opened(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRolledBack(t *testing.T) {
	r := Record{Gen: 3, Current: State{9, tag(9), 3}, Before: State{5, tag(5), 3}}
	target := State{Value: 5, Tag: tag(5), Gen: 2}
	got, err := r.RolledBack(3, tag(9), target)
	if want := (Record{Gen: 4, Current: State{5, tag(5), 0}, Floor: 9}); err != nil || got != want {
		t.Fatalf("%v, %+v", err, got)
	}
	if again, err := got.RolledBack(3, tag(9), target); !errors.Is(err, ErrConflict) || again != got {
		t.Errorf("a replayed order: %v, %+v", err, again)
	}
	if twice, err := got.RolledBack(4, tag(5), State{Value: 3, Tag: tag(3)}); err != nil || twice.Floor != 9 {
		t.Errorf("a second rollback: %v, floor %d, want the first one's", err, twice.Floor)
	}
	for name, bad := range map[string]struct {
		gen Generation
		tag Tag
		to  State
	}{
		"another generation": {2, tag(9), target}, "another tag": {3, tag(8), target},
		"no target": {3, tag(9), State{}}, "the same state": {3, tag(9), r.Current},
	} {
		if got, err := r.RolledBack(bad.gen, bad.tag, bad.to); !errors.Is(err, ErrConflict) || got != r {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}
