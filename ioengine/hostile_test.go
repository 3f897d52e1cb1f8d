package ioengine

import (
	"bytes"
	"errors"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

// hostile are what a device can do to a blob of three chunks at block 0, and a second blob, older, at block 500.
var hostile = map[string]func(*memdev.Device){
	"a bit of a chunk":          func(d *memdev.Device) { d.FlipBit(33, 12345) },
	"the last bit":              func(d *memdev.Device) { d.FlipBit(64, 8*100-1) },
	"two chunks swapped":        func(d *memdev.Device) { swap(d, 0, 32) },
	"another blob's chunk":      func(d *memdev.Device) { swap(d, 32, 532) },
	"half a chunk from another": func(d *memdev.Device) { d.Poke(40, d.Peek(540)) },
	"zeros":                     func(d *memdev.Device) { d.Poke(33, make([]byte, device.BlockSize)) },
}

func swap(d *memdev.Device, a, b device.LBA) {
	for i := range device.LBA(32) {
		d.Swap(a+i, b+i)
	}
}

func TestTamperedChunksAreFoundAndNothingOfThemIsReleased(t *testing.T) {
	for name, attack := range hostile {
		for _, suite := range []string{SuiteAEGIS, SuiteAESGCM} {
			t.Run(suite+"/"+name, func(t *testing.T) {
				r := newRig(t, memdev.Options{}, 5, Options{})
				defer r.close()
				data := r.bytes(2*chunkTest + 100)
				r.write(r.key(suite, 2), r.bytes(len(data)), Extent{500, 65})
				tags := r.write(r.key(suite, 1), data, Extent{0, 65})
				attack(r.dev)
				got, err := r.read(r.key(suite, 1), tags, len(data), Extent{0, 65})
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("read: %v", err)
				}
				for at := 0; at < len(data); at += chunkTest {
					end := min(at+chunkTest, len(data))
					if !bytes.Equal(got[at:end], data[at:end]) && !bytes.Equal(got[at:end], make([]byte, end-at)) {
						t.Errorf("chunk at byte %d was released unverified", at)
					}
				}
			})
		}
	}
}

func TestAWrongKeyTagLengthOrIdentityIsFound(t *testing.T) {
	r := newRig(t, memdev.Options{}, 5, Options{})
	defer r.close()
	data := r.bytes(5000)
	tags := r.write(r.key(SuiteAEGIS, 1), data, Extent{0, 2})
	other, err := NewKey(SuiteAEGIS, bytes.Repeat([]byte{1}, KeySize(SuiteAEGIS)), Identity{Blob: [32]byte{1}, Kind: 'U', Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	wrong := []Tag{tags[0]}
	wrong[0][7] ^= 1
	for name, read := range map[string]func() error{
		"key":      func() error { _, err := r.read(r.key(SuiteAEGIS, 2), tags, len(data), Extent{0, 2}); return err },
		"identity": func() error { _, err := r.read(other, tags, len(data), Extent{0, 2}); return err },
		"tag":      func() error { _, err := r.read(r.key(SuiteAEGIS, 1), wrong, len(data), Extent{0, 2}); return err },
		"length":   func() error { _, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data)-1, Extent{0, 2}); return err },
	} {
		if err := read(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("wrong %s: %v", name, err)
		}
	}
	if _, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data), Extent{0, 2}); err != nil {
		t.Error(err)
	}
}

func TestAReadThatNeverHappenedIsNotServedFromTheBuffer(t *testing.T) {
	r := newRig(t, memdev.Options{}, guarantee, Options{Depth: 1})
	defer r.close()
	data := r.bytes(chunkTest)
	x := Extent{0, 32}
	tags := r.write(r.key(SuiteAEGIS, 1), data, x) // the buffer still holds the chunk
	r.dev.SetFault(memdev.Nth(device.OpRead, 1, memdev.Fault{Land: memdev.LandNone}))
	if _, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data), x); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a read that was reported and never done: %v", err)
	}
	if got, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data), x); err != nil || !bytes.Equal(got, data) {
		t.Fatal(err)
	}
}
