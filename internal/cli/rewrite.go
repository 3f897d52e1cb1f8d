package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cvmstore/resp"
)

// rewrite returns what CONFIG REWRITE does: it writes the values that are in force into the configuration file, if the server
// was started with one. Lines of comment and the order stay.
func (o *options) rewrite() func(resp.Config) error {
	if o.configFile == "" {
		return nil
	}
	return func(c resp.Config) error { return rewriteFile(o.configFile, c) }
}

// rewriteFile replaces the file as a whole, so that a crash leaves the old or the new one.
func rewriteFile(path string, c resp.Config) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	next, err := rewriteText(string(text), c)
	if err != nil {
		return err
	}
	old := defaultOptions()
	if err := readFile(&old, path); err != nil {
		return fmt.Errorf("not rewritten, since it cannot be read: %w", err)
	}
	mode := os.FileMode(0o600)
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".cvmstore-*.toml")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if _, err = f.WriteString(next); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		// The new text must be one that a start accepts.
		check := defaultOptions()
		err = readFile(&check, f.Name())
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// rewriteText puts the values that differ from what the text says into it: on the line of their key, or at its end.
func rewriteText(text string, c resp.Config) (string, error) {
	said := resp.DefaultConfig()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	at := map[string]int{}
	for i, line := range lines {
		key, value, ok := strings.Cut(line, "=")
		key = strings.Trim(strings.TrimSpace(key), `"`)
		if ok && !strings.HasPrefix(key, "#") && !strings.Contains(value, `"""`) {
			at[key] = i
		}
	}
	changed := map[string]string{}
	for _, s := range settings() {
		now, ok := c.Get(s.name)
		before, _ := said.Get(s.name)
		_, named := at[s.name]
		if ok && s.name != "appendfsync" && s.name != "dir" && (named || now != before) {
			changed[s.name] = tomlValue(s, now)
		}
	}
	if _, ok := changed["durability"]; ok { // another name of the same
		if i, named := at["appendfsync"]; named {
			lines[i] = "# " + lines[i]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		line := name + " = " + changed[name]
		i, named := at[name]
		switch {
		case !named:
			lines = append(lines, line)
		case strings.Contains(lines[i], "[") != strings.Contains(lines[i], "]"):
			return "", fmt.Errorf("%s: a list over several lines is not rewritten", name)
		default:
			lines[i] = line
		}
	}
	return strings.TrimLeft(strings.Join(lines, "\n")+"\n", "\n"), nil
}

// tomlValue is a value, in redis.conf's syntax, as the file has it.
func tomlValue(s setting, v string) string {
	s.def = v
	if s.kind == resp.KindString || s.kind == resp.KindMemory || s.kind == resp.KindEnum {
		return tomlString(v)
	}
	return tomlDefault(s)
}

// tomlString quotes v as TOML's basic strings have it.
func tomlString(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
