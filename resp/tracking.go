package resp

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cvmstore/resp/command"
	"cvmstore/volume"
)

// Client-side caching: which client may hold which key, and who is told when it changes. An invalidation waits until the change
// has reached the level of the connection that it is sent to. It is never dropped: where the change does not get there in time,
// the client is told to forget everything, which reveals no key.

// tracking is the table, of all loops.
type tracking struct {
	sync.Mutex
	some     atomic.Int64
	clients  map[uint64]*tracker
	keys     map[string]map[uint64]readAt // by key: the clients that have read it
	items    int
	prefixes map[string]*broadcast
}

// readAt says when a client has read a key, first and last since it was told of a change: the number of the newest event by then.
type readAt struct{ first, last uint64 }

// tracker is one client that tracks.
type tracker struct {
	s *session
	command.Tracking
}

// broadcast is a prefix that clients are told of, and the keys of it that have changed in the round of events under way, with the
// client that changed each last.
type broadcast struct {
	clients map[uint64]*tracker
	keys    map[string]uint64
	seen    volume.Counter
}

// invalidation is one message. Without keys it is about all.
type invalidation struct {
	to   *tracker
	keys []string
	seen volume.Counter
}

func (v *view) Track(c *command.Ctx, o command.Tracking) error {
	t, s := &v.s.tracking, v.session(c.S)
	if o.Redirect != 0 && v.s.byID(o.Redirect) == nil {
		return command.Error("ERR The client ID you want redirect to does not exist")
	}
	t.Lock()
	defer t.Unlock()
	old := t.clients[s.ID]
	if old == nil {
		old = &tracker{s: s}
		if t.clients == nil {
			t.clients, t.keys, t.prefixes = map[uint64]*tracker{}, map[string]map[uint64]readAt{}, map[string]*broadcast{}
		}
		t.clients[s.ID] = old
		t.some.Add(1)
	}
	for _, p := range o.Prefixes {
		b := t.prefixes[p]
		if b == nil {
			b = &broadcast{clients: map[uint64]*tracker{}, keys: map[string]uint64{}}
			t.prefixes[p] = b
		}
		b.clients[s.ID] = old
	}
	o.Prefixes = slices.Compact(slices.Sorted(slices.Values(append(o.Prefixes, old.Prefixes...))))
	o.On = true
	old.Tracking = o
	s.Tracking = o
	return nil
}

// Untrack ends a session's tracking. Its place among the keys' readers is left to be found empty.
func (v *view) Untrack(cs *command.Session) { v.s.untrack(v.session(cs)) }

func (srv *Server) untrack(s *session) {
	if !s.Tracking.On {
		return
	}
	t := &srv.tracking
	t.Lock()
	defer t.Unlock()
	for _, p := range s.Tracking.Prefixes {
		if b := t.prefixes[p]; b != nil {
			if delete(b.clients, s.ID); len(b.clients) == 0 {
				delete(t.prefixes, p)
			}
		}
	}
	if delete(t.clients, s.ID); len(t.clients) == 0 { // nobody hears of a flush any more
		clear(t.keys)
		t.items = 0
	}
	t.some.Add(-1)
	s.Tracking = command.Tracking{}
}

func (v *view) TrackedTotals() (clients, keys, items, prefixes int) {
	t := &v.s.tracking
	t.Lock()
	defer t.Unlock()
	return len(t.clients), len(t.keys), t.items, len(t.prefixes)
}

// remember takes note of the keys that a command has read. They are still locked, so that no change of them is missed.
func (l *loop) remember(s *session, c *command.Ctx) {
	o := &s.Tracking
	if o.Broadcast || c.Cmd.Flags&command.ReadOnly == 0 || o.OptIn && !o.Caching || o.OptOut && o.Caching {
		return
	}
	keys := command.KeysOf(c.Cmd, c.Args)
	if len(keys) == 0 {
		return
	}
	t := &l.srv.tracking
	t.Lock()
	defer t.Unlock()
	now := l.srv.events.number.Load()
	for _, k := range keys {
		ids := t.keys[string(k)]
		if ids == nil {
			ids = map[uint64]readAt{}
			t.keys[string(k)] = ids
		}
		at, there := ids[s.ID]
		if !there {
			t.items++
			at.first = now // a change before, of the same EXEC or not yet settled, is in what was read
		}
		ids[s.ID] = readAt{at.first, now}
	}
	if int64(len(t.keys)) > l.config.TrackingKeys && l.config.TrackingKeys > 0 {
		l.srv.events.some.Store(true) // settle makes room
	}
}

// takeLocked takes out of the table who has read a key before the event with that number, and adds what is to be sent to them.
func (t *tracking) takeLocked(out []invalidation, key string, number, origin uint64, seen volume.Counter) []invalidation {
	ids := t.keys[key]
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		at := ids[id]
		if at.first >= number {
			continue
		}
		if at.last >= number { // it has read the key again since
			ids[id] = readAt{at.last, at.last}
		} else {
			t.items--
			delete(ids, id)
		}
		if c := t.clients[id]; c != nil && !c.Broadcast && !(c.NoLoop && id == origin) {
			out = append(out, invalidation{c, []string{key}, seen})
		}
	}
	if len(ids) == 0 {
		delete(t.keys, key)
	}
	return out
}

// invalidate tells whoever tracks what has changed. It reports nothing that is not a change, but a flush that found nothing.
func (l *loop) invalidate(events []keyEvent) {
	t := &l.srv.tracking
	if t.some.Load() == 0 {
		return
	}
	t.Lock()
	var out []invalidation
	for i := range events {
		switch e := &events[i]; {
		case e.whole:
			for _, id := range slices.Sorted(maps.Keys(t.clients)) {
				out = append(out, invalidation{t.clients[id], nil, e.counter})
			}
			clear(t.keys)
			t.items = 0
		case e.change:
			for p, b := range t.prefixes {
				if strings.HasPrefix(string(e.key), p) {
					b.keys[string(e.key)] = e.origin
					b.seen = max(b.seen, e.counter)
				}
			}
			out = t.takeLocked(out, string(e.key), e.number, e.origin, e.counter)
		}
	}
	out = t.broadcastLocked(out)
	limit := l.config.TrackingKeys
	for k := range t.keys { // in no order: what is evicted is random
		if limit <= 0 || int64(len(t.keys)) <= limit {
			break
		}
		out = t.takeLocked(out, k, math.MaxUint64, 0, 0)
	}
	t.Unlock()
	for _, inv := range out {
		l.send(inv)
	}
}

// broadcastLocked adds a message for each client of each prefix with changes.
func (t *tracking) broadcastLocked(out []invalidation) []invalidation {
	for _, p := range slices.Sorted(maps.Keys(t.prefixes)) {
		b := t.prefixes[p]
		if len(b.keys) == 0 {
			continue
		}
		all := slices.Sorted(maps.Keys(b.keys))
		for _, id := range slices.Sorted(maps.Keys(b.clients)) {
			c, keys := b.clients[id], all
			if c.NoLoop {
				keys = slices.DeleteFunc(slices.Clone(all), func(k string) bool { return b.keys[k] == id })
			}
			if len(keys) > 0 {
				out = append(out, invalidation{c, keys, b.seen})
			}
		}
		clear(b.keys)
		b.seen = 0
	}
	return out
}

// send sends an invalidation to its client, or to where that has it redirected.
func (l *loop) send(inv invalidation) {
	to, redirected := inv.to.s, false
	if id := inv.to.Redirect; id != 0 {
		redirected = true
		if to = l.srv.byID(id); to == nil {
			l.on(inv.to.s, func(l *loop, s *session) {
				s.Tracking.Broken = true
				if s.Proto == 3 {
					l.push(s, 0, func(r *command.Reply) {
						r.Push(2)
						r.String("tracking-redir-broken")
						r.Int(int64(id))
					})
				}
			})
			return
		}
	}
	l.on(to, func(l *loop, s *session) {
		if s.Proto == 3 || redirected && s.Subscriptions() > 0 {
			l.pushOr(s, inv.seen, inv.write, invalidation{}.write)
		}
	})
}

func (inv invalidation) write(r *command.Reply) {
	if r.Proto == 3 {
		r.Push(2)
		r.String("invalidate")
	} else {
		r.Array(3)
		r.String("message")
		r.String("__redis__:invalidate")
	}
	if inv.keys == nil {
		r.Null()
		return
	}
	r.Array(len(inv.keys))
	for _, k := range inv.keys {
		r.String(k)
	}
}

// on calls f on a session's own loop.
func (l *loop) on(s *session, f func(*loop, *session)) {
	if s.loop == l {
		f(l, s)
	} else {
		s.loop.post(func(l *loop) { f(l, s) })
	}
}

// directory finds sessions by their numbers.
type directory struct {
	sync.RWMutex
	byID map[uint64]*session
}

func (srv *Server) byID(id uint64) *session {
	srv.directory.RLock()
	defer srv.directory.RUnlock()
	return srv.directory.byID[id]
}

func (d *directory) add(s *session) {
	d.Lock()
	defer d.Unlock()
	if d.byID == nil {
		d.byID = map[uint64]*session{}
	}
	d.byID[s.ID] = s
}

func (d *directory) remove(s *session) {
	d.Lock()
	defer d.Unlock()
	delete(d.byID, s.ID)
}

// originOf is who is told to have caused an event: nobody, where a key's time had come.
func originOf(name string, origin uint64) uint64 {
	if name == "expired" || name == "evicted" {
		return 0
	}
	return origin
}

// keptKey is a copy of a key that says whether there was one.
func keptKey(k []byte) (key []byte, whole bool) { return bytes.Clone(k), k == nil }
