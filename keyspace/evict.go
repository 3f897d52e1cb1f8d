package keyspace

import (
	"errors"

	"cvmstore/volume"
)

// Ranking says which of several keys is evicted first.
type Ranking uint8

// The rankings of Redis' policies.
const (
	RankRandom Ranking = iota
	RankIdle           // lru: unused for the longest time
	RankUses           // lfu: used least often; see SetUses
	RankExpiry         // ttl: the next to expire
)

// Eviction says which keys may go to make room.
type Eviction struct {
	Rank     Ranking
	Volatile bool // only keys with an expiry
	Samples  int  // keys that are compared for each that goes
}

// ErrNothingToEvict: no key qualifies.
var ErrNothingToEvict = errors.New("no key can be evicted")

// evictShardsMax bounds the shards that are looked at in search of one key to evict: below a millisecond's worth.
const evictShardsMax = 256

// Evict deletes keys until Used is no more than usedMax, but at most keysMax of them: journaled deletes, each a batch of its own,
// which the volume may refuse (ErrBusy: the epoch rule holds deletes back as well). The caller holds no transaction.
func (s *Space) Evict(o Eviction, usedMax int64, keysMax int) (evicted int, err error) {
	s.evictMu.Lock()
	defer s.evictMu.Unlock()
	t := &s.evict
	t.begin(s, 0)
	defer t.End()
	for s.Used() > usedMax && evicted < keysMax {
		v := &s.victim
		*v = victim{key: v.key[:0], wanted: max(o.Samples, 1), shards: evictShardsMax}
		if o.Rank == RankRandom {
			v.wanted = 1
		}
		t.choose(o, v)
		if v.seen == 0 {
			if v.shards <= 0 {
				return evicted, volume.ErrBusy // there may be some further on; shards without any are skipped next time
			}
			return evicted, ErrNothingToEvict
		}
		gone, err := t.evictOne(v)
		if err != nil {
			return evicted, err
		}
		if gone {
			evicted++
		}
	}
	return evicted, nil
}

// victim is the best of the keys that were looked at so far. It is found under one stripe's lock and deleted under another one,
// so it is known by name.
type victim struct {
	wanted, seen int
	shards       int // that may still be looked at
	score        uint64
	db           int
	hash         uint32
	counter      volume.Counter
	key          []byte
}

// choose looks at keys of random places: hashes spread them evenly, so neighbours in the index have nothing in common.
func (t *Tx) choose(o Eviction, v *victim) {
	s := t.w.s
	first := int(s.o.Rand(stripeCount))
	for i := range stripeCount {
		if v.seen >= v.wanted || v.shards <= 0 {
			return
		}
		t.sampleStripe(&s.stripes[(first+i)%stripeCount], o, v)
	}
}

func (t *Tx) sampleStripe(st *stripe, o Eviction, v *victim) {
	st.lock()
	defer t.unlock(st)
	if o.Volatile && st.expiry == never {
		return
	}
	s := t.w.s
	first := int(s.o.Rand(uint64(s.o.Databases)))
	for i := range s.o.Databases {
		db := (first + i) % s.o.Databases
		d := st.dirs[s.tables[db].slot]
		if d == nil || o.Volatile && d.expiry == never {
			continue
		}
		at, before := int(s.o.Rand(uint64(len(d.shards)))), v.seen
		for n := 0; n < len(d.shards) && v.seen < v.wanted && v.shards > 0; {
			sh := d.shards[(at+n)%len(d.shards)]
			span := d.span(sh)
			n += span - (at+n)%len(d.shards)%span // on to the next shard, from wherever in this one's run it began
			t.sampleShard(spot{st, d, sh, 0}, db, o, v)
		}
		if o.Volatile && v.seen == before && v.shards > 0 && v.seen < v.wanted {
			d.expiry = never // all of it was looked at
		}
	}
}

// sampleShard looks at neighbours from a random entry on.
func (t *Tx) sampleShard(p spot, db int, o Eviction, v *victim) {
	n := len(p.sh.entries)
	if n == 0 || o.Volatile && p.sh.expiry == never {
		return
	}
	v.shards--
	found := false
	at := int(t.w.s.o.Rand(uint64(n)))
	for i := 0; i < n && v.seen < v.wanted; i++ {
		p.i = (at + i) % n
		e := p.entry()
		if !e.live() || o.Volatile && e.expiry == 0 {
			continue
		}
		found = true
		v.seen++
		if score := t.score(o.Rank, e); v.seen == 1 || score > v.score {
			v.score, v.db, v.hash, v.counter = score, db, e.hash, e.counter
			v.key = append(v.key[:0], p.key()...)
		}
	}
	if o.Volatile && !found {
		p.sh.expiry = never // all of it was looked at
	}
}

// score ranks an entry: the largest goes first.
func (t *Tx) score(r Ranking, e *entry) uint64 {
	switch r {
	case RankIdle:
		return uint64(t.w.s.idle(e, t.Now()))
	case RankUses:
		t.Now()
		if u := t.w.s.uses.Load(); u != nil {
			return uint64(usesMax - u.uses(e.access&accessMask, t.w.s.minute()))
		}
	case RankExpiry:
		return ^uint64(e.expiry)
	}
	return 0
}

// evictOne deletes the victim unless it has changed meanwhile.
func (t *Tx) evictOne(v *victim) (gone bool, err error) {
	s := t.w.s
	st := &s.stripes[stripeOf(v.hash)]
	st.lock()
	defer t.unlock(st)
	t.Use(v.db)
	p := s.find(t.tb, v.hash, v.key)
	if p.i < 0 || !p.entry().live() || p.entry().counter != v.counter {
		return false, nil
	}
	size := DeleteSize(len(v.key))
	if err := t.open(size, 1, volume.ClassReclaim); err != nil {
		return false, err
	}
	t.bury(p, size, "evicted")
	t.close()
	return true, nil
}
