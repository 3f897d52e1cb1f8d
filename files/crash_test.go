package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"cvmstore/files"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

// The crash matrix of files: a script of puts, replacements, an upload, its commit, a rename and deletes is run with a fault at
// its nth write or flush, for every n that it reaches; then the process is killed or the power fails. What comes back is the state
// after the last acknowledged step, or after the one that was under way: whole, never a mixture, and the volume works.

var errInjected = errors.New("injected")

// state is what there is: files, and of the upload what has come.
type state struct {
	files  map[string][]byte
	pieces string // spans of the upload; "none": there is no upload
}

type step struct {
	name string
	do   func(r *rig) error
	then func(s *state)
}

func copyState(s state) state {
	c := state{files: map[string][]byte{}, pieces: s.pieces}
	for k, v := range s.files {
		c.files[k] = v
	}
	return c
}

func script() []step {
	small, large, other := content(1, 700), content(2, 90_000), content(3, 50_000)
	var id files.ID
	set := func(name string, v []byte) func(*state) { return func(s *state) { s.files[name] = v } }
	return []step{
		{"put a small file", func(r *rig) error { return r.put("small", small) }, set("small", small)},
		{"stream a large one", func(r *rig) error { return r.stream("large", large) }, set("large", large)},
		{"replace it", func(r *rig) error { return r.stream("large", other) }, set("large", other)},
		{"begin an upload", func(r *rig) (err error) { id, err = r.begin("up", 90_000); return err }, func(s *state) { s.pieces = "[]" }},
		{"write its end", func(r *rig) error { return r.write(id, 60_000, large[60_000:]) }, func(s *state) { s.pieces = "[{60000 90000}]" }},
		{"write its front", func(r *rig) error { return r.write(id, 0, large[:60_000]) }, func(s *state) { s.pieces = "[{0 90000}]" }},
		{"commit it", func(r *rig) error { return r.end(id, true) }, func(s *state) { s.files["up"], s.pieces = large, "none" }},
		{"replace a large file by a small one", func(r *rig) error { return r.put("large", small) }, set("large", small)},
		{"rename over it", func(r *rig) error { return r.rename("up", "large") }, func(s *state) {
			s.files["large"] = s.files["up"]
			delete(s.files, "up")
		}},
		{"begin another", func(r *rig) (err error) { id, err = r.begin("x", -1); return err }, func(s *state) { s.pieces = "[]" }},
		{"write to it", func(r *rig) error { return r.write(id, 0, other) }, func(s *state) { s.pieces = "[{0 50000}]" }},
		{"abort it", func(r *rig) error { return r.end(id, false) }, func(s *state) { s.pieces = "none" }},
		{"delete", func(r *rig) error { return r.delete("large") }, func(s *state) { delete(s.files, "large") }},
	}
}

func TestCrashMatrix(t *testing.T) {
	for _, f := range []struct {
		name  string
		fault memdev.Fault
	}{
		{"lost", memdev.Fault{Err: errInjected, Land: memdev.LandNone}},
		{"landed but reported failed", memdev.Fault{Err: errInjected, Land: memdev.LandAll}},
		{"torn", memdev.Fault{Err: errInjected, Land: memdev.LandTorn}},
	} {
		t.Run(f.name, func(t *testing.T) {
			stride := 1
			if testing.Short() {
				stride = 5
			}
			last := 0
			for n := 1; crashAt(t, f.fault, n); n += stride {
				last = n
			}
			if last < 30 {
				t.Fatalf("the script has %d requests that could fail", last)
			}
		})
	}
}

// crashAt runs the script with the fault at its nth write or flush, to be killed after it, and to lose power. It reports whether the
// script had an nth one.
func crashAt(t *testing.T, fault memdev.Fault, n int) (reached bool) {
	t.Helper()
	for way := range uint64(2) {
		r := newRig(t, memdev.Options{Blocks: 900, Seed: uint64(n)}).open()
		count := 0
		r.dev.SetFault(func(q memdev.Request) memdev.Fault {
			if q.Op != device.OpRead {
				if count++; count == n {
					reached = true
					return fault
				}
			}
			return memdev.Fault{}
		})
		before := state{files: map[string][]byte{}, pieces: "none"}
		after := copyState(before)
		at := "the end"
		for _, s := range script() {
			after = copyState(before)
			s.then(&after)
			if err := s.do(r); err != nil {
				at = s.name
				break
			}
			before = after
		}
		r.dev.SetFault(nil)
		if way == 0 {
			r.dev.Kill()
			r.counter.Kill()
		} else {
			rng := rand.New(rand.NewPCG(way, uint64(n)))
			r.dev.PowerCut(rng)
			r.counter.PowerCut(rng)
		}
		for start := range 2 {
			if err := r.tryOpen(); err != nil {
				t.Fatalf("request %d (%s), way %d: start %d: %v", n, at, way, start, err)
			}
			differs := r.differs(before)
			if differs != "" {
				if d := r.differs(after); d != "" {
					t.Fatalf("request %d (%s), way %d: neither the state before (%s) nor after (%s)", n, at, way, differs, d)
				}
			}
			if err := r.stream("progress", content(9, 30_000)); err != nil {
				t.Fatalf("request %d (%s), way %d: no progress: %v", n, at, way, err)
			}
			if err := r.delete("progress"); err != nil {
				t.Fatal(err)
			}
			r.close()
		}
	}
	return reached
}

// differs says what is not as the state has it; "": nothing.
func (r *rig) differs(s state) string {
	for _, name := range []string{"small", "large", "up", "x"} {
		got, ok, err := r.read(name)
		want, exists := s.files[name]
		switch {
		case err != nil:
			return fmt.Sprintf("%s: %v", name, err)
		case ok != exists:
			return fmt.Sprintf("%s exists: %v", name, ok)
		case !bytes.Equal(got, want):
			return fmt.Sprintf("%s has other bytes", name)
		}
	}
	pieces := "none"
	if list := r.u.List(r.v.Now(), 0); len(list) > 0 {
		pieces = fmt.Sprint(list[0].Spans)
	}
	if pieces != s.pieces {
		return "the upload has " + pieces
	}
	return ""
}
