package volume_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

const blobTestChunk = 4096

// newBlobRig has blobs of small chunks, so that small ones have several.
func newBlobRig(t *testing.T, dev memdev.Options, counter epochtest.Options) *rig {
	t.Helper()
	r := newRig(t, dev, counter)
	r.opts.Blobs = volume.BlobOptions{ChunkBytes: blobTestChunk, Buffers: 8, Depth: 4, Ahead: 3}
	return r
}

// content is n bytes that a seed gives.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = rng.Read(b)
	return b
}

// tryBlob writes a value as a blob and waits until its pointer has reached the level.
func (r *rig) tryBlob(l volume.Level, key uint32, value []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tr := volume.NewTransfer(false, volume.Piece{Bytes: value})
	defer tr.Free()
	if err := r.v.DoTransfer(ctx, tr); err != nil {
		return err
	}
	b := tr.Blob()
	b.Retain() // the item's
	for range 1000 {
		c, err := r.store.point(key, b)
		if err == nil {
			return r.v.Wait(ctx, c, l)
		}
		if !isBusy(err) {
			b.Release(0)
			return err
		}
		r.v.Step()
	}
	return volume.ErrBusy
}

func (r *rig) blob(l volume.Level, key uint32, value []byte) {
	r.t.Helper()
	if err := r.tryBlob(l, key, value); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) readBlob(key uint32, from, to int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := r.store.items[key].blob
	if b == nil {
		return nil, errors.New("no blob")
	}
	tr := volume.NewTransfer(true, volume.Piece{Blob: b, From: from, To: to})
	defer tr.Free()
	err := r.v.DoTransfer(ctx, tr)
	return tr.Into, err
}

func (r *rig) wantBlob(key uint32, want []byte) {
	r.t.Helper()
	got, err := r.readBlob(key, 0, int64(len(want)))
	if err != nil {
		r.t.Fatalf("key %d: %v", key, err)
	}
	if !bytes.Equal(got, want) {
		r.t.Fatalf("key %d: %d bytes differ from what was written", key, len(got))
	}
}

func TestBlobsComeBackAfterARestart(t *testing.T) {
	for _, suite := range []string{"memory", "manual"} {
		t.Run(suite, func(t *testing.T) {
			r := newBlobRig(t, memdev.Options{Blocks: 64, BlocksMax: 4096, Manual: suite == "manual"}, epochtest.Options{})
			r.open()
			sizes := []int{1, 4095, 4096, 4097, 5 * 4096, 100_000}
			for i, n := range sizes {
				r.blob(volume.LevelFresh, uint32(i), content(uint64(i), n))
			}
			for range 2 {
				for i, n := range sizes {
					r.wantBlob(uint32(i), content(uint64(i), n))
				}
				r.close()
				r.open()
			}
			if got, err := r.readBlob(5, 5000, 5010); err != nil || !bytes.Equal(got, content(5, 100_000)[5000:5010]) {
				t.Fatalf("range: %x, %v", got, err)
			}
			r.close()
		})
	}
}

// Space that blobs gave up is used again: a small volume takes many times its size, and recovery agrees on what is free.
func TestBlobSpaceIsReused(t *testing.T) {
	for _, lagging := range []bool{false, true} {
		r := newBlobRig(t, memdev.Options{Blocks: 600}, epochtest.Options{Lagging: lagging})
		r.open()
		for i := range 100 {
			r.blob(volume.LevelDurable, uint32(i%3), content(uint64(i), 20*4096+i))
			if i%20 != 19 {
				continue
			}
			r.put(volume.LevelFresh, op{9, "so that nothing waits"})
			for range 10 {
				r.v.Step()
			}
			free := r.v.Status().FreeBytes
			r.close()
			r.open()
			for k := range 3 {
				n := i - (i-k)%3
				r.wantBlob(uint32(k), content(uint64(n), 20*4096+n))
			}
			if now := r.v.Status().FreeBytes; now+20*4096 < free || now > free+3*21*4096+20*4096 {
				t.Fatalf("free: %d bytes before the restart, %d after it", free, now)
			}
		}
		r.close()
	}
}

// Fragments are used: a blob that no single run holds is laid over several.
func TestABlobOverFragments(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 200}, epochtest.Options{})
	r.open()
	n := 0
	for ; r.tryBlob(volume.LevelFresh, uint32(n), content(uint64(n), 7*4096)) == nil; n++ {
	}
	if n < 10 {
		t.Fatalf("%d blobs", n)
	}
	for i := 0; i < n; i += 2 {
		r.put(volume.LevelFresh, op{uint32(i), ""})
	}
	big := content(999, 20*4096)
	r.blob(volume.LevelFresh, 999, big)
	r.wantBlob(999, big)
	r.close()
	r.open()
	r.wantBlob(999, big)
	for i := 1; i < n; i += 2 {
		r.wantBlob(uint32(i), content(uint64(i), 7*4096))
	}
	if err := r.tryBlob(volume.LevelFresh, 1000, content(1, 150*4096)); !errors.Is(err, volume.ErrFull) {
		t.Fatalf("a blob that does not fit: %v", err)
	}
	r.put(volume.LevelFresh, op{1, "a volume full of blobs still takes records"})
	r.close()
}

// What a writer that gave up, or a crash, left of a blob is free.
func TestAnAbandonedBlobLeavesNothing(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 256, Manual: true, Seed: 3}, epochtest.Options{})
	r.open()
	r.put(volume.LevelFresh, op{1, "x"})
	before := r.v.Status().FreeBytes
	bio, err := r.v.NewBlobIO()
	if err != nil {
		t.Fatal(err)
	}
	for given := range 12 {
		w, err := bio.NewWriter(10 * 4096)
		if err != nil {
			t.Fatal(err)
		}
		data := content(1, 10*4096)[:min(given*4096+10, 10*4096)]
		for tries := 0; len(data) > 0; tries++ {
			data = data[w.Write(data):]
			bio.Step()
			r.v.Step()
			if tries > 10_000 {
				t.Fatal("a writer makes no progress")
			}
		}
		w.Abandon()
		for range 1000 {
			bio.Step()
			r.v.Step()
		}
		if now := r.v.Status().FreeBytes; now != before {
			t.Fatalf("after a writer that gave up with %d chunks: %d bytes free, before %d", given, now, before)
		}
	}
	if err := bio.Close(); err != nil {
		t.Fatal(err)
	}
	r.close()
}

// A reader keeps what it reads, whatever becomes of the key.
func TestAReaderKeepsItsBlob(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 128}, epochtest.Options{})
	r.open()
	want := content(1, 30*4096)
	r.blob(volume.LevelFresh, 1, want)
	bio, err := r.v.NewBlobIO()
	if err != nil {
		t.Fatal(err)
	}
	rd, err := bio.NewReader(r.store.items[1].blob, 0, int64(len(want)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r.blob(volume.LevelFresh, 1, content(uint64(2+i), 10*4096))
	}
	var got []byte
	for tries := 0; len(got) < len(want) && tries < 10_000; tries++ {
		p, err := rd.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p...)
		rd.Consume(len(p))
		if tries%7 == 0 {
			rd.Suspend()
		}
		bio.Step()
	}
	if !bytes.Equal(got, want) {
		t.Fatal("a reader's bytes changed under it")
	}
	rd.Close()
	if err := bio.Close(); err != nil {
		t.Fatal(err)
	}
	r.close()
}

// What a host may do to the chunks of blobs: each read is an error that says so, or the right bytes.
func TestTamperedBlobs(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 160, History: true}, epochtest.Options{})
	r.open()
	a, b := content(1, 6*4096), content(2, 6*4096)
	r.blob(volume.LevelFresh, 1, a)
	r.blob(volume.LevelFresh, 2, b)
	find := func(key uint32, chunk int) (lba device.LBA) { // by what changes when it is damaged
		for lba = 2; lba < 160; lba++ {
			r.dev.FlipBit(lba, 77)
			_, err := r.readBlob(key, int64(chunk)*4096, int64(chunk)*4096+1)
			r.dev.FlipBit(lba, 77)
			if err != nil {
				if !errors.Is(err, volume.ErrCorrupt) {
					t.Fatal(err)
				}
				return lba
			}
		}
		t.Fatalf("chunk %d of blob %d lies nowhere", chunk, key)
		return 0
	}
	a0, a3, b3 := find(1, 0), find(1, 3), find(2, 3)
	rows := []struct {
		name string
		do   func()
	}{
		{"two chunks of a blob swapped", func() { r.dev.Swap(a0, a3) }},
		{"the same chunk of two blobs swapped", func() { r.dev.Swap(a3, b3) }},
		{"a chunk torn", func() {
			p := append([]byte(nil), r.dev.Peek(a3)...)
			clear(p[2048:])
			r.dev.Poke(a3, p)
		}},
		{"a pointer without its data", func() { r.dev.Poke(a3, make([]byte, 4096)) }},
	}
	good := r.dev.Snapshot()
	for _, row := range rows {
		row.do()
		if got, err := r.readBlob(1, 0, int64(len(a))); !errors.Is(err, volume.ErrCorrupt) {
			t.Errorf("%s: %d bytes, %v", row.name, len(got), err)
		}
		if got, err := r.readBlob(1, 4096, 3*4096); err != nil || !bytes.Equal(got, a[4096:3*4096]) {
			t.Errorf("%s: what was left alone: %v", row.name, err)
		}
		for _, l := range []device.LBA{a0, a3, b3} {
			r.dev.Poke(l, peekOf(good, l))
		}
	}
	r.wantBlob(1, a)
	// An older blob at the same place, with the chunk as it was written then.
	old := r.dev.Peek(a0)
	r.put(volume.LevelFresh, op{1, ""})
	for range 10 {
		r.v.Step()
	}
	r.blob(volume.LevelFresh, 3, content(3, 6*4096))
	if c0 := find(3, 0); c0 != a0 {
		t.Fatalf("the freed place %d was not used again: %d", a0, c0)
	}
	r.dev.Poke(a0, old)
	if _, err := r.readBlob(3, 0, 10); !errors.Is(err, volume.ErrCorrupt) {
		t.Errorf("an old blob at the same place: %v", err)
	}
	r.close()
}

func peekOf(s *memdev.Snapshot, l device.LBA) []byte {
	return memdev.Fork(s, memdev.Options{Blocks: 160}).Peek(l)
}
