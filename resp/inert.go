package resp

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"cvmstore/resp/command"
)

// inertParam is a parameter of Redis' that has no effect here. Its values are checked, kept and shown, so that programs which
// set and read it go on working; the help says that it does nothing.
func inertParam(name, def string, check func(string) (string, error), help string) Param {
	return Param{
		Name: name, Kind: KindString, Default: def, Mutable: true, Help: help,
		get: func(c *Config) string {
			if v, ok := c.inert[name]; ok {
				return v
			}
			return def
		},
		set: func(c *Config, s string) error {
			v, err := check(s)
			if err != nil {
				return err
			}
			if v == def && c.inert[name] == "" {
				return nil
			}
			next := maps.Clone(c.inert)
			if next == nil {
				next = map[string]string{}
			}
			next[name] = v
			c.inert = next
			return nil
		},
	}
}

func hidden(p Param) Param { p.Hidden = true; return p }

func checkNothing(s string) (string, error) { return s, nil }

func checkMemoryText(s string) (string, error) {
	n, err := ParseMemory(s)
	return strconv.FormatInt(n, 10), err
}

// checkPercent takes a size, or a share of maxmemory.
func checkPercent(s string) (string, error) {
	number, percent := strings.CutSuffix(s, "%")
	if !percent {
		return checkMemoryText(s)
	}
	n, err := strconv.ParseInt(number, 10, 32)
	switch {
	case err != nil || n < 0:
		return "", fmt.Errorf("argument must be a memory or percent value")
	case n > 100:
		return "", fmt.Errorf("percentage argument must be less or equal to 100")
	}
	return s, nil
}

// checkSave takes pairs of seconds and changes.
func checkSave(s string) (string, error) {
	f := strings.Fields(s)
	if len(f)%2 != 0 {
		return "", command.Error("Invalid save parameters")
	}
	for _, n := range f {
		if v, err := strconv.ParseInt(n, 10, 32); err != nil || v < 0 {
			return "", command.Error("Invalid save parameters")
		}
	}
	return strings.Join(f, " "), nil
}

func checkYesNo(s string) (string, error) {
	s = strings.ToLower(s)
	if s != "yes" && s != "no" {
		return "", fmt.Errorf("argument must be 'yes' or 'no'")
	}
	return s, nil
}
