package keyspace

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/memdev"
	"cvmstore/seal"
	"cvmstore/volume"
)

// hasher opens a volume that only makes item hashes.
func hasher(t *testing.T) *volume.Volume {
	t.Helper()
	keys, err := seal.NewKeys([16]byte{1}, seal.SuiteAEGIS, [32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	if err := counter.Create(t.Context(), epoch.StoreID(keys.StoreID())); err != nil {
		t.Fatal(err)
	}
	v, err := volume.Open(t.Context(), volume.Options{
		Device: memdev.New(memdev.Options{Blocks: 1024}), Counter: counter, Keys: keys, SegmentBlocks: 16,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: New(Options{CacheBytes: -1})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close(context.Background()) })
	return v
}

// replica is a space that is fed with records.
type replica struct {
	*Space
	v *volume.Volume
}

func newReplica(v *volume.Volume) *replica {
	return &replica{New(Options{CacheBytes: -1, Databases: 3}), v}
}

func (r *replica) replay(rec volume.Record) error { return r.Replay(r.v, rec) }

// state lists the live entries of all tables, and the counts.
func (r *replica) state(t *testing.T) map[string]string {
	t.Helper()
	if err := r.Settle(r.v, &volume.Delta{}); err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for db, tb := range r.tables {
		m[fmt.Sprint("database ", db)] = fmt.Sprint(tb.number, r.swapped[db])
		m[fmt.Sprint("table ", tb.number)] = fmt.Sprint(tb.live, tb.expires, tb.sum, tb.flushed)
		for i := range r.stripes {
			d := r.stripes[i].dirs[tb.slot]
			if d == nil {
				continue
			}
			d.each(func(sh *shard) bool {
				for i := range sh.entries {
					if e := &sh.entries[i]; e.live() {
						m[fmt.Sprintf("%d %s", tb.number, sh.key(e))] = fmt.Sprint(e.typ(), e.encoding(), e.counter, e.value, e.expiry, e.size)
					}
				}
				return true
			})
		}
	}
	return m
}

// history makes random records, as a running server would write them.
type history struct {
	rng *rand.Rand
	c   volume.Counter
	r   *replica // what they amount to
}

func (h *history) next() volume.Record {
	rec := record{table: uint16(h.rng.IntN(3)), typ: TypeString, key: fmt.Appendf(nil, "k%d", h.rng.IntN(6))}
	h.c++
	p := h.r.find(h.r.numbered[rec.table], h.r.hash(rec.key), rec.key)
	exists := p.i >= 0 && p.entry().live() && p.entry().value > h.r.numbered[rec.table].flushed
	kind := KindPut
	switch n := h.rng.IntN(40); {
	case n == 0:
		kind = KindFlush
	case n == 1:
		kind = KindSwap
	case n < 10 && exists:
		kind = KindDelete
	case n < 25 && exists:
		kind = KindExpire
	}
	if kind == KindExpire || h.rng.IntN(3) == 0 {
		rec.expiry = int64(h.rng.IntN(1000))
	}
	var payload []byte
	switch kind {
	case KindPut:
		payload = make([]byte, PutSize(len(rec.key), h.rng.IntN(4)))
		encodePut(payload, &rec)
	case KindExpire:
		payload = make([]byte, ExpireSize(len(rec.key)))
		encodeExpire(payload, &rec)
	case KindDelete:
		payload = make([]byte, DeleteSize(len(rec.key)))
		encodeDelete(payload, &rec)
	case KindFlush:
		payload = make([]byte, flushSize)
		encodeFlush(payload, rec.table)
	case KindSwap:
		payload = make([]byte, swapSize)
		encodeSwap(payload, h.swap())
	}
	return volume.Record{Store: volume.StoreKeys, Kind: kind, Counter: h.c, Size: len(payload), Payload: payload}
}

// swap exchanges two of the three databases.
func (h *history) swap() *swap {
	a := h.rng.IntN(h.r.o.Databases)
	b := (a + 1 + h.rng.IntN(h.r.o.Databases-1)) % h.r.o.Databases
	return &swap{db: [2]uint16{uint16(a), uint16(b)}, table: [2]uint16{h.r.tables[b].number, h.r.tables[a].number}}
}

// needed is what compaction moves: what the index still names, and every tombstone (6.3).
func (h *history) needed(r volume.Record) bool {
	var rec record
	switch r.Kind {
	case KindPut:
		rec, _ = decodePut(r.Payload)
	case KindExpire:
		rec, _ = decodeExpire(r.Payload)
	default:
		return true
	}
	p := h.r.find(h.r.numbered[rec.table], h.r.hash(rec.key), rec.key)
	if p.i < 0 || !p.entry().live() || p.entry().value <= h.r.numbered[rec.table].flushed {
		return false
	}
	return r.Kind == KindPut && p.entry().value == r.Counter || r.Kind == KindExpire && p.entry().counter == r.Counter
}

// Compaction moves records behind newer ones with their counters unchanged. Whatever it moves, recovery comes to the state, the
// counts and the multiset hash that the running server had.
func TestRecoveryAfterCompactionComesToTheSameState(t *testing.T) {
	v := hasher(t)
	moved := 0
	for seed := range uint64(300) {
		h := &history{rng: rand.New(rand.NewPCG(seed, 5)), r: newReplica(v)}
		var chain []volume.Record
		for range 120 {
			r := h.next()
			if err := h.r.replay(r); err != nil {
				t.Fatal(err)
			}
			chain = append(chain, r)
			if h.rng.IntN(15) == 0 {
				n := h.rng.IntN(len(chain))
				for _, r := range chain[:n] {
					if h.needed(r) {
						chain = append(chain, r)
						moved++
					}
				}
				chain = chain[n:]
			}
		}
		h.compare(t, v, chain, fmt.Sprintf("seed %d", seed))
	}
	if moved < 1000 {
		t.Fatalf("only %d records were moved", moved)
	}
}

// compare replays a chain, and compares what comes of it with what the running server had.
func (h *history) compare(t *testing.T, v *volume.Volume, chain []volume.Record, what string) {
	t.Helper()
	again := newReplica(v)
	for i, r := range chain {
		r.Place = volume.Place(i + 1)
		if err := again.replay(r); err != nil {
			t.Fatal(err)
		}
	}
	want := h.r.state(t)
	if got := again.state(t); !maps.Equal(got, want) {
		t.Fatalf("%s: recovered\n%v, want\n%v", what, got, want)
	}
}

// The highest counter wins, in whatever order records come: summaries will be read in parallel (6.4.2).
func TestRecoveryDoesNotDependOnOrder(t *testing.T) {
	v := hasher(t)
	for seed := range uint64(200) {
		h := &history{rng: rand.New(rand.NewPCG(seed, 6)), r: newReplica(v)}
		var chain []volume.Record
		for range 60 {
			r := h.next()
			if err := h.r.replay(r); err != nil {
				t.Fatal(err)
			}
			chain = append(chain, r)
		}
		for range 5 {
			h.rng.Shuffle(len(chain), func(i, j int) { chain[i], chain[j] = chain[j], chain[i] })
			h.compare(t, v, chain, fmt.Sprintf("seed %d", seed))
		}
	}
}

// Records that no running server writes are refused, whoever wrote them.
func TestReplayRefusesStrangeRecords(t *testing.T) {
	v := hasher(t)
	put := func(table uint16, typ TypeID) []byte {
		p := make([]byte, PutSize(1, 0))
		encodePut(p, &record{table: table, typ: typ, key: []byte("k")})
		return p
	}
	for name, r := range map[string]volume.Record{
		"unknown kind":     {Kind: 31, Payload: put(0, TypeString)},
		"unknown type":     {Kind: KindPut, Payload: put(0, TypeHash)},
		"type beyond all":  {Kind: KindPut, Payload: put(0, 200)},
		"unknown database": {Kind: KindPut, Payload: put(3, TypeString)},
		"unknown table":    {Kind: KindSwap, Payload: []byte{0, 0, 1, 0, 1, 0, 3, 0}},
		"swap of unknown":  {Kind: KindSwap, Payload: []byte{0, 0, 1, 0, 3, 0, 0, 0}},
		"empty":            {Kind: KindDelete},
	} {
		r.Counter = 1
		if err := newReplica(v).replay(r); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
