//go:build linux || darwin || freebsd

package aegis

import (
	"bytes"
	"math/rand/v2"
	"syscall"
	"testing"
)

// guarded is memory between two pages that cannot be touched.
type guarded struct{ inner []byte }

func newGuarded(t *testing.T, size int) guarded {
	t.Helper()
	page := syscall.Getpagesize()
	inner := (size + page - 1) / page * page
	whole, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(whole) })
	for _, guard := range [][]byte{whole[:page], whole[page+inner:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return guarded{whole[page : page+inner]}
}

// first and last return n bytes right behind the lower guard page and right before the upper one.
func (g guarded) first(n int) []byte { return g.inner[:n:n] }
func (g guarded) last(n int) []byte  { return g.inner[len(g.inner)-n:] }

// A read or write one byte outside of any buffer ends the test process.
func TestNothingOutsideTheBuffersIsTouched(t *testing.T) {
	const sizeMax = 5000
	src, dst, ad, small := newGuarded(t, sizeMax), newGuarded(t, sizeMax), newGuarded(t, sizeMax), newGuarded(t, 64)
	nonceAt, tagAt := small.first(NonceSize), func(n int) []byte { return small.last(n) }
	var lengths []int
	for n := range 520 {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, 1023, 1024, 1025, 4095, 4096, 4097, sizeMax)
	eachImplementation(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(21, 22))
		for _, v := range variants {
			for _, n := range lengths {
				adLen := lengths[r.IntN(400)]
				if n%2 == 0 {
					adLen = n // all lengths of AD as well
				}
				m := randomMessage(r, v, n, adLen)
				c := New(v, m.key)
				copy(nonceAt, m.nonce)
				tag := tagAt(len(m.tag))
				for _, end := range []func(guarded, int) []byte{guarded.first, guarded.last} {
					s, d, a := end(src, n), end(dst, n), end(ad, adLen)
					copy(s, m.plain)
					copy(a, m.ad)
					c.Seal(d, tag, nonceAt, s, a)
					if !bytes.Equal(d, m.sealed) || !bytes.Equal(tag, m.tag) {
						t.Fatalf("%v: sealed %d bytes wrong", v, n)
					}
					copy(s, m.sealed)
					if err := c.Open(d, nonceAt, s, tag, a); err != nil || !bytes.Equal(d, m.plain) {
						t.Fatalf("%v: opened %d bytes wrong: %v", v, n, err)
					}
					c.MAC(tag, nonceAt, d)
					if !bytes.Equal(tag, m.macOfText) {
						t.Fatalf("%v: MAC of %d bytes wrong", v, n)
					}
				}
			}
		}
	})
}
