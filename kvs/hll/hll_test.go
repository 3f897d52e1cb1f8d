package hll

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// twin is the dumb version: one byte a register.
type twin [registers]byte

func (t *twin) add(index int, rank byte) bool {
	if t[index] >= rank {
		return false
	}
	t[index] = rank
	return true
}

func (h HLL) check(t *testing.T, want *twin) {
	t.Helper()
	got := NewRegisters()
	if err := h.Registers(got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want[:]) {
		t.Fatal("registers differ")
	}
	n, err := h.Count()
	if err != nil || n != CountRegisters(want[:]) {
		t.Fatalf("count %d %v, want %d", n, err, CountRegisters(want[:]))
	}
}

// TestFormsAgreeWithTheTwin raises registers at random, near each other so that runs split and join, in both forms.
func TestFormsAgreeWithTheTwin(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		want := &twin{}
		sparse := New()
		dense, err := New().Dense()
		if err != nil {
			t.Fatal(err)
		}
		width := 1 + rng.IntN(200)
		from := rng.IntN(registers - width + 1)
		for step := range 800 {
			index, rank := from+rng.IntN(width), byte(1+rng.IntN(3))
			if rng.IntN(20) == 0 {
				index = rng.IntN(registers)
			}
			if rng.IntN(300) == 0 {
				rank = byte(1 + rng.IntN(rankMax+1))
			}
			changed := want.add(index, rank)
			for i, h := range []*HLL{&sparse, &dense} {
				var c bool
				if *h, c, err = h.raise(index, rank, 3000); err != nil || c != changed {
					t.Fatalf("seed %d step %d form %d: changed %v, want %v (%v)", seed, step, i, c, changed, err)
				}
			}
		}
		sparse.check(t, want)
		dense.check(t, want)
		again, err := sparse.Dense()
		if err != nil {
			t.Fatal(err)
		}
		again.check(t, want)
		if _, err := Check(again); err != nil {
			t.Fatal(err)
		}
		merged, err := New().Merge(want[:], false, 3000)
		if err != nil {
			t.Fatal(err)
		}
		merged.check(t, want)
	}
}

func TestEstimateIsClose(t *testing.T) {
	h, next := New(), 1
	for n := 1; n <= 300_000; n++ {
		var err error
		if h, _, err = h.Add(fmt.Appendf(nil, "element %d", n), 3000); err != nil {
			t.Fatal(err)
		}
		if n != next {
			continue
		}
		next = next*3 + 1
		got, err := h.Count()
		if diff := float64(got) - float64(n); err != nil || diff > 1+0.04*float64(n) || diff < -1-0.04*float64(n) {
			t.Errorf("%d elements: %d %v", n, got, err)
		}
	}
	if h.Sparse() {
		t.Error("still sparse")
	}
}

func TestCorruptIsRefused(t *testing.T) {
	good := New()
	for _, name := range []string{"a", "b", "c"} {
		good, _, _ = good.Add([]byte(name), 3000)
	}
	for what, b := range map[string][]byte{
		"short": good[:15], "magic": append([]byte("hyll"), good[4:]...), "encoding": append([]byte("HYLL\x02"), good[5:]...),
		"dense of another length": append([]byte("HYLL\x00"), good[5:]...), "empty": nil,
	} {
		if _, err := Check(b); !errors.Is(err, ErrNotHLL) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, b := range map[string][]byte{
		"more behind": append(bytes.Clone(good), "hello"...), "cut": good[:len(good)-2], "half a run": append(bytes.Clone(good[:16]), 0x7f),
		"too many": append(bytes.Clone(good), bytes.Repeat([]byte{0x7f, 0xff}, 1<<17)...),
	} {
		h, err := Check(b)
		if err != nil {
			t.Fatal(what, err)
		}
		if _, err := h.Count(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: count: %v", what, err)
		}
		if err := h.Registers(NewRegisters()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: registers: %v", what, err)
		}
		if _, err := h.Dense(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: dense: %v", what, err)
		}
	}
}

// FuzzHLL: no bytes make it panic, and what it calls right stays so.
func FuzzHLL(f *testing.F) {
	f.Add([]byte(New()), []byte("x"))
	f.Add([]byte("HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"), []byte("y"))
	f.Fuzz(func(t *testing.T, b, element []byte) {
		h, err := Check(bytes.Clone(b))
		if err != nil {
			return
		}
		_, before := h.Count()
		h, _, err = h.Add(element, 3000)
		if before == nil && err != nil {
			t.Fatalf("right before, but %v", err)
		}
		if _, after := h.Count(); before == nil && after != nil {
			t.Fatalf("right before, but after Add %v", after)
		}
		_ = h.Runs(func(byte, int, bool) {})
		_, _ = h.Dense()
	})
}
