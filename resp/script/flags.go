package script

import (
	"errors"
	"fmt"
	"strings"
)

// Flags are what a script or function declares of itself.
type Flags uint8

// The flags.
const (
	NoWrites Flags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlot
	Declared // a script that has a first line of flags: without one, each command is judged by itself
)

var flagNames = map[string]Flags{
	"no-writes": NoWrites, "allow-oom": AllowOOM, "allow-stale": AllowStale, "no-cluster": NoCluster, "allow-cross-slot-keys": AllowCrossSlot,
}

// Names lists the flags by name.
func (f Flags) Names() (names []string) {
	for _, n := range []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"} {
		if f&flagNames[n] != 0 {
			names = append(names, n)
		}
	}
	return names
}

// Shebang reads the first line of a script ("#!lua flags=..."), and returns the script without it; its lines keep their numbers.
func Shebang(source string) (flags Flags, body string, err error) {
	if !strings.HasPrefix(source, "#!") {
		return 0, source, nil
	}
	head, rest, found := strings.Cut(source, "\n")
	if !found {
		return 0, "", errors.New("ERR Invalid script shebang")
	}
	words := strings.Fields(head)
	if words[0] != "#!lua" {
		return 0, "", fmt.Errorf("ERR Unexpected engine in script shebang: %s", clip(words[0]))
	}
	flags = Declared
	for _, w := range words[1:] {
		list, ok := strings.CutPrefix(w, "flags=")
		if !ok {
			return 0, "", fmt.Errorf("ERR Unknown lua shebang option: %s", clip(w))
		}
		for _, name := range strings.Split(list, ",") {
			f, known := flagNames[name]
			switch {
			case name == "":
			case !known:
				return 0, "", fmt.Errorf("ERR Unexpected flag in script shebang: %s", clip(name))
			}
			flags |= f
		}
	}
	return flags, "\n" + rest, nil
}

func clip(s string) string { return s[:min(len(s), 128)] }
