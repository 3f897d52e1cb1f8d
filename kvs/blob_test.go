package kvs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

// newBlobRig makes blobs of almost everything, in small chunks.
func newBlobRig(tb testing.TB) *rig {
	r := newRig(tb)
	r.space.Databases, r.space.BlobBytes, r.space.CacheBytes = 2, 300, 256<<10
	r.volume.SegmentBlocks = 64
	r.volume.Blobs = volume.BlobOptions{ChunkBytes: 4096, Buffers: 8, Depth: 4, Ahead: 2}
	return r
}

// The same game as without blobs.
func TestTheStoreWithBlobsAnswersAsAMapDoes(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			g := &game{rig: newBlobRig(t).open(), rng: rand.New(rand.NewPCG(seed, 9)), twins: []twin{{}, {}}}
			for i := range 2500 {
				g.step()
				if i%500 == 499 {
					g.reopen()
					g.whole(0)
					g.whole(1)
				}
			}
			g.close()
		})
	}
}

// editor plays edits of parts of a few values, and moves them about, beside plain byte slices.
type editor struct {
	*rig
	rng  *rand.Rand
	vals map[string][]byte
}

func (e *editor) run(key string, f func(t *keyspace.Tx, k []byte) error) {
	e.tb.Helper()
	k := []byte(key)
	if err := e.do(0, bs("a", "b", "c", key), func(t *keyspace.Tx) error { return f(t, k) }); err != nil {
		e.tb.Fatal(err)
	}
}

func grown(b []byte, n int) []byte {
	b = bytes.Clone(b)
	if len(b) < n {
		b = append(b, make([]byte, n-len(b))...)
	}
	return b
}

func (e *editor) step() {
	e.tb.Helper()
	key := string("abc"[e.rng.IntN(3)])
	old, had := e.vals[key]
	part := make([]byte, e.rng.IntN(6000))
	for i := range part {
		part[i] = byte(e.rng.Uint32())
	}
	at := e.rng.IntN(12_000)
	switch e.rng.IntN(9) {
	case 0:
		n := 0
		e.run(key, func(t *keyspace.Tx, k []byte) (err error) { n, err = kvs.Append(t, k, part); return err })
		e.vals[key] = append(bytes.Clone(old), part...)
		e.same("append", n, len(e.vals[key]))
	case 1, 2:
		n := 0
		e.run(key, func(t *keyspace.Tx, k []byte) (err error) { n, err = kvs.SetRange(t, k, int64(at), part); return err })
		if len(part) > 0 {
			e.vals[key] = grown(old, at+len(part))
			copy(e.vals[key][at:], part)
		}
		e.same("setrange", n, len(e.vals[key]))
	case 3:
		bit, was := e.rng.IntN(2), 0
		e.run(key, func(t *keyspace.Tx, k []byte) (err error) { was, err = kvs.SetBit(t, k, int64(at), bit); return err })
		val := grown(old, at/8+1)
		e.same("setbit", was, int(val[at/8]>>(7-at%8)&1))
		if val[at/8] &^= 0x80 >> (at % 8); bit == 1 {
			val[at/8] |= 0x80 >> (at % 8)
		}
		e.vals[key] = val
	case 4:
		ops := []kvs.FieldOp{
			{Kind: kvs.FieldSet, Bits: 16, Offset: int64(8 * (at / 2)), Arg: 0x1234},
			{Kind: kvs.FieldGet, Bits: 8, Offset: int64(8 * at)},
		}
		var got []kvs.FieldResult
		e.run(key, func(t *keyspace.Tx, k []byte) (err error) { got, err = kvs.BitField(t, k, ops, got[:0]); return err })
		val := grown(old, at/2+2)
		e.same("bitfield set", got[0].Value, int64(val[at/2])<<8|int64(val[at/2+1]))
		val[at/2], val[at/2+1] = 0x12, 0x34
		e.vals[key] = val
		want := int64(0)
		if at < len(val) {
			want = int64(val[at])
		}
		e.same("bitfield get", got[1].Value, want)
	case 5:
		to := string("abc"[e.rng.IntN(3)])
		if !had || to == key {
			return
		}
		if e.rng.IntN(2) == 0 {
			e.run(key, func(t *keyspace.Tx, k []byte) error { _, _, err := t.Rename(k, []byte(to), false); return err })
			delete(e.vals, key)
		} else {
			e.run(key, func(t *keyspace.Tx, k []byte) error { _, err := t.Copy(k, []byte(to), 0, true); return err })
		}
		e.vals[to] = old
	case 6:
		e.run(key, func(t *keyspace.Tx, k []byte) error { _, err := t.Del([][]byte{k}); return err })
		delete(e.vals, key)
	case 7:
		from := min(at, len(old))
		to := min(from+e.rng.IntN(5000), len(old))
		e.run(key, func(t *keyspace.Tx, k []byte) error {
			if to > from {
				got, err := kvs.GetRange(t, k, int64(from), int64(to-1))
				if err == nil && !bytes.Equal(got, old[from:to]) {
					e.tb.Fatalf("getrange %d to %d of %d bytes differs", from, to, len(old))
				}
				return err
			}
			return nil
		})
	case 8:
		e.run(key, func(t *keyspace.Tx, k []byte) error {
			p, _, err := kvs.Dump(t, k)
			if err != nil || !had {
				return err
			}
			return kvs.Restore(t, k, p, kvs.RestoreOptions{Replace: true, Idle: -1})
		})
	}
}

func (e *editor) same(what string, got, want any) {
	e.tb.Helper()
	if got != want {
		e.tb.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func (e *editor) compare() {
	e.tb.Helper()
	for _, key := range []string{"a", "b", "c"} {
		e.run(key, func(t *keyspace.Tx, k []byte) error {
			got, ok, err := kvs.Get(t, k)
			if want, had := e.vals[key]; err == nil && (ok != had || !bytes.Equal(got, want)) {
				e.tb.Fatalf("%s: %d bytes, %v; want %d, %v", key, len(got), ok, len(want), had)
			}
			return err
		})
	}
}

func TestEditsOfBlobsAreThoseOfBytes(t *testing.T) {
	for seed := range uint64(4) {
		e := &editor{rig: newBlobRig(t).open(), rng: rand.New(rand.NewPCG(seed, 2)), vals: map[string][]byte{}}
		for i := range 400 {
			e.step()
			if i%50 == 49 {
				e.compare()
			}
			if i%150 == 149 {
				e.reopen()
				e.compare()
			}
		}
		e.close()
	}
}

// A blob that two keys share is freed with the second one, and a flush frees what its database holds.
func TestSharedBlobsAreFreedOnce(t *testing.T) {
	r := newBlobRig(t).open()
	val := string(bytes.Repeat([]byte("x"), 200_000))
	free := func() uint64 {
		r.settle()
		for range 20 {
			r.v.Step()
		}
		return r.v.Status().FreeBytes
	}
	set(r, "small", "v", 0)
	before := free()
	set(r, "k", val, 0)
	copied := func(to string, db int) {
		if err := r.do(0, bs("k", to), func(t *keyspace.Tx) error { _, err := t.Copy([]byte("k"), []byte(to), db, false); return err }); err != nil {
			t.Fatal(err)
		}
	}
	copied("k2", 0)
	copied("k3", 1)
	one := before - free()
	if one < 200_000 || one > 210_000 {
		t.Fatalf("three keys of one blob take %d bytes", one)
	}
	for _, restart := range []bool{false, true} {
		if restart {
			r.reopen()
		}
		got := ""
		if err := r.do(1, bs("k3"), func(t *keyspace.Tx) error {
			v, _, err := kvs.Get(t, []byte("k3"))
			got = string(v)
			return err
		}); err != nil || got != val {
			t.Fatalf("the copy: %d bytes, %v", len(got), err)
		}
	}
	before = free()
	if err := r.doAll(0, func(t *keyspace.Tx) error { return t.FlushDB() }); err != nil {
		t.Fatal(err)
	}
	if now := free(); now > before+100_000 {
		t.Fatalf("%d bytes came back while a key still has the blob", now-before)
	}
	if err := r.do(1, bs("k3"), func(t *keyspace.Tx) error { _, err := t.Del(bs("k3")); return err }); err != nil {
		t.Fatal(err)
	}
	if now := free(); now < before+200_000 {
		t.Fatalf("the last key is gone, and only %d bytes came back", now-before)
	}
	r.close()
}

// What belongs to a blob's error is named by its keyed hash or place, and reads of other keys go on.
func TestADamagedBlobIsAnError(t *testing.T) {
	r := newBlobRig(t).open()
	set(r, "k", string(bytes.Repeat([]byte("x"), 50_000)), 0)
	set(r, "other", string(bytes.Repeat([]byte("y"), 50_000)), 0)
	r.settle()
	damaged := 0
	for lba := range r.dev.Info().Blocks {
		r.dev.FlipBit(device.LBA(lba), 99)
		for _, key := range []string{"k", "other"} {
			err := r.do(0, bs(key), func(t *keyspace.Tx) error { _, _, err := kvs.Get(t, []byte(key)); return err })
			if err != nil && !errors.Is(err, volume.ErrCorrupt) {
				t.Fatal(err)
			}
			if err != nil {
				damaged++
			}
		}
		r.dev.FlipBit(device.LBA(lba), 99)
		if damaged >= 6 {
			break
		}
	}
	if damaged < 6 {
		t.Fatalf("%d reads noticed", damaged)
	}
	r.close()
}
