// Package pubsub knows who listens to which channel. It sends nothing: resp does, since only resp knows what a message has to
// wait for. A registry may be used from any goroutine.
package pubsub

import (
	"sync"

	"cvmstore/keyspace"
)

// Kind is a kind of subscription. The names of each kind are a world of their own.
type Kind uint8

// The kinds: channels by name, channels by pattern, and shard channels by name.
const (
	Channel Kind = iota
	Pattern
	Shard
	Kinds // how many there are
)

// Registry holds the subscriptions of subscribers S.
type Registry[S comparable] struct {
	mu     sync.RWMutex
	topics [Kinds]map[string]*topic[S]
	order  []*topic[S] // of patterns, as they were subscribed first
}

// topic is a channel or pattern with at least one subscriber.
type topic[S comparable] struct {
	name string
	subs []S
	at   map[S]int // where in subs, so that leaving costs nothing
}

// Subscribe adds a subscription. It returns false if it is there already.
func (r *Registry[S]) Subscribe(k Kind, name string, s S) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.topics[k] == nil {
		r.topics[k] = map[string]*topic[S]{}
	}
	t := r.topics[k][name]
	if t == nil {
		t = &topic[S]{name: name, at: map[S]int{}}
		r.topics[k][name] = t
		if k == Pattern {
			r.order = append(r.order, t)
		}
	}
	if _, there := t.at[s]; there {
		return false
	}
	t.at[s] = len(t.subs)
	t.subs = append(t.subs, s)
	return true
}

// Unsubscribe takes a subscription away. It returns false if there is none.
func (r *Registry[S]) Unsubscribe(k Kind, name string, s S) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[k][name]
	if t == nil {
		return false
	}
	i, there := t.at[s]
	if !there {
		return false
	}
	last := len(t.subs) - 1
	t.subs[i] = t.subs[last]
	t.at[t.subs[i]] = i
	var none S
	t.subs[last] = none
	t.subs = t.subs[:last]
	delete(t.at, s)
	if last > 0 {
		return true
	}
	delete(r.topics[k], name)
	if k == Pattern {
		for i, o := range r.order {
			if o == t {
				r.order = append(r.order[:i], r.order[i+1:]...)
				break
			}
		}
	}
	return true
}

// Receivers calls each for every subscription that a message to a channel (of kind Channel or Shard) reaches: those to the
// channel first, with k, then those to patterns, with Pattern and the pattern. each must not call the registry.
func (r *Registry[S]) Receivers(k Kind, channel []byte, each func(s S, k Kind, name string)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t := r.topics[k][string(channel)]; t != nil {
		for _, s := range t.subs {
			each(s, k, t.name)
		}
	}
	if k != Channel {
		return
	}
	for _, t := range r.order {
		if !keyspace.Match([]byte(t.name), channel) {
			continue
		}
		for _, s := range t.subs {
			each(s, Pattern, t.name)
		}
	}
}

// Names returns the channels, or patterns, that somebody listens to and that match pattern; nil: all.
func (r *Registry[S]) Names(k Kind, pattern []byte) (names []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for name := range r.topics[k] {
		if pattern == nil || keyspace.Match(pattern, []byte(name)) {
			names = append(names, name)
		}
	}
	return names
}

// Subscribers counts those who listen to a channel, or pattern.
func (r *Registry[S]) Subscribers(k Kind, name string) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t := r.topics[k][name]; t != nil {
		return len(t.subs)
	}
	return 0
}

// Count returns how many names of a kind somebody listens to.
func (r *Registry[S]) Count(k Kind) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.topics[k])
}
