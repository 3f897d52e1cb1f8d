package keyspace

import (
	"errors"

	"cvmstore/volume"
)

// A transaction of several commands (MULTI, a script) is one batch. Room for all of it has to be had before the first change,
// and values that are on the device have to be fetched before, since nothing may wait inside a batch. What the commands need
// depends on what they find. So they are rehearsed first, under the locks, each against the state before the transaction: they
// look and check, note their misses, and end at their reservation. The sum of the reservations opens the batch, and then
// they run.
//
// A command may need more than in its rehearsal, because of a command before it. Then the batch is extended; where that is not
// possible the command fails, as a command of a transaction may, and has changed nothing.

// ErrRehearsed ends a command in its rehearsal where its changes would begin.
var ErrRehearsed = errors.New("internal: rehearsed")

// plan is what a rehearsal found.
type plan struct {
	rehearsing     bool
	bytes, records int
	class          volume.Class
}

func (p *plan) note(bytes, records int, class volume.Class) error {
	if p.records == 0 {
		p.class = class
	}
	p.bytes += bytes
	p.records += records
	p.class = min(p.class, class)
	return ErrRehearsed
}

// Rehearse begins the rehearsal: until Perform, Reserve changes nothing and answers ErrRehearsed. Misses add up.
func (t *Tx) Rehearse() { t.plan = plan{rehearsing: true} }

// Rehearsed returns what the reservations since Rehearse add up to.
func (t *Tx) Rehearsed() (bytes, records int) { return t.plan.bytes, t.plan.records }

// Perform ends the rehearsal and opens the batch with what it found and some slack for what commands change for each other.
// Without reservations there is no batch.
func (t *Tx) Perform(slack int) error {
	p := t.plan
	t.plan.rehearsing = false
	if p.records == 0 {
		return nil
	}
	slack = min(slack, t.MaxRecord())
	return t.open(p.bytes+slack, 2*p.records, p.class)
}

// Part sets the database and the keys of the command that comes next. The keys must be among those that are locked.
func (t *Tx) Part(db int, keys [][]byte) {
	t.Use(db)
	t.keys = keys
}

// HasChanged says whether the batch that is open has changes: if not, the transaction may still be run again.
func (t *Tx) HasChanged() bool { return t.batch != nil && t.changes > 0 }

// extend makes sure that the open batch has room for a reservation within it.
func (t *Tx) extend(bytes, records int, class volume.Class) error {
	moreBytes, moreRecords := max(bytes-t.bytes, 0), max(records-t.records, 0)
	if moreBytes == 0 && moreRecords == 0 {
		return nil
	}
	if err := t.batch.Extend(moreBytes, moreRecords, class); err != nil {
		return err
	}
	t.bytes += moreBytes
	t.records += moreRecords
	return nil
}

// Miss takes note of a record that a command needs and that is on the device only, and returns ErrMiss; the caller asks for all
// that it needs before it gives up. Where the transaction has changed something already it cannot be run again: then Miss
// reads the record, at the cost of everybody's time. That takes a command which needs, because of one before it in the same
// MULTI, what it did not ask for in its rehearsal.
func (t *Tx) Miss(f volume.Fetch) ([]byte, error) {
	if t.OnTheSpot() {
		return t.batch.Fetch(f)
	}
	t.again = true
	t.misses = append(t.misses, f)
	return nil, ErrMiss
}
