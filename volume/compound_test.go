package volume

import (
	"bytes"
	"testing"

	"cvmstore/ioengine"
)

// compoundOf makes a compound without a volume.
func compoundOf(attrs string) *Blob {
	part := func(life byte, size int64, tree bool) *Blob {
		b := &Blob{size: size, gen: 3, life: [32]byte{life}, chunkLog: 12, tree: tree}
		b.extents = []extent{{10, b.blocks() - 1}, {900, 1}}
		b.tags = make([]ioengine.Tag, b.tagCount())
		for i := range b.tags {
			b.tags[i][0] = byte(i)
		}
		return b
	}
	x, y := part(1, 300*4096, true), part(2, 5000, true)
	c := &compound{attrs: []byte(attrs), parts: []*Blob{x, y}, pieces: []CompoundPiece{{x, 100, 5000}, {y, 0, 5000}, {x, 5000, 300 * 4096}}}
	b := &Blob{gen: 4, life: [32]byte{9}, compound: c}
	for _, p := range c.pieces {
		b.size += p.To - p.From
	}
	return b
}

func pointerOf(b *Blob) []byte {
	p := make([]byte, b.PointerSize())
	b.PutPointer(p)
	return p
}

// FuzzCompound: whatever a pointer says, it is refused or comes back as it was.
func FuzzCompound(f *testing.F) {
	for _, attrs := range []string{"", "some attributes"} {
		f.Add(pointerOf(compoundOf(attrs)))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		raw, err := decodeCompound(p)
		if err != nil {
			return
		}
		b := &raw.Blob
		b.compound.parts = raw.parts
		for i, n := range raw.of {
			b.compound.pieces[i].Blob = raw.parts[n]
		}
		if got := pointerOf(b); !bytes.Equal(got, p) {
			t.Errorf("%x came back as %x", p, got)
		}
	})
}

// Each byte of a pointer changed, and each length cut off, is refused or means something else; nothing breaks.
func TestDamagedCompoundPointers(t *testing.T) {
	good := pointerOf(compoundOf("attributes"))
	if _, err := decodeCompound(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if _, err := decodeCompound(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a pointer", n, len(good))
		}
		bad := bytes.Clone(good)
		bad[n] ^= 0xff
		_, _ = decodeCompound(bad)
	}
	if _, err := decodeCompound(append(bytes.Clone(good), 0)); err == nil {
		t.Error("a byte too many is not noticed")
	}
}
