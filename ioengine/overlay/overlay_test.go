package overlay_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/ioengine/overlay"
)

// do runs requests and returns their errors by token.
func do(t *testing.T, q device.Queue, reqs ...device.Request) map[uint64]error {
	t.Helper()
	if n, err := q.Submit(reqs); n != len(reqs) || err != nil {
		t.Fatalf("%d of %d accepted: %v", n, len(reqs), err)
	}
	got := map[uint64]error{}
	for len(got) < len(reqs) {
		out := make([]device.Completion, 8)
		n, err := q.Wait(out, 20*time.Second)
		if n == 0 || err != nil {
			t.Fatalf("%d completions: %v", n, err)
		}
		for _, c := range out[:n] {
			got[c.Token] = c.Err
		}
	}
	return got
}

func TestWritesStayAboveTheDevice(t *testing.T) {
	below := memdev.New(memdev.Options{Blocks: 8})
	for i := range 8 {
		below.Poke(device.LBA(i), bytes.Repeat([]byte{byte(i + 1)}, device.BlockSize))
	}
	d, err := overlay.New(below)
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.NewQueue(8)
	if err != nil {
		t.Fatal(err)
	}
	buf := func(n device.BlockCount, fill byte) []byte {
		b, err := d.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		copy(b, bytes.Repeat([]byte{fill}, len(b)))
		return b
	}
	w, far := buf(2, 0xaa), buf(1, 0xbb)
	got := do(t, q, device.Request{Op: device.OpWrite, LBA: 3, Buf: w, Through: true, Token: 1},
		device.Request{Op: device.OpWrite, LBA: 1000, Buf: far, Token: 2}, device.Request{Op: device.OpFlush, Token: 3},
		device.Request{Op: device.OpTrim, LBA: 0, Count: 8, Token: 4})
	for token, err := range got {
		if err != nil {
			t.Errorf("request %d: %v", token, err)
		}
	}
	r, edge, above := buf(6, 0), buf(4, 0), buf(2, 0x77)
	do(t, q, device.Request{Op: device.OpRead, LBA: 0, Buf: r, Token: 1}, device.Request{Op: device.OpRead, LBA: 6, Buf: edge, Token: 2},
		device.Request{Op: device.OpRead, LBA: 999, Buf: above, Token: 3})
	for name, c := range map[string]struct {
		b    []byte
		want []byte
	}{"over what was written": {r, []byte{1, 2, 3, 0xaa, 0xaa, 6}}, "over the end": {edge, []byte{7, 8, 0, 0}}, "above the end": {above, []byte{0, 0xbb}}} {
		for i, want := range c.want {
			if block := c.b[i*device.BlockSize:][:device.BlockSize]; !bytes.Equal(block, bytes.Repeat([]byte{want}, device.BlockSize)) {
				t.Errorf("%s: block %d is %x, want %x", name, i, block[0], want)
			}
		}
	}
	if done, err := d.Reserve(1 << 20); !done || err != nil {
		t.Errorf("reserve: %v, %v", done, err)
	}
	if n, err := q.Submit([]device.Request{{Op: device.OpWrite, LBA: 1 << 40, Buf: far}}); n != 0 || !errors.Is(err, device.ErrBounds) {
		t.Errorf("far outside: %d, %v", n, err)
	}
	for i := range 8 {
		if !bytes.Equal(below.Peek(device.LBA(i)), bytes.Repeat([]byte{byte(i + 1)}, device.BlockSize)) {
			t.Errorf("block %d below was changed", i)
		}
	}
	if err := errors.Join(q.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
