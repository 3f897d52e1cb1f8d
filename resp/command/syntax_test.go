package command

import (
	"fmt"
	"strings"
	"testing"
)

// render writes arguments back as a syntax.
func render(args []docArg) string {
	var out []string
	for _, a := range args {
		s := a.name
		switch a.typ {
		case "oneof":
			var tokens []string
			for _, t := range a.args {
				tokens = append(tokens, t.token)
			}
			s = strings.Join(tokens, "|")
		case "block":
			s = render(a.args)
		}
		if a.multiple {
			s = fmt.Sprintf("%s [%s ...]", s, s)
		}
		switch {
		case a.typ == "pure-token":
			s = a.token
		case a.token != "":
			s = a.token + " " + s
		}
		if a.optional {
			s = "[" + s + "]"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// What COMMAND DOCS tells of a command says the same as its syntax.
func TestTheDocumentedArgumentsAreTheSyntax(t *testing.T) {
	n := 0
	for _, c := range All() {
		if c.Syntax == "" {
			continue
		}
		n++
		if got := render(parseSyntax(c.Syntax)); got != c.Syntax {
			t.Errorf("%s: %q became %q", c.Name, c.Syntax, got)
		}
	}
	if n < 15 {
		t.Errorf("only %d commands have a syntax", n)
	}
}
