package resp

import (
	"maps"
	"slices"

	"cvmstore/resp/command"
	"cvmstore/resp/pubsub"
	"cvmstore/volume"
)

// Messages. The registry tells who gets one; each loop hands it to its own sessions.

// message is one PUBLISH, or one keyspace notification. It is shared by all who get it, and never changes.
type message struct {
	channel, payload []byte
	shard            bool
	seen             volume.Counter // what it tells depends on this
}

// addressee is a session that gets a message, by a channel or a pattern.
type addressee struct {
	to   *session
	kind pubsub.Kind
	name string
}

func (v *view) Subscribe(cs *command.Session, k pubsub.Kind, name []byte) {
	s := v.session(cs)
	if s.subs[k] == nil {
		s.subs[k] = map[string]uint64{}
	}
	if _, there := s.subs[k][string(name)]; there {
		return
	}
	s.subSeq++
	s.subs[k][string(name)] = s.subSeq
	cs.Subs[k] = len(s.subs[k])
	v.s.subscribers.Subscribe(k, string(name), s)
}

func (v *view) Unsubscribe(cs *command.Session, k pubsub.Kind, name []byte) {
	v.s.unsubscribe(v.session(cs), k, string(name))
}

func (v *view) Subscribed(cs *command.Session, k pubsub.Kind) []string {
	subs := v.session(cs).subs[k]
	return slices.SortedFunc(maps.Keys(subs), func(a, b string) int { return int(subs[a]) - int(subs[b]) })
}

func (v *view) Registry() command.Registry { return &v.s.subscribers }

func (srv *Server) unsubscribe(s *session, k pubsub.Kind, name string) {
	if _, there := s.subs[k][name]; there {
		delete(s.subs[k], name)
		s.Subs[k] = len(s.subs[k])
		srv.subscribers.Unsubscribe(k, name, s)
	}
}

// unsubscribeAll ends all subscriptions of a session.
func (srv *Server) unsubscribeAll(s *session) {
	for k := range s.subs {
		for name := range s.subs[k] {
			srv.unsubscribe(s, pubsub.Kind(k), name)
		}
		s.subs[k] = nil
	}
}

func (v *view) UnsubscribeAll(cs *command.Session) { v.s.unsubscribeAll(v.session(cs)) }

// Publish sends a message and returns how many get it. It depends on all that its sender has seen or written; within EXEC also
// on what the transaction does, so that it leaves when that is known.
func (v *view) Publish(c *command.Ctx, k pubsub.Kind, channel, payload []byte) int {
	m := &message{channel: slices.Clone(channel), payload: slices.Clone(payload), shard: k == pubsub.Shard}
	s := v.session(c.S)
	if c.Multi {
		n := 0
		v.s.subscribers.Receivers(k, channel, func(*session, pubsub.Kind, string) { n++ })
		m2 := s.transaction()
		m2.messages = append(m2.messages, m)
		return n
	}
	m.seen = s.lastSeen
	return v.l.publish(m)
}

// publish sends a message to its receivers on all loops.
func (l *loop) publish(m *message) int {
	k := pubsub.Channel
	if m.shard {
		k = pubsub.Shard
	}
	n := 0
	parts := l.srv.parts(func(add func(*loop, addressee)) {
		l.srv.subscribers.Receivers(k, m.channel, func(s *session, k pubsub.Kind, name string) {
			add(s.loop, addressee{s, k, name})
			n++
		})
	})
	for to, list := range parts {
		if to == l {
			l.hand(m, list)
		} else {
			to.post(func(l *loop) { l.hand(m, list) })
		}
	}
	return n
}

// parts sorts addressees by loop.
func (srv *Server) parts(each func(add func(*loop, addressee))) map[*loop][]addressee {
	var parts map[*loop][]addressee
	each(func(l *loop, a addressee) {
		if parts == nil {
			parts = map[*loop][]addressee{}
		}
		parts[l] = append(parts[l], a)
	})
	return parts
}

// hand gives a message to sessions of this loop that are still subscribed.
func (l *loop) hand(m *message, list []addressee) {
	for _, a := range list {
		if _, there := a.to.subs[a.kind][a.name]; there {
			l.push(a.to, m.seen, func(r *command.Reply) { m.write(r, a) })
		}
	}
}

func (m *message) write(r *command.Reply, a addressee) {
	switch a.kind {
	case pubsub.Pattern:
		r.Push(4)
		r.String("pmessage")
		r.String(a.name)
	case pubsub.Shard:
		r.Push(3)
		r.String("smessage")
	default:
		r.Push(3)
		r.String("message")
	}
	r.Bulk(m.channel)
	r.Bulk(m.payload)
}
