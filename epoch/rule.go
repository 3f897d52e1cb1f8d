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
		// If it is not PARALLEL, its frames are durable by now: nobody needs to go back behind it.
		if req.Opening || !req.Parallel && cur.Gen == req.Gen {
			r.Before = State{}
		}
		return r, nil
	case req.Expected != cur.Tag:
		return r, fmt.Errorf("commit of counter %d expects another tag than that of counter %d: %w", req.Value, cur.Value, ErrConflict)
	case req.Value < max(cur.Value, r.Floor):
		return r, fmt.Errorf("commit of counter %d below %d: %w", req.Value, max(cur.Value, r.Floor), ErrConflict)
	case req.Value == 0 || req.Tag == Tag{}:
		// Value 0 means "nothing was ever committed", after which the volume may be formatted.
		return r, fmt.Errorf("commit of an empty state: %w", ErrConflict)
	}
	r.Before = State{}
	if req.Parallel && !req.Opening {
		r.Before = cur
	}
	r.Floor = 0
	r.Current = State{Value: req.Value, Tag: req.Tag, Gen: req.Gen}
	return r, nil
}

// RolledBack returns the record after an authorised rollback from the state that replaced names to target, whose value may be
// lower. It fences every generation; no frame after the target's tag will be accepted (generation none); and the floor keeps
// the value from ever going down: what opens next is above all that was committed. ErrConflict if the record is not in
// exactly that generation and state, which makes an order single-use: the generation never comes again.
func (r Record) RolledBack(gen Generation, replaced Tag, target State) (Record, error) {
	switch {
	case gen != r.Gen || replaced != r.Current.Tag:
		return r, fmt.Errorf("the order replaces another state (generation %d) than the current one (generation %d): %w", gen, r.Gen, ErrConflict)
	case target.Value == 0 || target.Tag == Tag{} || target.Tag == r.Current.Tag:
		return r, fmt.Errorf("the order names no other state to go to: %w", ErrConflict)
	}
	r.Gen++
	r.Floor = max(r.Floor, r.Current.Value, r.Before.Value)
	r.Current, r.Before = State{Value: target.Value, Tag: target.Tag}, State{}
	return r, nil
}
