package resp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func intParam(name string, def, lo, hi int64, mutable bool, field func(*Config) *int64, help string) Param {
	return Param{
		Name: name, Kind: KindInt, Default: strconv.FormatInt(def, 10), Mutable: mutable, Help: help,
		get: func(c *Config) string { return strconv.FormatInt(*field(c), 10) },
		set: func(c *Config, s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return fmt.Errorf("argument couldn't be parsed into an integer")
			}
			if n < lo || n > hi {
				return fmt.Errorf("argument must be between %d and %d inclusive", lo, hi)
			}
			*field(c) = n
			return nil
		},
	}
}

func memoryParam(name, def string, lo int64, mutable bool, field func(*Config) *int64, help string) Param {
	return Param{
		Name: name, Kind: KindMemory, Default: def, Mutable: mutable, Help: help,
		get: func(c *Config) string { return strconv.FormatInt(*field(c), 10) },
		set: func(c *Config, s string) error {
			n, err := ParseMemory(s)
			if err != nil {
				return err
			}
			if n < lo {
				return fmt.Errorf("argument must be at least %d", lo)
			}
			*field(c) = n
			return nil
		},
	}
}

func boolParam(name string, def, mutable bool, field func(*Config) *bool, help string) Param {
	return Param{
		Name: name, Kind: KindBool, Default: yesNo(def), Mutable: mutable, Help: help,
		get: func(c *Config) string { return yesNo(*field(c)) },
		set: func(c *Config, s string) error {
			switch strings.ToLower(s) {
			case "yes":
				*field(c) = true
			case "no":
				*field(c) = false
			default:
				return fmt.Errorf("argument must be 'yes' or 'no'")
			}
			return nil
		},
	}
}

func stringParam(name, def string, mutable bool, field func(*Config) *string, help string) Param {
	return Param{
		Name: name, Kind: KindString, Default: def, Mutable: mutable, Help: help,
		get: func(c *Config) string { return *field(c) },
		set: func(c *Config, s string) error { *field(c) = s; return nil },
	}
}

func listParam(name, def string, field func(*Config) *[]string, help string) Param {
	return Param{
		Name: name, Kind: KindList, Default: def, Help: help,
		get: func(c *Config) string { return strings.Join(*field(c), " ") },
		set: func(c *Config, s string) error { *field(c) = strings.Fields(s); return nil },
	}
}

// enumParam is a parameter with a list of values.
func enumParam(name, def string, values []string, field func(*Config) *string, help string) Param {
	return Param{
		Name: name, Kind: KindEnum, Default: def, Mutable: true, Values: values, Help: help,
		get: func(c *Config) string { return *field(c) },
		set: func(c *Config, s string) error {
			s = strings.ToLower(s)
			if !slices.Contains(values, s) {
				return fmt.Errorf("argument(s) must be one of the following: %s", strings.Join(values, ", "))
			}
			*field(c) = s
			return nil
		},
	}
}

func octalParam(name string, field func(*Config) *int64, help string) Param {
	return Param{
		Name: name, Kind: KindString, Default: "0", Help: help,
		get: func(c *Config) string { return strconv.FormatInt(*field(c), 8) },
		set: func(c *Config, s string) error {
			n, err := strconv.ParseInt(s, 8, 64)
			if err != nil || n < 0 || n > 0o777 {
				return fmt.Errorf("argument couldn't be parsed as an octal number")
			}
			*field(c) = n
			return nil
		},
	}
}
