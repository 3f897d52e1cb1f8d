//go:build linux || darwin || freebsd

package aegis

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// newShared maps the same memory twice, as a hostile device would see it: what is written through one is read through
// the other, and the race detector does not know that they are one.
func newShared(t *testing.T, size int) (ours, theirs []byte) {
	t.Helper()
	fd, err := syscall.Open(t.TempDir()+"/shared", syscall.O_RDWR|syscall.O_CREAT, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*[]byte{&ours, &theirs} {
		b, err := syscall.Mmap(fd, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Munmap(b) })
		*m = b
	}
	return ours, theirs
}

// flipForever inverts bits of one word of b after the other and puts them back, until stop is closed.
func flipForever(b []byte, stop, stopped chan struct{}) {
	defer close(stopped)
	for i := 0; ; i = (i + 512 + 4) % (len(b) &^ 3) {
		select {
		case <-stop:
			return
		default:
		}
		word := (*uint32)(unsafe.Pointer(&b[i]))
		good := atomic.LoadUint32(word)
		for range 4 {
			atomic.StoreUint32(word, good^0x80808080)
			atomic.StoreUint32(word, good)
		}
		for range 200 { // most of the time the right bytes are there
			atomic.LoadUint32(word)
		}
	}
}

// A device flips bits of a valid ciphertext while Open reads it. Were a byte read twice, once for the plaintext and once
// for the tag, a flip in between would release a plaintext that was never sealed. So whenever Open returns nil, dst must
// be the plaintext that was sealed, and otherwise zero.
func TestOpenOfMemoryThatChanges(t *testing.T) {
	const size = 4096 + 100
	ours, theirs := newShared(t, size)
	eachImplementation(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(31, 32))
		for _, v := range variants {
			m := randomMessage(r, v, size, 20)
			c := New(v, m.key)
			copy(theirs, m.sealed)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go flipForever(theirs, stop, stopped)
			dst := make([]byte, size)
			opened, refused, naive := 0, 0, 0
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
				switch err := c.Open(dst, m.nonce, ours, m.tag, m.ad); {
				case err == nil:
					opened++
					if !bytes.Equal(dst, m.plain) {
						t.Fatalf("%v: Open released a plaintext that was never sealed", v)
					}
				default:
					refused++
					if !bytes.Equal(dst, make([]byte, size)) {
						t.Fatalf("%v: a refused plaintext is in dst", v)
					}
				}
				// To show that this test sees what it is for: verify first, then decrypt from the same memory.
				if c.Open(dst, m.nonce, ours, m.tag, m.ad) == nil {
					var tag [TagSize256]byte
					c.open(dst, tag[:], m.nonce, ours, m.ad)
					if !bytes.Equal(dst, m.plain) {
						naive++
					}
				}
			}
			close(stop)
			<-stopped
			t.Logf("%v: %d opened, %d refused; reading twice would have released %d wrong plaintexts", v, opened, refused, naive)
		}
	})
}
