package command

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cvmstore/volume"
)

func TestEveryCommandIsComplete(t *testing.T) {
	if len(All()) < 80 {
		t.Fatalf("only %d commands", len(All()))
	}
	for i, c := range All() {
		if c.Index != i || c.Name != strings.ToLower(c.Name) || c.Summary == "" || c.Since == "" || c.Group == "" || c.Arity == 0 {
			t.Errorf("%s: incomplete row: %+v", c.Full(), c)
		}
		if c.Handler == nil && len(c.Subs) == 0 {
			t.Errorf("%s: no handler", c.Full())
		}
		if c.First > 0 && (c.Step < 1 || c.Locks != LockKeys || c.Flags&(Write|ReadOnly|NoLevel) == 0) {
			t.Errorf("%s: bad key specification", c.Full())
		}
		if c.Flags&Write != 0 && c.Flags&(ReadOnly|NoLevel) != 0 {
			t.Errorf("%s: flags contradict each other", c.Full())
		}
	}
}

func TestLookup(t *testing.T) {
	args := func(s string) (out [][]byte) {
		for _, f := range strings.Fields(s) {
			out = append(out, []byte(f))
		}
		return out
	}
	for in, want := range map[string]string{"GeT a": "get", "Config GET x": "config|get", "client HELP": "client|help", "cvm.status": "cvm.status"} {
		if c, err := Lookup(args(in)); err != nil || c.Full() != want {
			t.Errorf("%s: %v %v", in, c, err)
		}
	}
	long := strings.Repeat("x", 200)
	_, err := Lookup(args("nosuch " + long + " " + long))
	if want := "ERR unknown command 'nosuch', with args beginning with: '" + long[:128] + "' "; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = Lookup(get) }); n != 0 {
		t.Errorf("%v allocations a lookup", n)
	}
}

var get = [][]byte{[]byte("GET"), []byte("k")}

func TestRepliesInBothProtocols(t *testing.T) {
	write := func(proto int) string {
		r := Reply{Proto: proto}
		r.Null()
		r.NullArray()
		r.Map(1)
		r.Set(1)
		r.Push(1)
		r.Bool(true)
		r.Bool(false)
		r.Double(1.5)
		r.Double(math.Inf(-1))
		r.Verbatim("txt", "hi")
		r.Error("ERR two\r\nlines")
		return string(r.Buf)
	}
	if got, want := write(2), "$-1\r\n*-1\r\n*2\r\n*1\r\n*1\r\n:1\r\n:0\r\n$3\r\n1.5\r\n$4\r\n-inf\r\n$2\r\nhi\r\n-ERR two  lines\r\n"; got != want {
		t.Errorf("RESP2: %q", got)
	}
	if got, want := write(3), "_\r\n_\r\n%1\r\n~1\r\n>1\r\n#t\r\n#f\r\n,1.5\r\n,-inf\r\n=6\r\ntxt:hi\r\n-ERR two  lines\r\n"; got != want {
		t.Errorf("RESP3: %q", got)
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("begin: %w", volume.ErrFull), "OOM "},
		{fmt.Errorf("begin: %w", volume.ErrFailed), "IOERR "},
		{fmt.Errorf("begin: %w", volume.ErrFenced), "FENCED "},
		{fmt.Errorf("read: %w", volume.ErrCorrupt), "CORRUPT "},
		{volume.ErrBusy, "TRYAGAIN "},
		{errors.New("WRONGTYPE Operation"), "WRONGTYPE Operation"},
		{errors.New("something else"), "ERR something else"},
		{errors.New("A b"), "ERR A b"},
	} {
		if got := Text(c.err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}

func TestParseIntIsStrict(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64} {
		if n, err := parseInt([]byte(in)); err != nil || n != want {
			t.Errorf("%q: %d %v", in, n, err)
		}
	}
	for _, in := range []string{"", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "-9223372036854775809", "99999999999999999999"} {
		if n, err := parseInt([]byte(in)); err == nil {
			t.Errorf("%q: taken as %d", in, n)
		}
	}
}
