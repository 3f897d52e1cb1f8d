package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// parseAll feeds chunks to a parser as a session does and returns what it found, one line each.
func parseAll(chunks [][]byte, unauth bool, body bodyFunc) []string {
	p := &parser{bulkMax: 1 << 20, unauth: unauth, body: body}
	p.reset()
	var buf []byte
	var found []string
	for _, c := range chunks {
		buf = append(buf, c...)
		for {
			drop, st, err := p.next(buf)
			buf = buf[drop:]
			if err != nil {
				return append(found, err.Error())
			}
			if st == statusMore {
				break
			}
			if st == statusFull {
				continue
			}
			if st == statusCommand {
				found = append(found, fmt.Sprintf("%q", p.argv(buf, nil)))
			}
			buf = buf[p.size():]
			p.reset()
		}
		buf = slices.Clone(buf) // no slice of an earlier buffer may be needed
	}
	return found
}

func TestParserCommandsAndErrors(t *testing.T) {
	long := strings.Repeat("x", lineMax+1)
	for _, c := range []struct {
		name, in, want string
		unauth         bool
	}{
		{name: "multibulk", in: "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", want: `["GET" "a"]`},
		{name: "pipeline", in: "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", want: `["PING"]|["PING"]`},
		{name: "empty bulk", in: "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", want: `["ECHO" ""]`},
		{name: "empty multibulk", in: "*0\r\n*-1\r\nPING\r\n", want: `["PING"]`},
		{name: "binary", in: "*1\r\n$4\r\n\r\n\x00\n\r\n", want: `["\r\n\x00\n"]`},
		{name: "inline", in: "SET  a 'b c' \"\\x41\\n\\\"\"\n\r\n", want: `["SET" "a" "b c" "A\n\""]`},
		{name: "inline single", in: "ECHO 'it\\'s'\r\n", want: `["ECHO" "it's"]`},
		{name: "inline nul ends", in: "PING\x00 x\r\n", want: `["PING"]`},
		{name: "unbalanced", in: "SET \"a\r\n", want: "Protocol error: unbalanced quotes in request"},
		{name: "quote inside", in: "SET \"a\"b\r\n", want: "Protocol error: unbalanced quotes in request"},
		{name: "escape then nul", in: "SET \"a\\\x00\"\r\n", want: "Protocol error: unbalanced quotes in request"},
		{name: "count", in: "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", want: "Protocol error: expected '$', got 'f'"},
		{name: "bad count", in: "*x\r\n", want: "Protocol error: invalid multibulk length"},
		{name: "zero-led count", in: "*01\r\n", want: "Protocol error: invalid multibulk length"},
		{name: "no count", in: "*\r\n", want: "Protocol error: invalid multibulk length"},
		{name: "huge count", in: "*3000000000\r\n", want: "Protocol error: invalid multibulk length"},
		{name: "bad bulk", in: "*1\r\n$-10\r\n", want: "Protocol error: invalid bulk length"},
		{name: "text bulk", in: "*1\r\n$blabla\r\n", want: "Protocol error: invalid bulk length"},
		{name: "bulk of redcon", in: "*1\r\n$9223372036854775807\r\n", want: "Protocol error: invalid bulk length"},
		{name: "bulk past int64", in: "*1\r\n$9223372036854775808\r\n", want: "Protocol error: invalid bulk length"},
		{name: "bulk limit", in: "*1\r\n$1048577\r\n", want: "Protocol error: invalid bulk length"},
		{name: "big inline", in: long, want: "Protocol error: too big inline request"},
		{name: "big count", in: "*" + long, want: "Protocol error: too big mbulk count string"},
		{name: "big bulk count", in: "*1\r\n$" + long, want: "Protocol error: too big bulk count string"},
		{name: "unauth count", in: "*11\r\n", unauth: true, want: "Protocol error: unauthenticated multibulk length"},
		{name: "unauth bulk", in: "*1\r\n$16385\r\n", unauth: true, want: "Protocol error: unauthenticated bulk length"},
		{name: "unauth allowed", in: "*1\r\n$4\r\nPING\r\n", unauth: true, want: `["PING"]`},
	} {
		if got := strings.Join(parseAll([][]byte{[]byte(c.in)}, c.unauth, nil), "|"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		var drip [][]byte
		for i := range c.in {
			drip = append(drip, []byte(c.in[i:i+1]))
		}
		if got := strings.Join(parseAll(drip, c.unauth, nil), "|"); got != c.want {
			t.Errorf("%s, byte by byte: got %s, want %s", c.name, got, c.want)
		}
	}
}

// collect is a sink that takes bodies of at least 8 bytes, in pieces of up to most bytes at a time (0: all).
type collect struct {
	got  []byte
	most int
}

func (c *collect) take(piece []byte) int {
	if c.most > 0 && len(piece) > c.most {
		piece = piece[:c.most]
	}
	c.got = append(c.got, piece...)
	return len(piece)
}

func TestParserHandsOverABodyAsItArrives(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789"), 100)
	in := fmt.Sprintf("*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n$2\r\nEX\r\n$2\r\n10\r\n*1\r\n$4\r\nPING\r\n", len(value), value)
	for seed := range uint64(50) {
		c := collect{most: int(seed) % 7}
		got := parseAll(cuts([]byte(in), seed), false, func(_ *parser, _ []byte, size int64) bodySink {
			if size < 8 {
				return nil
			}
			return &c
		})
		want := `["SET" "k" "" "EX" "10"]|["PING"]`
		if strings.Join(got, "|") != want || !bytes.Equal(c.got, value) {
			t.Fatalf("seed %d: got %v and %d bytes of the body", seed, got, len(c.got))
		}
	}
}

func TestParserScansASlowBodyOnce(t *testing.T) {
	p := &parser{bulkMax: 1 << 20}
	p.reset()
	buf := []byte("*2\r\n$3\r\nGET\r\n$1000\r\n")
	for i := range 1001 {
		if _, st, err := p.next(buf); st != statusMore || err != nil {
			t.Fatal(i, st, err)
		}
		if p.pos != 20 {
			t.Fatalf("parse position moved to %d", p.pos)
		}
		buf = append(buf, '\r')
	}
	if _, st, _ := p.next(append(buf, '\n')); st != statusCommand {
		t.Fatal("not complete")
	}
}

func TestParserDoesNotAllocateInSteadyState(t *testing.T) {
	in := []byte("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n")
	p := &parser{bulkMax: 1 << 20}
	p.reset()
	argv := make([][]byte, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		if _, st, err := p.next(in); st != statusCommand || err != nil {
			t.Fatal(st, err)
		}
		argv = p.argv(in, argv[:0])
		p.reset()
	}); n != 0 {
		t.Fatalf("%v allocations a command", n)
	}
}

// cuts splits b at places that seed decides.
func cuts(b []byte, seed uint64) (chunks [][]byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	for len(b) > 0 {
		n := min(len(b), 1+r.IntN(1+r.IntN(64)))
		chunks, b = append(chunks, b[:n]), b[n:]
	}
	return chunks
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n", "*1\r\n$9223372036854775807\r\n", "SET 'a b' \"\\x00\"\r\n*0\r\n*-1\r\n",
		"*2147483647\r\n$0\r\n\r\n", "*1\r\n$4\r\nPI", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20\r\n01234567890123456789\r\n",
	} {
		f.Add([]byte(s), uint64(len(s)), false)
		f.Add([]byte(s), uint64(7), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, unauth bool) {
		whole := parseAll([][]byte{in}, unauth, nil)
		split := parseAll(cuts(in, seed), unauth, nil)
		if !slices.Equal(whole, split) {
			t.Fatalf("split: %q\nwhole: %q", split, whole)
		}
		c := collect{most: int(seed % 5)}
		handed := parseAll(cuts(in, seed), unauth, func(_ *parser, _ []byte, size int64) bodySink {
			if size < 8 {
				return nil
			}
			return &c
		})
		if len(handed) != len(whole) {
			t.Fatalf("handed over: %q\nwhole: %q", handed, whole)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	in := []byte("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$1024\r\n" + strings.Repeat("x", 1024) + "\r\n")
	p := &parser{bulkMax: 1 << 20}
	p.reset()
	var argv [][]byte
	for b.Loop() {
		p.next(in)
		argv = p.argv(in, argv[:0])
		p.reset()
	}
}
