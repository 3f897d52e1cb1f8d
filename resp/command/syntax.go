package command

import "strings"

// docArg is an argument as COMMAND DOCS tells of it, so that redis-cli shows what a command takes.
type docArg struct {
	name, typ, token   string
	optional, multiple bool
	args               []docArg
}

// argTypes are the types of arguments that are not plain strings, by name.
var argTypes = map[string]string{
	"name": "key", "newname": "key", "offset": "integer", "length": "integer", "count": "integer", "bytes": "integer",
	"seconds": "integer", "cursor": "integer", "pattern": "pattern",
}

// parseSyntax reads Command.Syntax: words, TOKENS, [options], A|B, and "[x y ...]" behind x y for more of the same.
func parseSyntax(s string) (args []docArg) {
	for _, item := range splitSyntax(s) {
		inner, bracketed := strings.CutPrefix(item, "[")
		inner = strings.TrimSuffix(inner, "]")
		switch {
		case !bracketed:
			args = append(args, plainArg(item))
		case strings.HasSuffix(inner, " ..."):
			args = repeated(args, len(strings.Fields(inner))-1)
		default:
			args = append(args, optionalArg(inner))
		}
	}
	return args
}

func plainArg(word string) docArg {
	typ := argTypes[word]
	if typ == "" {
		typ = "string"
	}
	return docArg{name: word, typ: typ}
}

// repeated makes the last n arguments one that may come several times.
func repeated(args []docArg, n int) []docArg {
	if n == 1 {
		args[len(args)-1].multiple = true
		return args
	}
	last := append([]docArg(nil), args[len(args)-n:]...)
	return append(args[:len(args)-n], docArg{name: "pair", typ: "block", multiple: true, args: last})
}

func optionalArg(inner string) docArg {
	if strings.Contains(inner, "|") && !strings.Contains(inner, " ") {
		a := docArg{name: "condition", typ: "oneof", optional: true}
		for _, token := range strings.Split(inner, "|") {
			a.args = append(a.args, docArg{name: strings.ToLower(token), typ: "pure-token", token: token})
		}
		return a
	}
	first, rest, _ := strings.Cut(inner, " ")
	if first == strings.ToUpper(first) { // a token, perhaps with what belongs to it
		a := docArg{name: strings.ToLower(first), typ: "pure-token"}
		if args := parseSyntax(rest); len(args) == 1 {
			a = args[0]
		} else if len(args) > 1 {
			a = docArg{name: a.name, typ: "block", args: args}
		}
		a.token, a.optional = first, true
		return a
	}
	args := parseSyntax(inner)
	if len(args) == 1 {
		args[0].optional = true
		return args[0]
	}
	return docArg{name: "range", typ: "block", optional: true, args: args}
}

// splitSyntax splits at the spaces outside of brackets.
func splitSyntax(s string) (items []string) {
	depth, from := 0, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == ' ' && depth == 0:
			if i > from {
				items = append(items, s[from:i])
			}
			from = i + 1
		case s[i] == '[':
			depth++
		case s[i] == ']':
			depth--
		}
	}
	return items
}

func (a *docArg) write(r *Reply) {
	flags := []string{}
	if a.optional {
		flags = append(flags, "optional")
	}
	if a.multiple {
		flags = append(flags, "multiple")
	}
	pairs := 2 + boolInt(a.token != "") + boolInt(a.typ == "key") + boolInt(len(flags) > 0) + boolInt(len(a.args) > 0)
	r.Map(int(pairs))
	r.String("name")
	r.String(a.name)
	r.String("type")
	r.String(a.typ)
	if a.typ == "key" {
		r.String("key_spec_index")
		r.Int(0)
	}
	if a.token != "" {
		r.String("token")
		r.String(a.token)
	}
	if len(flags) > 0 {
		r.String("flags")
		r.Set(len(flags))
		for _, f := range flags {
			r.Simple(f)
		}
	}
	if len(a.args) > 0 {
		r.String("arguments")
		r.Array(len(a.args))
		for i := range a.args {
			a.args[i].write(r)
		}
	}
}

// writeArguments appends a command's arguments to its entry in COMMAND DOCS.
func (c *Command) writeArguments(r *Reply) {
	args := parseSyntax(c.Syntax)
	r.String("arguments")
	r.Array(len(args))
	for i := range args {
		args[i].write(r)
	}
}
