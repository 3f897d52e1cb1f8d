package keyspace

import (
	"strings"
	"testing"
	"time"
)

func TestGlobsMatchAsInRedis(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "abc", true},
		{"***", "abc", true},
		{"?", "", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"h*llo", "heeello", true},
		{"h*llo", "heeell", false},
		{"h[ae]llo", "hallo", true},
		{"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hbllo", true},
		{"h[^e]llo", "hello", false},
		{"h[a-c]llo", "hbllo", true},
		{"h[c-a]llo", "hbllo", true},
		{"h[a-c]llo", "hdllo", false},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`[\]]`, "]", true},
		{"[]", "a", false},
		{"[^]", "a", true},
		{"[abc", "b", true},
		{"[", "a", false},
		{`a\`, `a\`, true},
		{`\`, `\`, true},
		{"*a*b", "xaxxb", true},
		{"*a*b", "xaxxbc", false},
		{"a*a*a", "aaa", true},
		{"a*a*a", "aa", false},
		{"[a-]", "-", false},
		{"[-a]", "-", true},
		{"\x00*\xff", "\x00zz\xff", true},
		{"ab*", "a", false},
		{"*[0-9]", "x1y2", true},
		{"*[0-9]x", "x1y2", false},
	} {
		if got := Match([]byte(c.pattern), []byte(c.s)); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// A hostile pattern takes time that grows with its length times that of the string, no more.
func TestGlobsDoNotBlowUp(t *testing.T) {
	pattern := []byte(strings.Repeat("a*", 5000) + "b")
	s := []byte(strings.Repeat("a", 50000))
	begin := time.Now()
	if Match(pattern, s) {
		t.Fatal("matched")
	}
	if d := time.Since(begin); d > 30*time.Second {
		t.Fatalf("took %v", d)
	}
}

// slowMatch is the obvious version.
func slowMatch(p, s []byte) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	if p[0] == '*' {
		return slowMatch(p[1:], s) || len(s) > 0 && slowMatch(p, s[1:])
	}
	if len(s) == 0 {
		return false
	}
	ok, n := matchOne(p, s[0])
	return ok && slowMatch(p[n:], s[1:])
}

func FuzzMatch(f *testing.F) {
	for _, p := range []string{"*", "a*b", "[a-c]?", `\[x`, "[^", "***a"} {
		f.Add([]byte(p), []byte("abc"))
	}
	f.Fuzz(func(t *testing.T, p, s []byte) {
		if len(p) > 10 || len(s) > 12 {
			Match(p, s)
			return
		}
		if got, want := Match(p, s), slowMatch(p, s); got != want {
			t.Fatalf("Match(%q, %q) = %v", p, s, got)
		}
	})
}
