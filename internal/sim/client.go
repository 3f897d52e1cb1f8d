package sim

import (
	"errors"
	"slices"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// client is one connection: its level, its database, the command that runs, and the replies that wait, in order.
type client struct {
	id       int
	db       int
	level    volume.Level
	tx       keyspace.Tx
	now      *command // being run; nil: none
	fetching int      // reads and transfers that it waits for
	readErr  error
	need     volume.Counter // by the model's account, of the command run last
	wrote    volume.Counter // its own last change, 0 for none
	replies  []reply
}

// reply waits until seen has reached the client's level.
type reply struct {
	cmd   *command
	text  string
	seen  volume.Counter
	need  volume.Counter
	wrote volume.Counter
}

// act lets a client do one thing: run the command it is at, or begin another.
func (w *world) act(cl *client) {
	if cl.now == nil {
		if len(cl.replies) >= w.p.pipeline || w.stopping {
			return
		}
		cl.now = w.newCommand(cl)
		w.events++
		cl.now.call = w.events
		w.commands++
	}
	if cl.fetching > 0 {
		return
	}
	s, c := w.srv, cl.now
	if cl.readErr != nil { // an error reply
		cl.readErr, cl.now = nil, nil
		cl.tx.Forget()
		return
	}
	cl.need, cl.wrote = 0, 0
	text, seen, done := s.execute(cl, c)
	if !done {
		return
	}
	cl.now = nil
	if w.tracing {
		w.note("client %d (%v): %v -> %.60s, sees %d", cl.id, cl.level, c, text, seen)
	}
	w.checkWindow()
	if seen == 0 && len(text) > 6 && text[:6] == "error:" {
		return
	}
	cl.replies = append(cl.replies, reply{c, text, seen, cl.need, cl.wrote})
	s.v.Want(seen, cl.level)
	w.release()
}

// release lets go of every reply whose time has come. After a failure the others are errors: outcome unknown.
func (w *world) release() {
	v := w.srv.v
	for _, cl := range w.clients {
		for len(cl.replies) > 0 {
			r := cl.replies[0]
			if !v.Reached(r.seen, cl.level) {
				break
			}
			if !v.Reached(r.need, cl.level) {
				failf("4.3: client %d (%v) got %q for %v, which depends on %d, when only %d was reached", cl.id, cl.level, r.text, r.cmd, r.need, r.seen)
			}
			if _, durable, _ := v.Watermarks(); v.Err() != nil && r.need > durable {
				failf("4.5: after a failure, client %d (%v) got %q for %v, which depends on %d, and %d is durable", cl.id, cl.level, r.text, r.cmd, r.need, durable)
			}
			w.acknowledge(cl, &r)
			cl.replies = cl.replies[1:]
		}
		if v.Err() != nil {
			w.dropReplies(cl)
		}
	}
	if err := v.Err(); err != nil && w.failedFor == 0 {
		w.note("the volume failed: %v", err)
		w.failedFor = 1
		switch {
		case errors.Is(err, volume.ErrFenced):
			if !w.fenced {
				failf("fenced without another server: %v", err)
			}
			w.count("surfaced: fenced")
			return
		case !w.writeFault && !w.syncFault:
			failf("the volume failed without a cause: %v", err)
		}
		w.count("surfaced: fail-stop")
	}
}

// acknowledge is a reply that leaves.
func (w *world) acknowledge(cl *client, r *reply) {
	w.events++
	w.histories.returned(cl, r, w.events)
	switch cl.level {
	case volume.LevelFresh:
		w.ackFresh = max(w.ackFresh, r.need)
		w.ackDurable = max(w.ackDurable, r.need)
	case volume.LevelDurable:
		w.ackDurable = max(w.ackDurable, r.need)
	}
}

// dropReplies is what a dead server does to a client: whether its last commands took effect is unknown to it.
func (w *world) dropReplies(cl *client) {
	for i := range cl.replies {
		w.histories.lost(cl, &cl.replies[i])
	}
	cl.replies = nil
}

// disconnect ends what the clients were at.
func (w *world) disconnect() {
	for _, cl := range w.clients {
		w.dropReplies(cl)
		*cl = client{id: cl.id, db: cl.db, level: cl.level}
	}
}

// checkWindow: no more than the promised number of epochs is uncommitted (DESIGN.md 4.4). The batch that fills an epoch may
// overshoot it.
func (w *world) checkWindow() {
	rec := w.record()
	if w.p.epochOps > 1000 || rec.Gen != rec.Current.Gen || w.fenced {
		return
	}
	var sizes []int
	sum := 0
	for _, b := range slices.Backward(w.model.batches) {
		if b.last <= rec.Current.Value {
			break
		}
		sum += b.records
		sizes = append(sizes, b.records)
	}
	slices.Sort(sizes)
	epochs := w.p.windowEpochs()
	bound := epochs * (w.p.epochOps - 1)
	for _, n := range sizes[max(0, len(sizes)-epochs):] {
		bound += n
	}
	if sum > bound {
		failf("4.4: %d mutations are uncommitted, %d epochs are at most %d", sum, epochs, bound)
	}
}
