package sim

import (
	"context"
	"errors"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
)

// errDead is what a server sees of its disk and its counter once it is dead.
var errDead = errors.New("simulated: this server is dead")

// line is one server's view of the trusted counter. It dies with the server; what was under way may still arrive.
type line struct {
	w       *world
	s       *server
	dead    bool
	serving bool // opening commits are delivered or lost at once: Open waits for them
	opened  epoch.OpenReply
	raced   func() // for directed scenarios: happens between Read and Open
}

var _ epoch.Service = (*line)(nil)

// Create implements epoch.Service.
func (l *line) Create(ctx context.Context, store epoch.StoreID) error {
	return l.w.counter.Create(ctx, store)
}

// Read implements epoch.Service.
func (l *line) Read(ctx context.Context, store epoch.StoreID) (epoch.ReadReply, error) {
	if l.dead {
		return epoch.ReadReply{}, errDead
	}
	r, err := l.w.counter.Read(ctx, store)
	if l.w.p.async && chance(l.w.rng, 30) {
		l.w.deliver() // a message of an earlier server arrives between Read and Open
	}
	if l.raced != nil {
		f := l.raced
		l.raced = nil
		f()
	}
	return r, err
}

// Open implements epoch.Service. Its answer may be lost with the server.
func (l *line) Open(ctx context.Context, store epoch.StoreID) (epoch.OpenReply, error) {
	if l.dead || l.s.trip.step("counter Open", true) {
		return epoch.OpenReply{}, errDead
	}
	r, err := l.w.counter.Open(ctx, store)
	if err == nil {
		l.opened = r
		l.w.opensSeen(r)
	}
	if l.s.trip.step("counter Open", false) {
		return epoch.OpenReply{}, errDead
	}
	return r, err
}

// Commit implements epoch.Service.
func (l *line) Commit(req epoch.CommitRequest, done func(epoch.Stamp, error)) {
	w := l.w
	switch {
	case l.dead:
		if !l.serving { // Open waits for an answer
			done(0, errDead)
		}
	case !req.Opening:
		w.messages = append(w.messages, req)
		if _, known := l.s.disk.committed[req.Tag]; !known {
			l.s.disk.committed[req.Tag] = l.s.disk.prefix
			if req.Parallel { // its frames are on their way with it
				l.s.disk.committed[req.Tag] = len(l.s.disk.frames)
			}
		}
		w.counter.Commit(req, done)
	case l.s.trip.step("opening commit", true):
		if w.p.async && !w.tampered && chance(w.rng, 50) {
			w.note("opening commit is late")
			w.counter.Commit(req, func(epoch.Stamp, error) {})
			w.counter.Kill()
		}
		done(0, errDead)
	default:
		w.counter.Commit(req, func(s epoch.Stamp, err error) {
			if l.s.trip.step("opening commit", false) {
				err = errDead
			}
			done(s, err)
		})
		for w.p.async && w.counter.Pending() > 0 {
			w.deliver()
		}
	}
}

// Sync implements epoch.Service.
func (l *line) Sync(ctx context.Context) error {
	if l.dead || l.s.trip.step("counter Sync", true) {
		return errDead
	}
	err := l.w.counter.Sync(ctx)
	if l.s.trip.step("counter Sync", false) {
		return errDead
	}
	return err
}

// TimeBounded implements epoch.Service.
func (l *line) TimeBounded() bool { return l.w.p.bounded }

// Close implements epoch.Service.
func (l *line) Close() error { return nil }

// counterFault decides what befalls a call of the counter.
func (w *world) counterFault(c epochtest.Call) epochtest.Fault {
	if f := w.nextCommit; f != epochtest.FaultNone && c == epochtest.CallCommit {
		w.nextCommit = epochtest.FaultNone
		return f
	}
	if !w.p.counterFaults || w.healed {
		return epochtest.FaultNone
	}
	percent := 0
	switch c {
	case epochtest.CallCommit:
		percent = 10
		if w.srv == nil {
			percent = 2 // the retry of an opening commit sleeps in earnest
		}
	case epochtest.CallOpen, epochtest.CallRead:
		percent = 5
	case epochtest.CallSync:
		percent = 1
	}
	if w.fenced {
		percent = 0
	}
	if !chance(w.rng, percent) {
		return epochtest.FaultNone
	}
	f := choose(w.rng, epochtest.FaultLost, epochtest.FaultAnswer)
	if f == epochtest.FaultLost {
		w.count("counter: request lost")
	} else {
		w.count("counter: answer lost")
	}
	w.faultInOpen = w.faultInOpen || w.srv == nil
	w.syncFault = w.syncFault || c == epochtest.CallSync
	return f
}

// deliver lets a commit under way arrive.
func (w *world) deliver() {
	if n := w.counter.Pending(); n > 0 {
		w.counter.DeliverAt(w.rng.IntN(n))
	}
}
