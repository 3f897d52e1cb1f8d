package ioengine

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

// blobInTest is a blob and what a test does with it.
type blobInTest struct {
	n     byte
	data  []byte
	place Extent
	tags  []Tag
	w     *Writer
	r     *Reader
	asked int // chunks, of either
	got   []byte
}

// TestManyPipelinesAtOnce drives writers and readers side by side, in an order that a seed decides, and gives some up in the
// middle. The device checks that no buffer changes while it has it; the rig checks that all come home.
func TestManyPipelinesAtOnce(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRig(t, memdev.Options{Seed: seed, Manual: true, Blocks: 8192, TransferBlocks: 20 + device.BlockCount(seed)}, 7, Options{Depth: 3, Ahead: 2})
			defer r.close()
			var blobs, written []*blobInTest
			given, done := 0, 0
			for step := 0; step < 3000 && done < 40; step++ {
				if len(blobs) < 5 {
					blobs = append(blobs, r.begin(byte(step), written))
				}
				i := r.rng.IntN(len(blobs))
				b := blobs[i]
				finished := r.move(b)
				if !finished && r.rng.IntN(20) == 0 {
					finished = true
					given++
				}
				if finished {
					done++
					if b.w != nil && b.asked == len(b.data) && b.w.Idle() {
						b.tags = b.w.Tags()
						written = append(written, b)
					}
					if b.r != nil && b.r.Pending() == 0 && b.asked == len(b.data) && !bytes.Equal(b.got, b.data) {
						t.Fatalf("blob %d: %d bytes were read, not what was written", b.n, len(b.got))
					}
					b.close()
					blobs = append(blobs[:i], blobs[i+1:]...)
				}
				if _, err := r.e.Step(); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range blobs {
				b.close()
			}
			if done < 40 || given == 0 || len(written) == 0 {
				t.Errorf("%d done, %d of them given up, %d written", done, given, len(written))
			}
		})
	}
}

// begin starts to write a blob, or to read one that was written, in a place of its own.
func (r *rig) begin(n byte, written []*blobInTest) *blobInTest {
	r.t.Helper()
	if len(written) > 0 && r.rng.IntN(2) == 0 {
		o := written[r.rng.IntN(len(written))]
		rd, err := r.e.NewReader(r.key(SuiteAEGIS, o.n), chunkTest, o.place)
		if err != nil {
			r.t.Fatal(err)
		}
		return &blobInTest{n: o.n, data: o.data, tags: o.tags, place: o.place, r: rd}
	}
	b := &blobInTest{n: n, data: r.bytes(1 + r.rng.IntN(4*chunkTest))}
	blocks := BlocksFor(int64(len(b.data)))
	b.place = Extent{r.next, blocks}
	if r.next += device.LBA(blocks); r.next > 8000 {
		r.t.Fatal("the test's device is full")
	}
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, n), chunkTest, b.place)
	if err != nil {
		r.t.Fatal(err)
	}
	b.w = w
	return b
}

// move does the next thing for a blob, and reports whether it is finished.
func (r *rig) move(b *blobInTest) bool {
	r.t.Helper()
	part := min(chunkTest, len(b.data)-b.asked)
	var ok bool
	var err error
	switch {
	case b.w != nil && part > 0:
		ok, err = b.w.TryWrite(b.data[b.asked : b.asked+part])
	case b.r != nil && part > 0:
		n := b.asked / chunkTest
		ok, err = b.r.TryRead(uint64(n), b.tags[n], make([]byte, part))
	}
	if ok {
		b.asked += part
	}
	if b.r != nil && err == nil {
		var chunk []byte
		chunk, err = b.r.Next()
		b.got = append(b.got, chunk...)
	}
	if err != nil && !errors.Is(err, ErrClosed) {
		r.t.Fatal(err)
	}
	if b.w != nil {
		return b.asked == len(b.data) && b.w.Idle()
	}
	return b.asked == len(b.data) && b.r.Pending() == 0
}

func (b *blobInTest) close() {
	if b.w != nil {
		b.w.Close()
	} else {
		b.r.Close()
	}
}
