package kvs_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/volume"
)

const benchKeys = 100_000

func benchRig(b *testing.B) (*rig, [][][]byte, []byte) {
	b.Helper()
	r := newRig(b).open()
	keys := make([][][]byte, benchKeys)
	val := bytes.Repeat([]byte("v"), 1024)
	for i := range keys {
		keys[i] = [][]byte{fmt.Appendf(nil, "key:%012d", i)}
		if err := r.do(0, keys[i], func(t *keyspace.Tx) error { return setPlain(t, keys[i][0], val) }); err != nil {
			b.Fatal(err)
		}
	}
	r.settle()
	b.ReportAllocs()
	return r, keys, val
}

func setPlain(t *keyspace.Tx, key, val []byte) error {
	_, err := kvs.Set(t, key, val, kvs.SetOptions{})
	return err
}

// A GET whose value is cached, without the wire: over few keys, which the processor's caches hold, and over many.
func BenchmarkGetHot(b *testing.B) {
	for _, n := range []int{1000, benchKeys} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) { benchGet(b, n) })
	}
}

func benchGet(b *testing.B, n int) {
	r, keys, _ := benchRig(b)
	i := 0
	for b.Loop() {
		k := keys[i%n]
		r.s.Begin(&r.tx, 0, k)
		if _, ok, err := kvs.Get(&r.tx, k[0]); !ok || err != nil {
			b.Fatal(err)
		}
		r.tx.End()
		i += 7919
	}
}

// A SET of 1 KiB over an existing key, with the record, the multiset hash and the cache, but without the commit.
func BenchmarkSet(b *testing.B) {
	r, keys, val := benchRig(b)
	i := 0
	for b.Loop() {
		k := keys[i%benchKeys]
		r.s.Begin(&r.tx, 0, k)
		err := setPlain(&r.tx, k[0], val)
		r.tx.End()
		if errors.Is(err, volume.ErrBusy) {
			b.StopTimer()
			r.settle()
			b.StartTimer()
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}

// BenchmarkReserveOnly is the part of a SET that volume takes for an empty batch.
func BenchmarkReserveOnly(b *testing.B) {
	r, keys, _ := benchRig(b)
	i := 0
	for b.Loop() {
		k := keys[i%benchKeys]
		r.s.Begin(&r.tx, 0, k)
		if err := r.tx.Reserve(1100, 1, volume.ClassNormal); err != nil {
			b.Fatal(err)
		}
		r.tx.End()
		i += 7919
	}
}
