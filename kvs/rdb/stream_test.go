package rdb

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func someStream(rnd *rand.Rand) *Stream {
	s := &Stream{Last: StreamID{1 << 40, 7}, MaxDeleted: StreamID{3, 1 << 63}, Added: 1 << 20}
	id := StreamID{5, 1}
	for range rnd.IntN(300) {
		if id.Seq += 1 + rnd.Uint64N(300); rnd.IntN(3) == 0 {
			id = StreamID{id.MS + 1 + rnd.Uint64N(100_000), rnd.Uint64N(3)}
		}
		e := StreamEntry{ID: id}
		for i := range 1 + rnd.IntN(3) {
			e.Pairs = append(e.Pairs, []byte(fmt.Sprint("field", i)), []byte(strings.Repeat("v", rnd.IntN(1+1<<rnd.IntN(14)))))
		}
		s.Entries = append(s.Entries, e)
	}
	if len(s.Entries) > 0 {
		s.First = s.Entries[0].ID
	}
	for i := range rnd.IntN(3) {
		g := StreamGroup{Name: []byte(fmt.Sprint("g", i)), Last: id, Read: int64(rnd.IntN(3)) - 1}
		for j := range rnd.IntN(3) {
			c := StreamConsumer{Name: []byte(fmt.Sprint("c", j)), Seen: 1 << 41, Active: 1 << 41}
			for k := range rnd.IntN(4) {
				p := StreamID{uint64(i), uint64(10*j + k)}
				c.Pending = append(c.Pending, p)
				g.Pending = append(g.Pending, StreamPending{p, 1 << 41, uint64(k + 1)})
			}
			g.Consumers = append(g.Consumers, c)
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}

func TestStreamsComeBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		s := someStream(rnd)
		p := AppendStream(nil, s)
		got, err := ParseStream(p, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("%+v\nnot\n%+v", got, s)
		}
		p[rnd.IntN(len(p))] ^= 1 << rnd.IntN(8)
		if _, err := ParseStream(p, 1<<20); err == nil {
			t.Fatal("a changed payload was taken")
		}
	}
}

// FuzzStream: whatever is read can be written and read again.
func FuzzStream(f *testing.F) {
	rnd := rand.New(rand.NewPCG(4, 5))
	for range 5 {
		s := someStream(rnd)
		s.Entries = s.Entries[:min(len(s.Entries), 4)]
		f.Add(AppendStream(nil, s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > footerSize { // the checksum is not what is tested
			b := bytes.Clone(p[:len(p)-footerSize])
			p = append(b, Version&0xff, Version>>8)
			sum := crc64(p)
			for range 8 {
				p = append(p, byte(sum))
				sum >>= 8
			}
		}
		s, err := ParseStream(p, 1<<16)
		if err != nil {
			return
		}
		again, err := ParseStream(AppendStream(nil, s), 1<<16)
		if err != nil || len(again.Entries) != len(s.Entries) || len(again.Groups) != len(s.Groups) {
			t.Fatalf("%v: %+v, not %+v", err, again, s)
		}
	})
}
