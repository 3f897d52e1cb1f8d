package cli

import (
	"reflect"
	"strconv"
	"strings"

	"cvmstore/resp"
)

// flagSet is a struct made at run time with one field a setting, so that kong's flags come from the same table as the file's
// keys. A field is nil if its flag was not given.
type flagSet struct {
	all    []setting
	fields reflect.Value
}

func newFlagSet() flagSet {
	all := settings()
	fields := make([]reflect.StructField, len(all))
	for i, s := range all {
		typ := reflect.TypeFor[*string]()
		if isSwitch(s) {
			typ = reflect.TypeFor[*bool]()
		}
		tag := "name:" + strconv.Quote(s.name) + " help:" + strconv.Quote(flagHelp(s)) + " placeholder:" + strconv.Quote(placeholder(s))
		fields[i] = reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typ, Tag: reflect.StructTag(tag)}
	}
	return flagSet{all: all, fields: reflect.New(reflect.StructOf(fields))}
}

// isSwitch says whether the flag stands alone, without a value. Redis' own take yes or no after them.
func isSwitch(s setting) bool { return s.name == "insecure-plaintext" }

// given returns the flags that were on the command line, in redis.conf's syntax.
func (f flagSet) given() map[string]string {
	values := make(map[string]string)
	for i, s := range f.all {
		switch v := f.fields.Elem().Field(i).Interface().(type) {
		case *string:
			if v == nil {
				continue
			}
			values[s.name] = *v
			if s.kind == resp.KindList {
				values[s.name] = strings.ReplaceAll(*v, ",", " ")
			}
		case *bool:
			if v != nil && *v {
				values[s.name] = "yes"
			} else if v != nil {
				values[s.name] = "no"
			}
		}
	}
	return values
}

func flagHelp(s setting) string {
	// kong interpolates ${...} and splits tags at quotes; neither stands in our help texts.
	if s.def == "" || isSwitch(s) {
		return s.help
	}
	return strings.TrimSuffix(s.help, ".") + " (" + s.def + ")."
}

func placeholder(s setting) string {
	switch s.kind {
	case resp.KindInt:
		return "N"
	case resp.KindBool:
		return "yes|no"
	case resp.KindMemory:
		return "SIZE"
	case resp.KindEnum:
		return strings.Join(s.values, "|")
	case resp.KindList:
		return "LIST"
	}
	return "TEXT"
}
