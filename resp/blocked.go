package resp

import (
	"sync"
	"sync/atomic"

	"cvmstore/keyspace"
	"cvmstore/resp/command"
)

// Clients that wait for keys: BLPOP and its kin. A waiting client is a parked session and an entry in a queue for each of its
// keys; no thread waits. When a command, or an EXEC, has changed a key that somebody waits for, a *pass* goes through the key's
// queue in the order of arrival: each session's command runs once more, on the loop of the session, before any other command of
// the loop that made the key ready, until it finds what it waits for, or does not and goes on waiting.

// waits are all queues, of all loops.
type waits struct {
	sync.Mutex
	keys  map[waitKey]*waitQueue
	ready []waitKey // in the order in which they changed
	some  atomic.Int64
}

type waitKey struct {
	db  int
	key string
}

// waitQueue is who waits for one key. It is forgotten with the last of them.
type waitQueue struct {
	waiters []*waiter // in order of arrival
	ready   bool      // stands in waits.ready
	pass    *pass     // under way
	again   bool      // it changed, or somebody came, since the pass began
}

// waiter is a session that waits.
type waiter struct {
	s    *session
	keys []waitKey
	typ  keyspace.TypeID

	skipped bool // a pass met it while another one served it
}

// pass goes through a key's queue once. One loop at a time has it.
type pass struct {
	key    waitKey
	queue  []*waiter
	next   int
	failed [32]bool // by type: the key has nothing for the others of that type either
	inline bool     // the loop is in advance, and looks at what the session says itself
	over   bool     // the session under way has been served, or has not
}

// changed takes note that a key may have what somebody waits for. It is called under the key's lock. It reports whether it has.
func (w *waits) changed(db int, key []byte) bool {
	if w.some.Load() == 0 {
		return false
	}
	w.Lock()
	defer w.Unlock()
	return w.markLocked(waitKey{db, string(key)})
}

func (w *waits) markLocked(k waitKey) bool {
	q := w.keys[k]
	if q == nil {
		return false
	}
	if !q.ready {
		q.ready = true
		w.ready = append(w.ready, k)
	}
	return true
}

// changedAll is changed for all keys of a database: it was swapped, or emptied.
func (w *waits) changedAll(db int) (any bool) {
	if w.some.Load() == 0 {
		return false
	}
	w.Lock()
	defer w.Unlock()
	for k := range w.keys {
		if k.db == db {
			any = w.markLocked(k) || any
		}
	}
	return any
}

// ahead reports whether a pass is under way for a key: whoever comes now waits behind those that it serves.
func (w *waits) ahead(k waitKey) bool {
	if w.some.Load() == 0 {
		return false
	}
	w.Lock()
	defer w.Unlock()
	q := w.keys[k]
	if q == nil || q.pass == nil {
		return false
	}
	q.again = true
	return true
}

// mark makes all keys of a waiter ready.
func (w *waits) mark(x *waiter) {
	w.Lock()
	defer w.Unlock()
	for _, k := range x.keys {
		w.markLocked(k)
	}
}

// add lets a session wait. Its keys are locked, so that no change is missed.
func (w *waits) add(x *waiter) {
	w.Lock()
	defer w.Unlock()
	w.some.Add(1)
	if w.keys == nil {
		w.keys = map[waitKey]*waitQueue{}
	}
	for _, k := range x.keys {
		q := w.keys[k]
		if q == nil {
			q = &waitQueue{}
			w.keys[k] = q
		}
		q.waiters = append(q.waiters, x)
	}
}

// remove ends a wait.
func (w *waits) remove(x *waiter) {
	w.Lock()
	defer w.Unlock()
	w.some.Add(-1)
	for _, k := range x.keys {
		q := w.keys[k]
		for i, y := range q.waiters {
			if y == x {
				q.waiters = append(q.waiters[:i:i], q.waiters[i+1:]...)
				break
			}
		}
		w.tidyLocked(k, q)
	}
}

func (w *waits) tidyLocked(k waitKey, q *waitQueue) {
	if len(q.waiters) == 0 && q.pass == nil && !q.ready {
		delete(w.keys, k)
	}
}

// begin returns a pass for the next key that is ready; nil: there is none.
func (w *waits) begin() *pass {
	if w.some.Load() == 0 {
		return nil
	}
	w.Lock()
	defer w.Unlock()
	for len(w.ready) > 0 {
		k := w.ready[0]
		w.ready = append(w.ready[:0], w.ready[1:]...)
		q := w.keys[k]
		q.ready = false
		switch {
		case q.pass != nil:
			q.again = true
		case len(q.waiters) == 0:
			w.tidyLocked(k, q)
		default:
			q.pass = &pass{key: k, queue: append([]*waiter(nil), q.waiters...)}
			return q.pass
		}
	}
	return nil
}

// end ends a pass. A key that has changed since it began is ready once more.
func (w *waits) end(p *pass) {
	w.Lock()
	defer w.Unlock()
	q := w.keys[p.key]
	q.pass = nil
	if q.again && len(q.waiters) > 0 {
		w.markLocked(p.key)
	}
	q.again = false
	w.tidyLocked(p.key, q)
}

// block registers a session whose command found nothing. The command's keys are locked.
func (l *loop) block(s *session, c *command.Ctx) {
	if s.wait != nil || len(c.Park.Keys) == 0 {
		return // it has waited before, in the same place
	}
	x := &waiter{s: s, typ: c.Park.Type}
	seen := make(map[string]bool, len(c.Park.Keys))
	for _, k := range c.Park.Keys {
		if !seen[string(k)] {
			seen[string(k)] = true
			x.keys = append(x.keys, waitKey{s.DB, string(k)})
		}
	}
	c.Park.Keys = nil // they lie in the query buffer
	s.wait = x
	l.srv.waits.add(x)
}

// unblock ends a session's wait, if it has one.
func (l *loop) unblock(s *session) {
	if s.wait != nil {
		l.srv.waits.remove(s.wait)
		s.wait = nil
	}
}

// serveReady serves those who wait for keys that have changed.
func (l *loop) serveReady() {
	for p := l.srv.waits.begin(); p != nil; p = l.srv.waits.begin() {
		l.advance(p)
	}
}

// advance goes on with a pass until its end, or until a session of another loop, or one that has to fetch a value, takes over.
func (l *loop) advance(p *pass) {
	for p.next < len(p.queue) {
		x := p.queue[p.next]
		p.next++
		if p.failed[x.typ] {
			continue
		}
		if x.s.loop != l {
			x.s.loop.post(func(l *loop) {
				if l.try(p, x) {
					l.advance(p)
				}
				l.settle()
			})
			return
		}
		if !l.try(p, x) {
			return
		}
	}
	l.srv.waits.end(p)
}

// try runs a waiting session's command once more. It returns false if the session goes on with the pass itself, later.
func (l *loop) try(p *pass, x *waiter) bool {
	s := x.s
	if s.closed || s.wait != x || s.phase != phasePark || l.stopping {
		x.skipped = x.skipped || s.serving != nil
		return true
	}
	l.parkedRemove(s)
	s.phase, s.resume, s.serving = phaseRun, command.ResumeReady, p
	p.inline, p.over = true, false
	l.argv = s.p.argv(s.in, l.argv[:0])
	if l.execute(s, l.argv) {
		s.pinned = false
		s.in = s.in[s.p.size():]
		s.p.reset()
		l.bound(s)
		l.again(s)
		l.flushLater(s)
	}
	p.inline = false
	return p.over
}

// tried tells the pass that a session under way has been served, or goes on waiting.
func (l *loop) tried(s *session, served bool) {
	p := s.serving
	if p == nil {
		return
	}
	s.serving = nil
	p.over = true
	if x := s.wait; x != nil && x.skipped { // what the other pass had for it may still be there
		x.skipped = false
		l.srv.waits.mark(x)
		l.srv.events.some.Store(true)
	}
	if typ := p.queue[p.next-1].typ; !served && typ != keyspace.TypeStream { // who reads a stream leaves it as it is
		p.failed[typ] = true
	}
	if !p.inline {
		l.advance(p)
	}
}

// leavePass lets a pass go on without a session that is closed while it is being served.
func (l *loop) leavePass(s *session) {
	if p := s.serving; p != nil {
		s.serving = nil
		l.post(func(l *loop) { // not now: a command may be under way
			l.advance(p)
			l.settle()
		})
	}
}

func (v *view) Ahead(c *command.Ctx, key []byte) bool {
	return v.s.waits.ahead(waitKey{c.S.DB, string(key)})
}
