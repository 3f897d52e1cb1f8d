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
			"a commit moves the current state to before", rec,
			CommitRequest{Gen: 3, Expected: tag(9), Value: 12, Tag: tag(12)},
			nil,
			Record{Gen: 3, Current: State{12, tag(12), 3}, Before: State{9, tag(9), 3}},
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
			Record{Gen: 3, Current: State{9, tag(10), 3}, Before: State{9, tag(9), 3}},
		},
		{"a retry succeeds and changes nothing", rec, CommitRequest{Gen: 3, Expected: tag(5), Value: 9, Tag: tag(9)}, nil, rec},
		{"a lease renewal leaves before untouched", rec, CommitRequest{Gen: 3, Expected: tag(9), Value: 9, Tag: tag(9)}, nil, rec},
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
