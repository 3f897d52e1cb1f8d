package aegis

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

var variants = []Variant{AEGIS128L, AEGIS128X4}

// message is one input with what the portable implementation makes of it.
type message struct {
	variant        Variant
	key, nonce     []byte
	ad, plain      []byte
	sealed         []byte
	tag, macOfText []byte
}

// portableMessage computes the answers without looking at which implementation is in force.
func portableMessage(v Variant, key, nonce, ad, plain []byte, tagSize int) message {
	m := message{variant: v, key: key, nonce: nonce, ad: ad, plain: plain}
	m.sealed, m.tag, m.macOfText = make([]byte, len(plain)), make([]byte, tagSize), make([]byte, tagSize)
	c := New(v, key)
	c.cryptPortable(m.sealed, m.tag, nonce, plain, ad, false)
	c.macPortable(m.macOfText, nonce, plain)
	return m
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func randomMessage(r *rand.Rand, v Variant, n, adLen int) message {
	return portableMessage(v, randomBytes(r, KeySize), randomBytes(r, NonceSize), randomBytes(r, adLen), randomBytes(r, n), 16+16*r.IntN(2))
}

// place copies b to the given offset from a 64-byte boundary, between canaries.
func place(b []byte, offset int) (at []byte, whole []byte) {
	const margin = 128
	whole = bytes.Repeat([]byte{0xc9}, margin+64+len(b)+margin)
	start := margin
	for address(whole[start:])%64 != uintptr(offset) {
		start++
	}
	at = whole[start : start+len(b) : start+len(b)]
	copy(at, b)
	return at, whole
}

// checkMessage seals, opens and authenticates m with the implementation in force, with src and dst at the offsets, and
// fails if anything differs from m or if a byte beside dst changes.
func checkMessage(t *testing.T, m message, srcOffset, dstOffset int) {
	t.Helper()
	where := func() string {
		return fmt.Sprintf("%v, %s, %d bytes, ad %d, tag %d, src at %d, dst at %d", m.variant, Implementation(), len(m.plain), len(m.ad), len(m.tag), srcOffset, dstOffset)
	}
	c := New(m.variant, m.key)
	tag := make([]byte, len(m.tag))
	src, _ := place(m.plain, srcOffset)
	dst, whole := place(make([]byte, len(m.plain)), dstOffset)
	want, start := bytes.Clone(whole), int(address(dst)-address(whole))
	expect := func(what string, content []byte, err error) {
		t.Helper()
		copy(want[start:], content)
		if err != nil || !bytes.Equal(whole, want) {
			t.Fatalf("%s: %s differs: error %v", where(), what, err)
		}
	}
	c.Seal(dst, tag, m.nonce, src, m.ad)
	expect("the ciphertext", m.sealed, nil)
	if !bytes.Equal(tag, m.tag) {
		t.Fatalf("%s: tag %x, want %x", where(), tag, m.tag)
	}
	copy(src, m.sealed)
	expect("the plaintext", m.plain, c.Open(dst, m.nonce, src, m.tag, m.ad))
	copy(dst, m.plain)
	c.Seal(dst, tag, m.nonce, dst, m.ad)
	expect("the ciphertext in place", m.sealed, nil)
	expect("the plaintext in place", m.plain, c.Open(dst, m.nonce, dst, m.tag, m.ad))
	c.MAC(tag, m.nonce, dst)
	if !bytes.Equal(tag, m.macOfText) {
		t.Fatalf("%s: MAC %x, want %x", where(), tag, m.macOfText)
	}
}

// checkMessages checks messages under every implementation; their answers are computed once.
func checkMessages(t *testing.T, seed uint64, messages []message) {
	eachImplementation(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		for _, m := range messages {
			checkMessage(t, m, r.IntN(64), r.IntN(64))
		}
	})
}

func TestAgreesOnEveryShortLength(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var messages []message
	for _, v := range variants {
		for n := range 600 {
			messages = append(messages, randomMessage(r, v, n, r.IntN(300)))
		}
	}
	checkMessages(t, 1, messages)
}

func TestAgreesOnEveryShortADLength(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var messages []message
	for _, v := range variants {
		for n := range 600 {
			messages = append(messages, randomMessage(r, v, r.IntN(300), n))
		}
	}
	checkMessages(t, 2, messages)
}

func TestAgreesOnRandomLengths(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	r := rand.New(rand.NewPCG(5, 6))
	var messages []message
	for _, v := range variants {
		for range rounds {
			messages = append(messages, randomMessage(r, v, r.IntN(5001), r.IntN(1000)))
		}
		for _, n := range []int{4095, 4096, 4097, 8192, 70001} {
			messages = append(messages, randomMessage(r, v, n, n))
		}
	}
	checkMessages(t, 3, messages)
}

func TestAgreesAtEveryAlignment(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, v := range variants {
			m := randomMessage(r, v, 401, 7)
			sparse := testing.Short() || Implementation() == "portable" // which gives the answers as well
			for srcOffset := range 64 {
				for dstOffset := range 64 {
					if sparse && (srcOffset+dstOffset)%7 != 0 {
						continue
					}
					checkMessage(t, m, srcOffset, dstOffset)
				}
			}
		}
	})
}

func FuzzImplementationsAgree(f *testing.F) {
	f.Add(uint8(1), uint8(0), uint8(0), uint8(0), make([]byte, 32), []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, variant, tagSize, srcOffset, dstOffset uint8, secret, ad, plain []byte) {
		keys := append(bytes.Clone(secret), make([]byte, KeySize+NonceSize)...)
		m := portableMessage(variants[variant%2], keys[:KeySize], keys[KeySize:KeySize+NonceSize], ad, plain, 16+16*int(tagSize%2))
		for _, name := range Implementations() {
			restore, err := Force(name)
			if err != nil {
				t.Fatal(err)
			}
			checkMessage(t, m, int(srcOffset%64), int(dstOffset%64))
			restore()
		}
	})
}

// The corpus runs with every go test; it must not get lost.
func TestFuzzCorpusIsThere(t *testing.T) {
	seeds, err := os.ReadDir("testdata/fuzz/FuzzImplementationsAgree")
	if err != nil || len(seeds) < 17 {
		t.Fatalf("%d seeds, error %v", len(seeds), err)
	}
}
