package dma

import (
	"bytes"
	"testing"
	"unsafe"
)

func TestMemoryIsZeroAlignedAndItsOwn(t *testing.T) {
	var all [][]byte
	for _, n := range []int{1, 4096, 5000, HugePage - 1, HugePage, HugePage + 4096, 3 * HugePage, 5*HugePage - 4096} {
		b, kind, err := Map(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) != n || cap(b) != n || kind == "" {
			t.Errorf("%d bytes: got %d, capacity %d, %q", n, len(b), cap(b), kind)
		}
		if !bytes.Equal(b, make([]byte, n)) {
			t.Errorf("%d bytes are not zero", n)
		}
		align := uintptr(4096)
		if kind != Small {
			align = HugePage
		}
		if at := uintptr(unsafe.Pointer(&b[0])); at%align != 0 {
			t.Errorf("%d bytes of %s at %#x", n, kind, at)
		}
		for i := range b {
			b[i] = byte(n)
		}
		all = append(all, b)
	}
	for _, b := range all {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(len(b))}, len(b))) {
			t.Errorf("%d bytes changed: mappings overlap", len(b))
		}
		if err := Unmap(b); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := Map(0); err == nil {
		t.Error("a mapping of nothing")
	}
}
