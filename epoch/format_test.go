package epoch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func sampleSlot() slot {
	s := slot{seq: 0x0102030405060708, rec: Record{
		Gen:     7,
		Current: State{Value: 1 << 33, Gen: 7},
		Before:  State{Value: 12345, Gen: 6},
	}}
	for i := range 32 {
		s.rec.Current.Tag[i] = byte(i)
		s.rec.Before.Tag[i] = byte(0x80 + i)
	}
	for i := range 16 {
		s.rec.Store[i] = byte(0xf0 + i)
	}
	return s
}

// A change that this test notices is a new format version: it must not change the golden file, but add one.
func TestSlotMatchesGoldenVector(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "slot-v1.bin"))
	if err != nil {
		t.Fatal(err)
	}
	var buf [slotBytes]byte
	encodeSlot(buf[:], sampleSlot())
	if !bytes.Equal(buf[:], golden) {
		t.Errorf("the encoding of a slot changed")
	}
	if s, err := decodeSlot(golden); err != nil || s != sampleSlot() {
		t.Errorf("golden slot reads as %+v, %v", s, err)
	}
}

// reseal gives damaged bytes a valid checksum, so that the checks behind it are reached.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	encoded := append([]byte(nil), b[:offSum]...)
	sum := checksum(encoded)
	return append(encoded, sum[:]...)
}

func TestSlotRefusesDamage(t *testing.T) {
	var good [slotBytes]byte
	encodeSlot(good[:], sampleSlot())
	for i := range good {
		bad := good
		bad[i] ^= 0x40
		if _, err := decodeSlot(bad[:]); !errors.Is(err, errSlotDamaged) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	if _, err := decodeSlot(make([]byte, slotBytes)); !errors.Is(err, errSlotEmpty) {
		t.Errorf("a slot of zeros: %v", err)
	}
}

func TestSlotChecksEachField(t *testing.T) {
	var good [slotBytes]byte
	encodeSlot(good[:], sampleSlot())
	cases := []struct {
		name     string
		from, to int
		err      error
	}{
		{"magic", 0, offVersion, errSlotDamaged},
		{"version", offVersion, offReserved, errSlotVersion},
		{"reserved", offReserved, offStore, errSlotDamaged},
		{"tail", offTail, offSum, errSlotDamaged},
	}
	for _, c := range cases {
		for i := c.from; i < c.to; i++ {
			bad := good
			bad[i] ^= 0x40
			if _, err := decodeSlot(reseal(bad[:])); !errors.Is(err, c.err) {
				t.Fatalf("%s, byte %d: %v, want %v", c.name, i, err, c.err)
			}
		}
	}
	zero := good
	clear(zero[offSeq:offGen])
	if _, err := decodeSlot(reseal(zero[:])); !errors.Is(err, errSlotDamaged) {
		t.Errorf("sequence 0: %v", err)
	}
}

func FuzzSlot(f *testing.F) {
	var good [slotBytes]byte
	encodeSlot(good[:], sampleSlot())
	f.Add(good[:])
	f.Add(make([]byte, slotBytes))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) != slotBytes {
			return
		}
		for _, b := range [][]byte{in, reseal(in)} {
			s, err := decodeSlot(b)
			if err != nil {
				continue
			}
			var again [slotBytes]byte
			encodeSlot(again[:], s)
			if !bytes.Equal(again[:], b) {
				t.Fatalf("parse then encode is not the identity")
			}
		}
	})
}
