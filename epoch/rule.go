package epoch

import "fmt"

// This file is the commit rule of a record (DESIGN.md section 9), without clock, disk or network: every back end keeps its
// records with these two functions, so that they cannot differ.

// Opened returns the record after an Open: a new generation, and the states untouched.
func (r Record) Opened() Record {
	r.Gen++
	return r
}

// Apply returns the record after req: a compare and swap of the current state. The same record and no error means that
// there is nothing to write: the state was exactly that already. ErrFenced, ErrConflict, wrapped; the record is then as
// it was. It does not look at req.Store.
func (r Record) Apply(req CommitRequest) (Record, error) {
	if req.Gen < r.Gen {
		return r, fmt.Errorf("commit by generation %d, but generation %d was opened since: %w", req.Gen, r.Gen, ErrFenced)
	}
	if req.Gen > r.Gen {
		return r, fmt.Errorf("commit by generation %d, which was never opened (the newest is %d): %w", req.Gen, r.Gen, ErrConflict)
	}
	cur := r.Current
	same := req.Value == cur.Value && req.Tag == cur.Tag && req.Value != 0
	switch {
	case same && (req.Expected == cur.Tag || cur.Gen == req.Gen):
		// A renewed lease, or a retry whose first answer was lost. Who committed the state first stays written there:
		// recovery accepts frames after the tag from that generation only.
		if req.Opening {
			r.Before = State{}
		}
		return r, nil
	case req.Expected != cur.Tag:
		return r, fmt.Errorf("commit of counter %d expects another tag than that of counter %d: %w", req.Value, cur.Value, ErrConflict)
	case req.Value < cur.Value:
		return r, fmt.Errorf("commit of counter %d below %d: %w", req.Value, cur.Value, ErrConflict)
	case req.Value == 0 || req.Tag == Tag{}:
		// Value 0 means "nothing was ever committed", after which the volume may be formatted.
		return r, fmt.Errorf("commit of an empty state: %w", ErrConflict)
	}
	r.Before = cur
	if req.Opening {
		r.Before = State{}
	}
	r.Current = State{Value: req.Value, Tag: req.Tag, Gen: req.Gen}
	return r, nil
}
