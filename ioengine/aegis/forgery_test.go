package aegis

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// flipBit returns b with bit i inverted.
func flipBit(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i/8] ^= 1 << (i % 8)
	return b
}

func TestOneFlippedBitIsRejected(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, v := range variants {
			for _, n := range []int{1, 15, 32, 77, 128, 300} {
				m := randomMessage(r, v, n, 45)
				c := New(v, m.key)
				reject := func(what string, bit int, nonce, sealed, tag, ad []byte) {
					t.Helper()
					dst := bytes.Repeat([]byte{0xa5}, n)
					if err := c.Open(dst, nonce, sealed, tag, ad); err != ErrOpen {
						t.Fatalf("%v, %d bytes: bit %d of %s flipped gives %v", v, n, bit, what, err)
					}
					if !bytes.Equal(dst, make([]byte, n)) {
						t.Fatalf("%v, %d bytes: bit %d of %s flipped leaves %x in dst", v, n, bit, what, dst)
					}
				}
				for i := range 8 * len(m.nonce) {
					reject("the nonce", i, flipBit(m.nonce, i), m.sealed, m.tag, m.ad)
				}
				for i := range 8 * len(m.sealed) {
					reject("the ciphertext", i, m.nonce, flipBit(m.sealed, i), m.tag, m.ad)
				}
				for i := range 8 * len(m.tag) {
					reject("the tag", i, m.nonce, m.sealed, flipBit(m.tag, i), m.ad)
				}
				for i := range 8 * len(m.ad) {
					reject("the AD", i, m.nonce, m.sealed, m.tag, flipBit(m.ad, i))
				}
				// Lengths are authenticated: neither zeros nor bytes may move between AD and message.
				reject("AD longer by a zero; none", 0, m.nonce, m.sealed, m.tag, append(bytes.Clone(m.ad), 0))
				reject("AD shorter; none", 0, m.nonce, m.sealed, m.tag, m.ad[:len(m.ad)-1])
			}
		}
	})
}

func TestOneFlippedBitOfMACIsRejected(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		for _, v := range variants {
			m := randomMessage(r, v, 200, 0)
			c := New(v, m.key)
			if err := c.VerifyMAC(m.nonce, m.plain, m.macOfText); err != nil {
				t.Fatal(err)
			}
			for i := range 8 * len(m.plain) {
				if err := c.VerifyMAC(m.nonce, flipBit(m.plain, i), m.macOfText); err != ErrOpen {
					t.Fatalf("%v: bit %d of the data flipped gives %v", v, i, err)
				}
			}
			for i := range 8 * len(m.macOfText) {
				if err := c.VerifyMAC(m.nonce, m.plain, flipBit(m.macOfText, i)); err != ErrOpen {
					t.Fatalf("%v: bit %d of the tag flipped gives %v", v, i, err)
				}
			}
		}
	})
}

// A message sealed under one variant or tag length is none under another.
func TestVariantsAndTagLengthsAreApart(t *testing.T) {
	key, nonce, plain := make([]byte, KeySize), make([]byte, NonceSize), make([]byte, 300)
	dst, tag := make([]byte, len(plain)), make([]byte, TagSize256)
	New(AEGIS128L, key).Seal(dst, tag, nonce, plain, nil)
	if err := New(AEGIS128X4, key).Open(make([]byte, len(plain)), nonce, dst, tag, nil); err != ErrOpen {
		t.Errorf("AEGIS-128X4 opens what AEGIS-128L sealed: %v", err)
	}
	if err := New(AEGIS128L, key).Open(make([]byte, len(plain)), nonce, dst, tag[:TagSize128], nil); err != ErrOpen {
		t.Errorf("half of a 256-bit tag passes for a 128-bit one: %v", err)
	}
}

// Hostile input of any length is refused without a panic.
func TestAEADRefusesShortInput(t *testing.T) {
	for _, size := range []int{TagSize128, TagSize256} {
		a, err := NewAEAD(AEGIS128L, make([]byte, KeySize), size)
		if err != nil {
			t.Fatal(err)
		}
		for n := range size + 2 {
			if _, err := a.Open(nil, make([]byte, NonceSize), make([]byte, n), nil); err != ErrOpen {
				t.Errorf("%d bytes give %v, want ErrOpen", n, err)
			}
		}
	}
}
