package volume_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// part writes a value as a part of a file and returns its blob, with a reference.
func (r *rig) part(value []byte) *volume.Blob {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tr := volume.NewFileTransfer(blobTestChunk, volume.Piece{Bytes: value})
	defer tr.Free()
	if err := r.v.DoTransfer(ctx, tr); err != nil {
		r.t.Fatal(err)
	}
	tr.Blob().Retain()
	return tr.Blob()
}

// file makes a compound of pieces the value of a key. It gives back the caller's references to the parts.
func (r *rig) file(key uint32, attrs string, pieces ...volume.CompoundPiece) {
	r.t.Helper()
	b, err := r.v.Compound([]byte(attrs), pieces...)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := r.store.point(key, b)
	if err != nil {
		r.t.Fatal(err)
	}
	given := map[*volume.Blob]bool{}
	for _, p := range pieces {
		if !given[p.Blob] {
			p.Blob.Release(0)
		}
		given[p.Blob] = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.v.Wait(ctx, c, volume.LevelFresh); err != nil {
		r.t.Fatal(err)
	}
}

func whole(b *volume.Blob) volume.CompoundPiece { return volume.CompoundPiece{Blob: b, To: b.Size()} }

// Files of no tree, one level and two come back, whole and in ranges, also after a restart.
func TestFilesOfAllTreeHeights(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 64, BlocksMax: 1 << 16}, epochtest.Options{})
	r.opts.Blobs.Buffers, r.opts.Blobs.Depth = 32, 16
	r.open()
	sizes := []int{1, 64 * 4096, 64*4096 + 1, 256*4096 + 5, 700_000*4 + 3}
	if !testing.Short() {
		sizes = append(sizes, 16*256*4096+4097) // two levels
	}
	for i, n := range sizes {
		r.file(uint32(i), "attributes", whole(r.part(content(uint64(i), n))))
	}
	for range 2 {
		for i, n := range sizes {
			want := content(uint64(i), n)
			r.wantBlob(uint32(i), want)
			if got := string(r.store.items[uint32(i)].blob.Attrs()); got != "attributes" {
				t.Fatalf("attributes %q", got)
			}
			for _, from := range []int{0, n / 3, n / 2, n - 1} {
				to := min(n, from+10_000)
				if got, err := r.readBlob(uint32(i), int64(from), int64(to)); err != nil || !bytes.Equal(got, want[from:to]) {
					t.Fatalf("%d bytes from %d of %d: %v", to-from, from, n, err)
				}
			}
		}
		r.close()
		r.open()
	}
	r.close()
}

// A file of pieces of several parts, one of them used twice, reads in its order; its parts are free once it is replaced.
func TestACompoundOfPieces(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 3000}, epochtest.Options{})
	r.open()
	x, y := content(1, 500_000), content(2, 300_000)
	want := append(append(append([]byte{}, x[100:400_000]...), y...), x[450_000:]...)
	for range 20 { // each time in the space of the one before
		a, b := r.part(x), r.part(y)
		r.file(7, "", volume.CompoundPiece{Blob: a, From: 100, To: 400_000}, whole(b), volume.CompoundPiece{Blob: a, From: 450_000, To: 500_000})
		r.wantBlob(7, want)
	}
	r.close()
	r.open()
	r.wantBlob(7, want)
	if got, err := r.readBlob(7, 399_000, 700_000); err != nil || !bytes.Equal(got, want[399_000:700_000]) {
		t.Fatalf("over the borders of pieces: %v", err)
	}
	r.close()
}

// Whatever block of a file is changed, exactly the bytes that it stands for are refused: a chunk's own, or those below a node.
func TestATamperedFileIsRefusedWhereItIs(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 2000}, epochtest.Options{})
	r.open()
	const chunks = 600 // three nodes: 256, 256, 88
	want := content(3, chunks*4096)
	part := r.part(want)
	first := r.firstBlock(part)
	r.file(1, "", whole(part))
	for _, c := range []struct {
		block    int
		from, to int // chunks that it spoils
		says     string
	}{
		{0, 0, 1, "chunk 0"},
		{255, 255, 256, "chunk 255"},
		{599, 599, 600, "chunk 599"},
		{600, 0, 256, "tree"},
		{601, 256, 512, "tree"},
		{602, 512, 600, "tree"},
	} {
		r.close() // what was verified before is forgotten
		at := first + device.LBA(c.block)
		kept := append([]byte(nil), r.dev.Peek(at)...)
		r.dev.FlipBit(at, 77)
		r.open()
		for n := range chunks {
			if n%16 != 0 && n != 255 && n != 599 {
				continue
			}
			lo := int64(n) * 4096
			got, err := r.readBlob(1, lo, lo+4096)
			switch bad := n >= c.from && n < c.to; {
			case bad && (!errors.Is(err, volume.ErrCorrupt) || !strings.Contains(err.Error(), c.says)):
				t.Fatalf("block %d changed: chunk %d gave %v", c.block, n, err)
			case !bad && (err != nil || !bytes.Equal(got, want[lo:lo+4096])):
				t.Fatalf("block %d changed: chunk %d, which is whole, gave %v", c.block, n, err)
			}
		}
		if got, err := r.readBlob(1, 0, int64(len(want))); !errors.Is(err, volume.ErrCorrupt) || len(got) > 0 && bytes.Equal(got, want) {
			t.Fatalf("block %d changed: the whole file gave %v", c.block, err)
		}
		r.dev.Poke(at, kept)
	}
	r.close()
	r.open()
	r.wantBlob(1, want)
	r.close()
}

// firstBlock is where the blob's first extent begins, as its pointer says.
func (r *rig) firstBlock(b *volume.Blob) device.LBA {
	p := make([]byte, b.PointerSize())
	b.PutPointer(p)
	return device.LBA(binary.LittleEndian.Uint64(p[56:]))
}
