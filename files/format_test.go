package files

import (
	"bytes"
	"testing"
)

func FuzzAttrs(f *testing.F) {
	for _, a := range []attrs{{}, {begun: 1, committed: 2}, {begun: 5, committed: 5, meta: []Pair{{[]byte("k"), []byte("v")}, {[]byte(""), nil}}}} {
		b, err := a.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(b, "content"...))
	}
	f.Add([]byte("\x01\x00\xff\xff\x18\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, rest, err := decodeAttrs(b)
		if err != nil {
			return
		}
		back, err := a.encode()
		if err != nil || !bytes.Equal(append(back, rest...), b) {
			t.Errorf("%x came back as %x and %x, %v", b, back, rest, err)
		}
	})
}

func FuzzUploadKeys(f *testing.F) {
	f.Add((&uploadKey{id: 7, size: -1, begun: 5, chunk: 4096, name: []byte("n")}).encode())
	f.Add((&uploadKey{id: 1 << 63, size: sizeMax, name: bytes.Repeat([]byte("n"), NameMax)}).encode())
	f.Add((&pieceKey{id: 9, number: 3, offset: 10, length: 20}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		k, p, err := decodeUploadKey(b)
		switch {
		case err != nil:
		case k != nil && !bytes.Equal(k.encode(), b), p != nil && !bytes.Equal(p.encode(), b):
			t.Errorf("%x came back otherwise", b)
		case (k == nil) == (p == nil):
			t.Errorf("%x is neither or both", b)
		}
	})
}

func TestIDs(t *testing.T) {
	for _, id := range []ID{1, 0xabcdef, 1<<64 - 1} {
		if got, ok := ParseID([]byte(id.String())); !ok || got != id {
			t.Errorf("%v came back as %v", id, got)
		}
	}
	for _, s := range []string{"", "0000000000000000", "000000000000000g", "00000000000000001", "-000000000000001"} {
		if id, ok := ParseID([]byte(s)); ok {
			t.Errorf("%q is %v", s, id)
		}
	}
}
