package xts

import (
	"bytes"
	"crypto/aes"
	"math/rand/v2"
	"testing"

	"golang.org/x/crypto/xts"
)

func TestItIsTheLibrarysXTS(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	for n := range uint64(50) {
		key, plain := make([]byte, KeySize), make([]byte, Size)
		_, _ = rng.Read(key)
		_, _ = rng.Read(plain)
		c, err := New(key)
		if err != nil {
			t.Fatal(err)
		}
		twin, err := xts.NewCipher(aes.NewCipher, key)
		if err != nil {
			t.Fatal(err)
		}
		sector := n * 0x123456789abcd
		got, want, back := make([]byte, Size), make([]byte, Size), make([]byte, Size)
		c.Encrypt(got, plain, sector)
		twin.Encrypt(want, plain, sector)
		c.Decrypt(back, want, sector)
		if !bytes.Equal(got, want) || !bytes.Equal(back, plain) {
			t.Fatalf("sector %#x differs", sector)
		}
	}
}

func BenchmarkEncrypt(b *testing.B) {
	c, err := New(make([]byte, KeySize-1, KeySize)[:KeySize])
	if err != nil {
		b.Fatal(err)
	}
	src, dst := make([]byte, Size), make([]byte, Size)
	b.SetBytes(Size)
	for b.Loop() {
		c.Encrypt(dst, src, 5)
	}
}
