package keyspace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"cvmstore/volume"
)

func hexBytes(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden are the bytes of one record of each kind, version 1 of the format.
var golden = []struct {
	kind volume.Kind
	hex  string
}{
	{KindPut, "0300" + "01" + "02" + "03000000" + "0068e5cf8b010000" + "6b6579" + "76616c7565"},
	{KindExpire, "0300" + "0000" + "03000000" + "0068e5cf8b010000" + "6b6579"},
	{KindDelete, "0300" + "0000" + "03000000" + "6b6579"},
	{KindFlush, "0300" + "000000000000"},
	{KindSwap, "0300" + "0500" + "0400" + "0200"},
}

func goldenRecord() record {
	return record{table: 3, typ: TypeString, encoding: 2, expiry: 1700000000000, key: []byte("key")}
}

func TestRecordsHaveTheirGoldenBytes(t *testing.T) {
	for _, g := range golden {
		want := hexBytes(t, g.hex)
		got := make([]byte, len(want))
		r := goldenRecord()
		switch g.kind {
		case KindPut:
			copy(encodePut(got, &r), "value")
		case KindExpire:
			encodeExpire(got, &r)
		case KindDelete:
			encodeDelete(got, &r)
		case KindFlush:
			encodeFlush(got, r.table)
		case KindSwap:
			encodeSwap(got, &swap{db: [2]uint16{3, 4}, table: [2]uint16{5, 2}})
		}
		if !bytes.Equal(got, want) {
			t.Errorf("kind %d: %x, want %x", g.kind, got, want)
		}
	}
}

// decodeAny decodes and encodes again.
func decodeAny(kind volume.Kind, p []byte) (again []byte, err error) {
	again = make([]byte, len(p))
	var r record
	switch kind {
	case KindPut:
		if r, err = decodePut(p); err == nil {
			copy(encodePut(again, &r), r.value)
		}
	case KindExpire:
		if r, err = decodeExpire(p); err == nil {
			encodeExpire(again, &r)
		}
	case KindDelete:
		if r, err = decodeDelete(p); err == nil {
			encodeDelete(again, &r)
		}
	case KindFlush:
		var table uint16
		if table, err = decodeFlush(p); err == nil {
			encodeFlush(again, table)
		}
	case KindSwap:
		var sw swap
		if sw, err = decodeSwap(p); err == nil {
			encodeSwap(again, &sw)
		}
	default:
		err = errRecord
	}
	return again, err
}

func FuzzRecords(f *testing.F) {
	for _, g := range golden {
		f.Add(byte(g.kind), hexBytes(f, g.hex))
	}
	f.Fuzz(func(t *testing.T, kind byte, p []byte) {
		again, err := decodeAny(volume.Kind(kind), p)
		if err == nil && !bytes.Equal(again, p) {
			t.Fatalf("kind %d: %x became %x", kind, p, again)
		}
		if err != nil && !errors.Is(err, errRecord) {
			t.Fatal(err)
		}
	})
}

// Each range of bytes that has only some allowed values refuses others.
func TestMalformedRecordsAreRefused(t *testing.T) {
	for _, c := range []struct {
		why  string
		kind volume.Kind
		at   int
		b    byte
	}{
		{"type 0", KindPut, 2, 0},
		{"encoding above 15", KindPut, 3, 16},
		{"key longer than the record", KindPut, 4, 9},
		{"key beyond KeyMax", KindPut, 7, 1},
		{"negative expiry", KindPut, 15, 0x80},
		{"reserved byte", KindExpire, 2, 1},
		{"reserved byte", KindExpire, 3, 1},
		{"key shorter than the rest", KindExpire, 4, 2},
		{"negative expiry", KindExpire, 15, 0xff},
		{"reserved byte", KindDelete, 2, 1},
		{"reserved byte", KindDelete, 3, 1},
		{"key shorter than the rest", KindDelete, 4, 2},
		{"reserved byte", KindFlush, 2, 1},
		{"reserved byte", KindFlush, 7, 1},
		{"one database", KindSwap, 4, 3},
		{"one table", KindSwap, 6, 5},
	} {
		for _, g := range golden {
			if g.kind != c.kind {
				continue
			}
			p := hexBytes(t, g.hex)
			p[c.at] = c.b
			if _, err := decodeAny(c.kind, p); !errors.Is(err, errRecord) {
				t.Errorf("kind %d, byte %d = %d (%s): %v", c.kind, c.at, c.b, c.why, err)
			}
			for n := range len(p) - 5 { // the golden value has 5 bytes; a shorter value is a value
				if _, err := decodeAny(c.kind, p[:n]); err == nil {
					t.Errorf("kind %d cut to %d bytes passes", c.kind, n)
				}
			}
		}
	}
}
