package acl

import (
	"slices"
	"strings"
)

// ruleError is what is wrong with a rule, as Redis words it.
type ruleError string

func (e ruleError) Error() string { return string(e) }

const (
	errSyntax    = ruleError("Syntax error")
	errUnknown   = ruleError("Unknown command or category name in ACL")
	errFirstArg  = ruleError("Allowing first-arg of a subcommand is not supported")
	errNoPass    = ruleError("The password you are trying to remove from the user does not exist")
	errHash      = ruleError("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errAfterKeys = ruleError("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns")
	errAfterChan = ruleError("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels")
)

// With returns the user with rules applied, or the error of the first rule that is wrong.
func (u *User) With(rules []string) (*User, error) {
	rules, err := join(rules)
	if err != nil {
		return nil, err
	}
	n := u.clone()
	for _, r := range rules {
		if err := n.apply(r); err != nil {
			return nil, ruleError("Error in ACL SETUSER modifier '" + r + "': " + err.Error())
		}
	}
	n.all = n.root.allCommands && n.root.allKeys && n.root.allChannels
	return n, nil
}

// join puts selectors together that were given as several words.
func join(rules []string) (out []string, err error) {
	for i := 0; i < len(rules); i++ {
		r := rules[i]
		if !strings.HasPrefix(r, "(") {
			out = append(out, r)
			continue
		}
		start := r
		for !strings.HasSuffix(r, ")") {
			if i++; i == len(rules) {
				return nil, ruleError("Unmatched parenthesis in acl selector starting at '" + start + "'.")
			}
			r += " " + rules[i]
		}
		out = append(out, r)
	}
	return out, nil
}

func (u *User) apply(r string) error {
	switch strings.ToLower(r) {
	case "on":
		u.On = true
		return nil
	case "off":
		u.On = false
		return nil
	case "nopass":
		u.NoPass, u.passwords = true, nil
		return nil
	case "skip-sanitize-payload":
		u.Skip = true
		return nil
	case "sanitize-payload":
		u.Skip = false
		return nil
	case "resetpass":
		u.NoPass, u.passwords = false, nil
		return nil
	case "reset":
		*u = *NewUser(u.table, u.Name)
		return nil
	case "clearselectors":
		u.more = nil
		return nil
	}
	if r == "" {
		return nil
	}
	switch r[0] {
	case '>':
		return u.addPassword(hash(r[1:]))
	case '#':
		return u.addPassword(r[1:])
	case '<', '!':
		p := r[1:]
		if r[0] == '<' {
			p = hash(p)
		} else if !goodHash(p) {
			return errHash
		}
		i := slices.Index(u.passwords, p)
		if i < 0 {
			return errNoPass
		}
		u.passwords = slices.Delete(u.passwords, i, i+1)
		return nil
	case '(':
		if !strings.HasSuffix(r, ")") {
			return errSyntax
		}
		s := newSelector(u.table)
		for _, word := range strings.Fields(r[1 : len(r)-1]) {
			if err := s.apply(u.table, word); err != nil {
				return err
			}
		}
		u.more = append(u.more, s)
		return nil
	}
	return u.root.apply(u.table, r)
}

// passwordsMax bounds a user's passwords: each costs a comparison at login.
const passwordsMax = 100

func (u *User) addPassword(p string) error {
	if !goodHash(p) {
		return errHash
	}
	if !slices.Contains(u.passwords, p) {
		if len(u.passwords) >= passwordsMax {
			return ruleError("Too many passwords")
		}
		u.passwords = append(u.passwords, p)
	}
	u.NoPass = false
	return nil
}

func goodHash(p string) bool {
	return len(p) == 64 && strings.Trim(p, "0123456789abcdef") == ""
}

func (s *selector) apply(t *Table, r string) error {
	switch strings.ToLower(r) {
	case "allkeys", "~*":
		s.allKeys, s.keys = true, nil
		return nil
	case "resetkeys":
		s.allKeys, s.keys = false, nil
		return nil
	case "allchannels", "&*":
		s.allChannels, s.channels = true, nil
		return nil
	case "resetchannels":
		s.allChannels, s.channels = false, nil
		return nil
	case "allcommands", "+@all":
		s.setAll(t, true)
		return nil
	case "nocommands", "-@all":
		s.setAll(t, false)
		return nil
	}
	if r == "" {
		return errSyntax
	}
	switch r[0] {
	case '~', '%':
		return s.key(r)
	case '&':
		switch {
		case s.allChannels:
			return errAfterChan
		case !goodPattern(r[1:]):
			return errSyntax
		}
		if !slices.Contains(s.channels, r[1:]) {
			s.channels = append(s.channels, r[1:])
		}
		return nil
	case '+', '-':
		if len(r) > 1 && r[1] == '@' {
			return s.category(t, r[2:], r[0] == '+')
		}
		return s.command(t, strings.ToLower(r[1:]), r[0] == '+')
	}
	return errSyntax
}

func goodPattern(p string) bool { return !strings.ContainsAny(p, " \t\n\v\f\r\x00") }

func (s *selector) key(r string) error {
	if s.allKeys {
		return errAfterKeys
	}
	k := keyPattern{read: true, write: true}
	if r[0] == '%' {
		kind, pattern, ok := strings.Cut(r[1:], "~")
		if !ok || kind == "" {
			return errSyntax
		}
		k = keyPattern{pattern: pattern}
		for i := range len(kind) {
			switch {
			case (kind[i] == 'R' || kind[i] == 'r') && !k.read:
				k.read = true
			case (kind[i] == 'W' || kind[i] == 'w') && !k.write:
				k.write = true
			default:
				return errSyntax
			}
		}
	} else {
		k.pattern = r[1:]
	}
	if !goodPattern(k.pattern) {
		return errSyntax
	}
	for i := range s.keys {
		if s.keys[i].pattern == k.pattern {
			s.keys[i].read, s.keys[i].write = s.keys[i].read || k.read, s.keys[i].write || k.write
			return nil
		}
	}
	s.keys = append(s.keys, k)
	return nil
}

func (s *selector) setAll(t *Table, allow bool) {
	s.allCommands, s.firstArgs = allow, nil
	for i := range t.Commands {
		s.set(i, allow)
	}
	if allow {
		s.rules = []string{"+@all"}
	} else {
		s.rules = []string{"-@all"}
	}
}

func (s *selector) set(i int, allow bool) {
	if allow {
		s.commands[i/64] |= 1 << (i % 64)
	} else {
		s.commands[i/64] &^= 1 << (i % 64)
		s.allCommands = false
	}
	delete(s.firstArgs, i)
}

func (s *selector) has(i int) bool { return s.commands[i/64]>>(i%64)&1 != 0 }

// note keeps a rule for ACL LIST, in place of those that it overrides.
func (s *selector) note(name string, allow bool) {
	s.rules = slices.DeleteFunc(s.rules, func(r string) bool {
		old := r[1:]
		return old == name || name[0] != '@' && strings.HasPrefix(old, name+"|")
	})
	sign := "-"
	if allow {
		sign = "+"
	}
	s.rules = append(s.rules, sign+name)
}

func (s *selector) category(t *Table, name string, allow bool) error {
	name = strings.ToLower(name)
	if !slices.Contains(t.Categories, name) {
		return errUnknown
	}
	for i := range t.Commands {
		if slices.Contains(t.Commands[i].Categories, name) {
			s.set(i, allow)
		}
	}
	s.note("@"+name, allow)
	return nil
}

func (s *selector) command(t *Table, name string, allow bool) error {
	if i, ok := t.byName[name]; ok {
		s.set(i, allow)
		if t.Commands[i].Subs {
			for j := range t.Commands {
				if t.Commands[j].Parent == name {
					s.set(j, allow)
				}
			}
		}
		s.note(name, allow)
		return nil
	}
	// A command with a first argument, of a command that has no subcommands.
	cmd, arg, ok := strings.Cut(name, "|")
	i, known := t.byName[cmd]
	switch {
	case allow && strings.Count(name, "|") > 1 && known && t.byName[name[:len(cmd)+1+strings.Index(arg+"|", "|")]] > 0:
		return errFirstArg
	case !ok || !known || t.Commands[i].Subs || strings.Contains(arg, "|") || !allow:
		return errUnknown
	case arg == "":
		return errSyntax
	}
	if !s.has(i) {
		if s.firstArgs == nil {
			s.firstArgs = map[int][]string{}
		}
		if !slices.Contains(s.firstArgs[i], arg) {
			s.firstArgs[i] = append(s.firstArgs[i], arg)
		}
	}
	s.note(name, allow)
	return nil
}
