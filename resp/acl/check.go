package acl

import (
	"slices"
	"strings"
)

// Denial says what a user may not do.
type Denial uint8

// What is denied.
const (
	Allowed Denial = iota
	DeniedCommand
	DeniedKey
	DeniedChannel
)

// Key is a key of a command, and what it does to it.
type Key struct {
	Name        []byte
	Read, Write bool
}

// Request is one command to check.
type Request struct {
	Command  int // number in the table
	First    []byte
	Keys     []Key
	Channels [][]byte
	Patterns bool // Channels are patterns (PSUBSCRIBE)
	Match    func(pattern, s []byte) bool
}

// Check reports whether the user may do what is asked, and if not, which key or channel was in the way.
func (u *User) Check(r *Request) (Denial, []byte) {
	if u.all {
		return Allowed, nil
	}
	worst, at := DeniedCommand, []byte(nil)
	if d, what := u.root.check(u.table, r); d == Allowed {
		return Allowed, nil
	} else if d > worst {
		worst, at = d, what
	}
	for _, s := range u.more {
		d, what := s.check(u.table, r)
		if d == Allowed {
			return Allowed, nil
		}
		if d > worst {
			worst, at = d, what
		}
	}
	return worst, at
}

// ReadsAll reports whether the user may execute a command and, with it, read every key there is.
func (u *User) ReadsAll(command int) bool {
	if u.all || u.root.readsAll(u.table, command) {
		return true
	}
	for _, s := range u.more {
		if s.readsAll(u.table, command) {
			return true
		}
	}
	return false
}

func (s *selector) readsAll(t *Table, command int) bool {
	if !s.allCommands && !t.Commands[command].Always && !s.has(command) {
		return false
	}
	return s.allKeys || slices.ContainsFunc(s.keys, func(p keyPattern) bool { return p.read && p.pattern == "*" })
}

func (s *selector) check(t *Table, r *Request) (Denial, []byte) {
	if !s.allCommands && !t.Commands[r.Command].Always && !s.has(r.Command) && !s.first(r) {
		return DeniedCommand, nil
	}
	if !s.allKeys {
		for i := range r.Keys {
			if !s.keyAllowed(&r.Keys[i], r.Match) {
				return DeniedKey, r.Keys[i].Name
			}
		}
	}
	if !s.allChannels {
		for _, c := range r.Channels {
			if !s.Channel(c, r.Patterns, r.Match) {
				return DeniedChannel, c
			}
		}
	}
	return Allowed, nil
}

func (s *selector) first(r *Request) bool {
	for _, a := range s.firstArgs[r.Command] {
		if strings.EqualFold(a, string(r.First)) {
			return true
		}
	}
	return false
}

func (s *selector) keyAllowed(k *Key, match func(pattern, s []byte) bool) bool {
	for i := range s.keys {
		p := &s.keys[i]
		if (!k.Read || p.read) && (!k.Write || p.write) && match([]byte(p.pattern), k.Name) {
			return true
		}
	}
	return false
}

// Channel reports whether a selector allows a channel; a pattern must be one of its own.
func (s *selector) Channel(c []byte, pattern bool, match func(pattern, s []byte) bool) bool {
	for _, p := range s.channels {
		if pattern && p == string(c) || !pattern && match([]byte(p), c) {
			return true
		}
	}
	return s.allChannels
}

// MayListen reports whether a user may stay subscribed to a channel or pattern.
func (u *User) MayListen(c []byte, pattern bool, match func(pattern, s []byte) bool) bool {
	if u.all || u.root.Channel(c, pattern, match) {
		return true
	}
	for _, s := range u.more {
		if s.Channel(c, pattern, match) {
			return true
		}
	}
	return false
}
