package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

const hostileChunks = 400 // two nodes

// where finds the blocks whose damage spoils a read, by trying: chunk 0 .. of the file.
func (r *rig) where(name string, from, n int) (list []device.LBA) {
	r.t.Helper()
	for lba := device.LBA(2); lba < 2000; lba++ {
		r.dev.FlipBit(lba, 77)
		_, err := r.part(name, from, n)
		r.dev.FlipBit(lba, 77)
		switch {
		case err == nil:
		case errors.Is(err, volume.ErrCorrupt):
			list = append(list, lba)
		default:
			r.t.Fatal(err)
		}
	}
	return list
}

// refused checks that the chunks from from up to to are refused, with the file's name and where, and that all others are as they were.
func (r *rig) refused(what, name string, want []byte, from, to int) {
	r.t.Helper()
	for n := 0; n*4096 < len(want); n += 7 {
		if n > from && n-7 < from {
			n = from
		}
		got, err := r.part(name, n*4096, 4096)
		switch bad := n >= from && n < to; {
		case bad && (!errors.Is(err, volume.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("file %q", name)) ||
			!strings.Contains(err.Error(), fmt.Sprintf("offset %d", n*4096))):
			r.t.Errorf("%s: chunk %d: %v", what, n, err)
		case !bad && (err != nil || !bytes.Equal(got, want[n*4096:n*4096+4096])):
			r.t.Errorf("%s: chunk %d, which nobody touched: %v", what, n, err)
		}
	}
	if got, _, err := r.read(name); from < to && (err == nil || len(got) > from*4096 || !bytes.Equal(got, want[:len(got)])) {
		r.t.Errorf("%s: the whole file gave %d bytes and %v", what, len(got), err)
	}
	ctx, cancel := limit()
	defer cancel()
	if err := r.s.Verify(ctx, []byte(name)); (err != nil) != (from < to) || err != nil && !strings.Contains(err.Error(), name) {
		r.t.Errorf("%s: verify says %v", what, err)
	}
}

// Chunks and nodes altered, torn, swapped within a file and between files, cut off, and put back from an older version of the same
// file: the reads below are refused with name and offset, all others are served.
func TestAHostileDevice(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 2000, History: true}).open()
	want, other := content(2, hostileChunks*4096), content(3, hostileChunks*4096)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(12) { // older versions, in all places that there are
		do(r.stream("f", content(10+i, hostileChunks*4096)))
	}
	do(r.stream("f", want))
	do(r.stream("g", other))
	r.close()
	r.open()
	blocks := func(name string, n int) device.LBA {
		t.Helper()
		list := r.where(name, n*4096, 4096)
		if len(list) == 0 {
			t.Fatalf("chunk %d of %s lies nowhere", n, name)
		}
		return list[0]
	}
	f0, f5, g5 := blocks("f", 0), blocks("f", 5), blocks("g", 5)
	if f5 != f0+5 {
		t.Fatalf("chunks 0 and 5 lie at %d and %d", f0, f5)
	}
	node := f0 + hostileChunks // the first of two
	for _, l := range []device.LBA{f5, node} {
		if h := r.dev.History(l); len(h) < 2 || bytes.Equal(h[0], r.dev.Peek(l)) {
			t.Fatalf("block %d has %d versions: the file does not lie where its old version lay", l, len(h))
		}
	}
	good := r.dev.Snapshot()
	rows := []struct {
		name     string
		do       func()
		from, to int
	}{
		{"a chunk altered", func() { r.dev.FlipBit(f5, 3) }, 5, 6},
		{"two chunks swapped", func() { r.dev.Swap(f5, f5+1) }, 5, 7},
		{"chunks of two files swapped", func() { r.dev.Swap(f5, g5) }, 5, 6},
		{"a chunk cut off", func() { r.dev.Poke(f5, make([]byte, 4096)) }, 5, 6},
		{"a chunk torn", func() {
			p := append([]byte(nil), r.dev.Peek(f5)...)
			clear(p[2048:])
			r.dev.Poke(f5, p)
		}, 5, 6},
		{"a chunk of an older version", func() { r.dev.Rewind(f5, 0) }, 5, 6},
		{"a node altered", func() { r.dev.FlipBit(node, 3) }, 0, 256},
		{"two nodes swapped", func() { r.dev.Swap(node, node+1) }, 0, hostileChunks},
		{"a node of an older version", func() { r.dev.Rewind(node, 0) }, 0, 256},
		{"nodes of two files swapped", func() { r.dev.Swap(node+1, g5-5+hostileChunks+1) }, 256, hostileChunks},
		{"a node cut off", func() { r.dev.Poke(node+1, make([]byte, 4096)) }, 256, hostileChunks},
		{"nothing", func() {}, 0, 0},
	}
	for _, row := range rows {
		r.close()
		row.do()
		r.open() // what was verified before is forgotten
		r.refused(row.name, "f", want, row.from, row.to)
		for _, l := range []device.LBA{f5, f5 + 1, g5, node, node + 1, g5 - 5 + hostileChunks + 1} {
			r.dev.Poke(l, memdev.Fork(good, memdev.Options{Blocks: 2000}).Peek(l))
		}
	}
	r.close()
	r.open()
	r.refused("put back", "f", want, 0, 0)
	r.close()
}

// A small file's record that is altered is refused, by its name, and the next file in the same frame is served.
func TestAHostileDeviceAndSmallFiles(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 300}).open()
	a, b := content(1, 3500), content(2, 3500)
	for _, err := range []error{r.put("a", a), r.put("b", b)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tried, refused := 0, 0
	for lba := device.LBA(2); lba < 300; lba++ {
		for _, bit := range []int{500, 20_000} {
			r.dev.FlipBit(lba, bit)
			x, _, errA := r.read("a")
			y, _, errB := r.read("b")
			r.dev.FlipBit(lba, bit)
			tried++
			if errA == nil && !bytes.Equal(x, a) || errB == nil && !bytes.Equal(y, b) {
				t.Fatalf("block %d changed: other bytes were served", lba)
			}
			if errA != nil && errB != nil && lba > 0 {
				t.Errorf("block %d changed: both files are refused: %v, %v", lba, errA, errB)
			}
			for _, err := range []error{errA, errB} {
				if err != nil {
					refused++
					if !errors.Is(err, volume.ErrCorrupt) {
						t.Error(err)
					}
				}
			}
		}
	}
	if refused == 0 {
		t.Fatalf("of %d changes none was noticed", tried)
	}
	r.close()
}
