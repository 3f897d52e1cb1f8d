package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"cvmstore/resp"
)

// readFile reads a TOML configuration file into o. Its keys are the settings' names, its values strings in redis.conf's
// syntax, or TOML's own numbers, booleans and lists.
func readFile(o *options, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return usageErrorf("configuration file: %w", err)
	}
	var tree map[string]any
	if _, err := toml.Decode(string(text), &tree); err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return usageErrorf("%s: line %d: %s", path, parse.Position.Line, parse.Message)
		}
		return usageErrorf("%s: %w", path, err)
	}
	values := make(map[string]string, len(tree))
	for name, value := range tree {
		v, err := plainValue(value)
		if err != nil {
			return usageErrorf("%s: %s: %w", path, name, err)
		}
		values[name] = v
	}
	return assign(o, path, values)
}

// plainValue turns a TOML value into redis.conf's syntax.
func plainValue(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case bool:
		if v {
			return "yes", nil
		}
		return "no", nil
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			part, err := plainValue(x)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return strings.Join(parts, " "), nil
	}
	return "", fmt.Errorf("must be a string, a whole number, true, false or a list, not a %s", tomlKind(value))
}

func tomlKind(value any) string {
	switch value.(type) {
	case map[string]any, []map[string]any:
		return "table"
	case float64:
		return "fraction"
	}
	return "date or time"
}

// exampleFile returns the text of configs/cvmstore.toml: every setting, explained, commented out, with its default.
func exampleFile() string {
	var b strings.Builder
	b.WriteString(`# cvmstore: every setting, with its default. To change one, remove the # before it.
# Run with: cvmstore serve --config FILE. A flag of the same name (--port 6380) overrides the file.
# Names and syntax are those of redis.conf where Redis has the setting. Sizes take kb, mb, gb.
`)
	for _, s := range settings() {
		help := s.help
		if len(s.values) > 0 {
			help = strings.TrimSuffix(help, ".") + ". One of: " + strings.Join(s.values, ", ") + "."
		}
		fmt.Fprintf(&b, "\n# %s\n#%s = %s\n", help, s.name, tomlDefault(s))
	}
	return b.String()
}

func tomlDefault(s setting) string {
	if s.kind == resp.KindEnum && s.def == "" { // another name of a setting that has a default
		return strconv.Quote(s.values[0])
	}
	switch s.kind {
	case resp.KindInt:
		return s.def
	case resp.KindBool:
		return strconv.FormatBool(s.def == "yes")
	case resp.KindList:
		parts := strings.Fields(s.def)
		for i := range parts {
			parts[i] = strconv.Quote(parts[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strconv.Quote(s.def)
}
