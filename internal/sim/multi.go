package sim

import (
	"errors"
	"slices"
	"strings"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// Transactions: several commands that are one batch, some after a WATCH. What resp does with a MULTI is done here with the same
// functions of the keyspace: a rehearsal, one reservation, and the commands.

// transaction is what a command of verb vMulti has besides its keys.
type transaction struct {
	parts   []*command
	replies []string // of the parts, in the run that counts
	damaged bool     // one of them could not read a blob
	watches bool     // the first key is watched before
	watch   *keyspace.Watch
	seen    volume.Counter // the newest change of the watched key by then, by the model's account
}

// partVerbs are the commands that transactions are made of.
var partVerbs = []verb{vSet, vSet, vSetNX, vSetEx, vGet, vGet, vGetDel, vIncrBy, vIncrBy, vAppend, vAppend, vDel, vExpire, vPersist}

// What a transaction's reply is when a watched key has changed, and a part's when the batch could not grow any more.
const (
	replyWatched = "(watched key changed)"
	replyNoRoom  = "ERR no room in the batch"
)

// newTransaction draws the parts of a transaction, often on the same few keys.
func (w *world) newTransaction(c *command) {
	rng := w.rng
	c.tx = &transaction{watches: chance(rng, 40)}
	for range 2 + rng.IntN(4) {
		p := &command{db: c.db, verb: partVerbs[rng.IntN(len(partVerbs))]}
		key := w.key(p.verb)
		if len(c.keys) > 0 && chance(rng, 40) {
			key = c.keys[rng.IntN(len(c.keys))]
		}
		p.keys = append(p.keys, key)
		switch p.verb {
		case vSet, vSetNX, vSetEx, vAppend:
			p.vals = append(p.vals, w.value(p.verb, false))
		}
		p.delta = int64(rng.IntN(20) - 5)
		p.ttl = choose[int64](rng, -5, 1, 20, 1000, 200_000)
		c.keys = append(c.keys, key)
		c.tx.parts = append(c.tx.parts, p)
	}
}

// beginWatch watches the first key. The transaction itself comes later: others have their turn in between.
func (s *server) beginWatch(cl *client, c *command) error {
	t := &cl.tx
	s.events = s.events[:0]
	s.space.Begin(t, c.db, c.keys[:1])
	watch, err := t.Watch(c.keys[0])
	t.End()
	s.expiries(t.Now())
	if err == nil {
		c.tx.watch, c.tx.seen = watch, s.w.model.changed[c.db][string(c.keys[0])]
	}
	return err
}

// runMulti executes a transaction.
func (c *command) runMulti(s *keyspace.Space, t *keyspace.Tx) (string, error) {
	x := c.tx
	x.replies, x.damaged = nil, false
	if x.watch != nil {
		t.Part(c.db, nil)
		if changed, err := t.Changed(x.watch); err != nil || changed {
			return replyWatched, err
		}
	}
	t.Rehearse()
	var miss error
	slack := 0
	for _, p := range x.parts {
		t.Part(c.db, p.keys)
		_, err := p.run(s, t)
		switch {
		case errors.Is(err, volume.ErrBusy):
			return "", err
		case errors.Is(err, keyspace.ErrMiss):
			miss = err
		case errors.Is(err, volume.ErrCorrupt), errors.Is(err, errInjected), errors.Is(err, volume.ErrFull), errors.Is(err, volume.ErrFailed):
			return "", err // a blob could not be read or written: nothing was changed yet
		}
		for _, v := range p.vals {
			slack += (len(v) + 64) * len(x.parts)
		}
	}
	if miss != nil {
		return "", miss
	}
	if err := t.Perform(slack); err != nil {
		return "", err
	}
	for _, p := range x.parts {
		t.Part(c.db, p.keys)
		reply, err := p.run(s, t)
		var size *kvs.SizeError
		switch {
		case err == nil:
		case errors.As(err, &size) && t.BlobBytes() >= 0: // a blob that nobody foresaw
			reply = replyNoRoom
		case errors.As(err, &size):
			reply = errTooLarge
		case t.HasChanged() && (errors.Is(err, volume.ErrCorrupt) || errors.Is(err, errInjected)):
			reply, x.damaged = replyNoRoom, true
		case errors.Is(err, kvs.ErrNotInteger):
			reply = err.Error()
		case t.HasChanged() && (errors.Is(err, volume.ErrTooLarge) || errors.Is(err, volume.ErrFull)):
			reply = replyNoRoom
		default:
			return "", err
		}
		x.replies = append(x.replies, reply)
	}
	return strings.Join(x.replies, " | "), nil
}

// execMulti is exec of a transaction: the parts one after the other, on a state that is put back in the end.
func (m *model) execMulti(c *command, now int64, recordMax int) (reply string, changes []change, need volume.Counter) {
	x := c.tx
	if x.watch != nil {
		if newest := m.changed[c.db][string(c.keys[0])]; newest != x.seen {
			return replyWatched, nil, newest
		}
	}
	for i, p := range x.parts {
		for _, k := range m.looksAt(p, x.reply(i)) {
			need = max(need, m.changed[p.db][string(k)])
		}
	}
	var list []undo
	var replies []string
	for i, p := range x.parts {
		reply, part, _ := m.exec(p, now, recordMax)
		if x.reply(i) == replyNoRoom { // how much a batch may still grow is the volume's own affair
			reply, part = replyNoRoom, nil
		}
		replies = append(replies, reply)
		for _, ch := range part {
			if ch.to != nil { // put keeps what it is given
				to := *ch.to
				ch.to = &to
			}
			list = m.put(list, ch.db, ch.key, ch.to, 0, 0)
		}
		changes = append(changes, part...)
	}
	for _, u := range slices.Backward(list) {
		if u.had {
			m.dbs[u.db][u.key] = u.old
		} else {
			delete(m.dbs[u.db], u.key)
		}
		if u.changed == 0 {
			delete(m.changed[u.db], u.key)
		} else {
			m.changed[u.db][u.key] = u.changed
		}
	}
	return strings.Join(replies, " | "), changes, need
}

// reply is what a part replied, if it was run.
func (x *transaction) reply(i int) string {
	if i < len(x.replies) {
		return x.replies[i]
	}
	return ""
}

// recordMulti enters the parts of a transaction that wrote. Which of them came first does not matter to a register: some order
// fits.
func (h *histories) recordMulti(cl *client, r *reply, now int64) {
	c := r.cmd
	if r.wrote == 0 {
		return
	}
	for i, p := range c.tx.parts {
		o := &operation{client: cl.id, verb: p.verb, delta: p.delta, call: c.call, ret: now, depends: max(r.need, r.wrote), out: c.tx.reply(i)}
		switch {
		case p.verb == vPersist, p.verb == vGet, o.out == replyNoRoom, p.verb == vExpire && (p.ttl > 0 || o.out == "0"):
			continue
		case p.verb == vExpire:
			o.verb = vDel
		}
		if len(p.vals) > 0 {
			o.val = string(p.vals[0])
		}
		h.add(p.db, string(p.keys[0]), o)
	}
}
