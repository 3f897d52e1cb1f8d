package kvs

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// The obvious versions, a bit at a time.
func TestBitsAreCountedAndFoundOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		val := make([]byte, rng.IntN(40))
		for i := range val {
			val[i] = [...]byte{0, 0xff, byte(rng.IntN(256))}[rng.IntN(3)]
		}
		n := 8 * len(val)
		from := rng.IntN(n + 1)
		to := from + rng.IntN(n-from+1)
		count, first := int64(0), [2]int64{-1, -1}
		for p := from; p < to; p++ {
			bit := val[p/8] >> (7 - p%8) & 1
			count += int64(bit)
			if first[bit] < 0 {
				first[bit] = int64(p)
			}
		}
		if got := countBits(val, int64(from), int64(to)); got != count {
			t.Fatalf("%x [%d, %d): %d bits, want %d", val, from, to, got, count)
		}
		for bit, want := range first {
			if got := firstBit(val, bit, int64(from), int64(to)); got != want {
				t.Fatalf("%x [%d, %d): first %d at %d, want %d", val, from, to, bit, got, want)
			}
		}
	}
}

// Fields hold what arithmetic without bounds says, wrapped or clipped.
func TestFieldsOverflowAsNumbersDo(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20_000 {
		o := FieldOp{Kind: FieldIncr, Signed: rng.IntN(2) == 0, Overflow: Overflow(rng.IntN(2)), Arg: int64(rng.Uint64()) >> rng.IntN(64)}
		o.Bits = 1 + rng.IntN(63)
		if o.Signed {
			o.Bits = 1 + rng.IntN(64)
		}
		old := o.number(rng.Uint64() & (^uint64(0) >> (64 - o.Bits)))
		sum := new(big.Int).Add(big.NewInt(old), big.NewInt(o.Arg))
		low, high := o.limits()
		fits := sum.Cmp(big.NewInt(low)) >= 0 && sum.Cmp(big.NewInt(high)) <= 0
		want := sum
		switch {
		case fits:
		case o.Overflow == OverflowSat && sum.Cmp(big.NewInt(high)) > 0:
			want = big.NewInt(high)
		case o.Overflow == OverflowSat:
			want = big.NewInt(low)
		default:
			size := new(big.Int).Lsh(big.NewInt(1), uint(o.Bits))
			if want.Mod(want, size); want.Cmp(big.NewInt(high)) > 0 {
				want.Sub(want, size)
			}
		}
		if got, ok := o.fit(old, o.Arg); got != want.Int64() || ok != fits {
			t.Fatalf("%+v of %d: %d, %v, want %d, %v", o, old, got, ok, want, fits)
		}
		val := make([]byte, 20)
		o.Offset = int64(rng.IntN(64))
		setField(val, &o, uint64(old))
		if got := o.number(field(val, &o)); got != old {
			t.Fatalf("%+v: wrote %d, read %d", o, old, got)
		}
	}
}

func TestFloatsAreWrittenAsRedisDoes(t *testing.T) {
	for in, want := range map[string]string{
		"3.0e3": "3000", "0.1": "0.1", "-0": "0", "5.": "5", ".5": "0.5", "+1": "1", "0x1.8p3": "12", "1e-30": "0", "-1e-30": "0",
		"1e22": "10000000000000000000000", "0.10000000000000000001": "0.1",
	} {
		f, ok := parseFloat([]byte(in))
		if !ok || string(formatFloat(f)) != want {
			t.Errorf("%q: %s, %v, want %s", in, f.Text('g', 20), ok, want)
		}
	}
	for _, in := range []string{"", " 1", "1 ", "abc", "nan", "1_0", "0b1", "0o7", "1p3", "++1", "1e5000", "1e-5000", ".", "e1", "0x", strings.Repeat("1", 6000)} {
		if f, ok := parseFloat([]byte(in)); ok {
			t.Errorf("%.20q passes as %s", in, f.Text('g', 20))
		}
	}
}

// The table of bits leads back along a longest common subsequence: as long as a table of numbers says, and part of both.
func TestLcsIsCommonAndLongest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	word := func() []byte {
		b := make([]byte, rng.IntN(30))
		for i := range b {
			b[i] = "abc"[rng.IntN(3)]
		}
		return b
	}
	for range 2000 {
		a, b := word(), word()
		res, err := lcs(a, b, false)
		if err != nil {
			t.Fatal(err)
		}
		if want := lcsLength(a, b, map[[2]int]int{}); res.Length != want || len(res.Text) != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, res.Length, want)
		}
		var parts []byte
		for i := len(res.Matches) - 1; i >= 0; i-- {
			m := res.Matches[i]
			if !bytes.Equal(a[m.AStart:m.AEnd+1], b[m.BStart:m.BEnd+1]) {
				t.Fatalf("%q and %q: %+v is not in both", a, b, m)
			}
			parts = append(parts, a[m.AStart:m.AEnd+1]...)
		}
		if !bytes.Equal(parts, res.Text) {
			t.Fatalf("%q and %q: %q in runs of %q", a, b, res.Text, parts)
		}
	}
	if _, err := lcs(make([]byte, 1<<14), make([]byte, 1<<14), true); err == nil {
		t.Error("a table of 1 GiB passes")
	}
}

func lcsLength(a, b []byte, memo map[[2]int]int) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	k := [2]int{len(a), len(b)}
	if n, ok := memo[k]; ok {
		return n
	}
	n := max(lcsLength(a[1:], b, memo), lcsLength(a, b[1:], memo))
	if a[0] == b[0] {
		n = max(n, 1+lcsLength(a[1:], b[1:], memo))
	}
	memo[k] = n
	return n
}
