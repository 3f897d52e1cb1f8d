package aegis

import (
	"bytes"
	"testing"
)

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}

func TestMisusePanics(t *testing.T) {
	key, nonce, tag := make([]byte, KeySize), make([]byte, NonceSize), make([]byte, TagSize128)
	mustPanic(t, "New with a short key", func() { New(AEGIS128L, key[:15]) })
	mustPanic(t, "New with a long key", func() { New(AEGIS128L, make([]byte, 17)) })
	mustPanic(t, "New without a variant", func() { New(0, key) })
	mustPanic(t, "New with an unknown variant", func() { New(3, key) })
	mustPanic(t, "the zero Cipher", func() { new(Cipher).Seal(nil, tag, nonce, nil, nil) })
	buf := make([]byte, 512)
	for _, v := range variants {
		c := New(v, key)
		type call struct{ dst, tag, nonce, src, ad []byte }
		for what, x := range map[string]call{
			"a short nonce":                     {nil, tag, nonce[:12], nil, nil},
			"a tag of 8 bytes":                  {nil, tag[:8], nonce, nil, nil},
			"no tag":                            {nil, nil, nonce, nil, nil},
			"dst longer than src":               {buf[:11], tag, nonce, make([]byte, 10), nil},
			"dst shorter than src":              {buf[:10], tag, nonce, make([]byte, 11), nil},
			"dst one byte after src":            {buf[1:101], tag, nonce, buf[:100], nil},
			"dst one byte before src":           {buf[:100], tag, nonce, buf[1:101], nil},
			"the last byte of src first in dst": {buf[99:199], tag, nonce, buf[:100], nil},
			"ad inside dst":                     {buf[:100], tag, nonce, make([]byte, 100), buf[50:60]},
			"tag inside dst":                    {buf[:100], buf[90:106], nonce, make([]byte, 100), nil},
		} {
			mustPanic(t, "Seal with "+what, func() { c.Seal(x.dst, x.tag, x.nonce, x.src, x.ad) })
			mustPanic(t, "Open with "+what, func() { _ = c.Open(x.dst, x.nonce, x.src, x.tag, x.ad) })
		}
		mustPanic(t, "MAC with a short nonce", func() { c.MAC(tag, nonce[:15], nil) })
		mustPanic(t, "VerifyMAC with a short tag", func() { _ = c.VerifyMAC(nonce, nil, tag[:15]) })
		// Neighbours do not overlap.
		c.Seal(buf[:100], buf[100:116], nonce, buf[200:300], buf[116:200])
	}
}

func TestAEADMisuse(t *testing.T) {
	if _, err := NewAEAD(AEGIS128L, make([]byte, 32), TagSize128); err != KeySizeError(32) {
		t.Errorf("a key of 32 bytes gives %v", err)
	}
	if _, err := NewAEAD(AEGIS128L, make([]byte, 16), 12); err != TagSizeError(12) {
		t.Errorf("a tag of 12 bytes gives %v", err)
	}
	a, err := NewAEAD(AEGIS128X4, make([]byte, KeySize), TagSize256)
	if err != nil {
		t.Fatal(err)
	}
	if a.NonceSize() != NonceSize || a.Overhead() != TagSize256 {
		t.Errorf("nonce %d, overhead %d", a.NonceSize(), a.Overhead())
	}
	nonce, buf := make([]byte, NonceSize), make([]byte, 512)
	mustPanic(t, "Seal with a short nonce", func() { a.Seal(nil, nonce[:12], nil, nil) })
	mustPanic(t, "Open with a short nonce", func() { _, _ = a.Open(nil, nonce[:12], buf, nil) })
	mustPanic(t, "Seal to one byte after the plaintext", func() { a.Seal(buf[1:1], nonce, buf[:100], nil) })
	mustPanic(t, "Open to one byte after the ciphertext", func() { _, _ = a.Open(buf[1:1], nonce, buf[:100], nil) })
	mustPanic(t, "Seal over the AD", func() { a.Seal(buf[:0], nonce, make([]byte, 100), buf[10:20]) })
	mustPanic(t, "Open over the AD", func() { _, _ = a.Open(buf[:0], nonce, make([]byte, 100), buf[10:20]) })
}

func TestAEADAppendsAndWorksInPlace(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		a, err := NewAEAD(AEGIS128L, make([]byte, KeySize), TagSize128)
		if err != nil {
			t.Fatal(err)
		}
		nonce, ad := make([]byte, NonceSize), []byte("ad")
		plain := bytes.Repeat([]byte("plain"), 30)
		sealed := a.Seal([]byte("head"), nonce, plain, ad)
		if !bytes.HasPrefix(sealed, []byte("head")) || len(sealed) != 4+len(plain)+a.Overhead() {
			t.Fatalf("sealed %d bytes: %x", len(sealed), sealed)
		}
		buf := append(make([]byte, 0, len(plain)+a.Overhead()), plain...)
		inPlace := a.Seal(buf[:0], nonce, buf, ad)
		if &inPlace[0] != &buf[0] || !bytes.Equal(inPlace, sealed[4:]) {
			t.Fatal("sealing in place gives something else")
		}
		opened, err := a.Open(inPlace[:0], nonce, inPlace, ad)
		if err != nil || !bytes.Equal(opened, plain) {
			t.Fatalf("opening in place gives %x, %v", opened, err)
		}
		sealed[10] ^= 1
		room := bytes.Repeat([]byte{0xa5}, len(plain))
		if got, err := a.Open(room[:0], nonce, sealed[4:], ad); err != ErrOpen || got != nil {
			t.Fatalf("a forged message opens to %x, %v", got, err)
		}
		if !bytes.Equal(room, make([]byte, len(room))) {
			t.Error("a forged message leaves bytes in the capacity of dst")
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		key, nonce, ad := make([]byte, KeySize), make([]byte, NonceSize), make([]byte, 33)
		src, dst := make([]byte, 1000), make([]byte, 1000, 1100)
		for _, v := range variants {
			for _, size := range []int{TagSize128, TagSize256} {
				tag := make([]byte, size)
				a, err := NewAEAD(v, key, size)
				if err != nil {
					t.Fatal(err)
				}
				joined := a.Seal(nil, nonce, src, ad)
				if n := testing.AllocsPerRun(100, func() {
					var c Cipher
					c.Init(v, key)
					c.Seal(dst, tag, nonce, src, ad)
					if err := c.Open(dst, nonce, dst, tag, ad); err != nil {
						t.Fatal(err)
					}
					tag[0] ^= 1
					if err := c.Open(dst, nonce, src, tag, ad); err != ErrOpen {
						t.Fatal(err)
					}
					c.MAC(tag, nonce, src)
					if err := c.VerifyMAC(nonce, src, tag); err != nil {
						t.Fatal(err)
					}
					a.Seal(dst[:0], nonce, src, ad)
					if _, err := a.Open(dst[:0], nonce, joined, ad); err != nil {
						t.Fatal(err)
					}
				}); n != 0 {
					t.Errorf("%v, tag %d: %v allocations", v, size, n)
				}
			}
		}
	})
}
