package keyspace

import "cvmstore/volume"

// What a script needs of a transaction. It cannot be rehearsed as a MULTI is (multi.go): what it does depends on what its commands
// answer. So its batch begins with its first change, where there is room for more, and is extended by what comes.

// scriptRoom is how many bytes a script's batch can be extended by at least, in a volume of usual segments.
const scriptRoom = 4 << 20

// Script makes the transaction ready for commands that nobody knows yet.
func (t *Tx) Script() { t.room = scriptRoom }

// Here opens the batch, without a change, so that whatever is missed from now on is read on the spot: for a script that has been
// run again many times because it asks for one value after the other.
func (t *Tx) Here() error {
	if t.batch != nil {
		return nil
	}
	if err := t.open(0, 0, volume.ClassNormal); err != nil {
		return err
	}
	t.here = true
	return nil
}

// OnTheSpot says whether what is missed is read at once.
func (t *Tx) OnTheSpot() bool { return t.batch != nil && (t.changes > 0 || t.here) }

// Abandon has the volume write nothing more, so that what the open batch has changed is lost like what was never sent: for a
// script that cannot be brought to its end.
func (t *Tx) Abandon(cause error) {
	if t.batch != nil {
		t.batch.Abandon(cause)
	}
}
