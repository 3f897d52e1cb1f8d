package keyspace

import "math"

// A shard is a small open-addressing hash table without pointers: entries in no particular order, slots that find them, and
// an arena with their keys. Slots grow by doubling (2 bytes each), entries and arena by an eighth, so that a million
// keys do not pay for room that nobody uses.
type shard struct {
	slots   []uint16 // power of two; 0: free; else tag<<slotTagShift | index+1; linear probing from the hash's low bits
	entries []entry
	arena   []byte
	garbage int   // bytes of the arena that belong to no entry
	expiry  int64 // no key expires before this; math.MaxInt64: none does
	depth   uint8 // how many bits of the hash, below the stripe's, all entries share
}

const (
	shardEntriesMax = 1024      // a shard with so many entries is split before the next insertion
	shardHardMax    = 1<<11 - 2 // what slots can number; reached only where splitting does not separate hashes
	slotTagShift    = 11
	slotIndexMask   = 1<<slotTagShift - 1
	slotsMin        = 8
	never           = math.MaxInt64
)

func slotTag(h uint32) uint16 { return uint16(h>>slotTagShift) << slotTagShift }

func (sh *shard) key(e *entry) []byte {
	return sh.arena[e.keyOff : int(e.keyOff)+e.keyLen() : int(e.keyOff)+e.keyLen()]
}

// find returns the index of key's entry, or -1.
func (sh *shard) find(h uint32, key []byte) int {
	if len(sh.slots) == 0 {
		return -1
	}
	mask := uint32(len(sh.slots) - 1)
	tag := slotTag(h)
	for s := h & mask; ; s = (s + 1) & mask {
		v := sh.slots[s]
		if v == 0 {
			return -1
		}
		if v&^slotIndexMask != tag {
			continue
		}
		i := int(v&slotIndexMask) - 1
		if e := &sh.entries[i]; e.hash == h && string(sh.key(e)) == string(key) {
			return i
		}
	}
}

// insert adds an entry for a key that is not there, and returns its index. The caller has made room (directory.insert).
func (sh *shard) insert(h uint32, key []byte) int {
	n := len(sh.entries)
	if n >= shardHardMax {
		panic("internal error: keyspace: shard full: the hash does not separate keys")
	}
	if (n+1)*4 > len(sh.slots)*3 {
		sh.rebuild(max(slotsMin, 2*len(sh.slots)))
	}
	sh.entries = room(sh.entries, 1)[:n+1]
	sh.arena = room(sh.arena, len(key))
	sh.entries[n] = entry{hash: h, keyOff: uint32(len(sh.arena)), lenType: uint32(len(key))}
	sh.arena = append(sh.arena, key...)
	sh.place(h, n)
	return n
}

// place points a free slot at entry i.
func (sh *shard) place(h uint32, i int) {
	mask := uint32(len(sh.slots) - 1)
	s := h & mask
	for sh.slots[s] != 0 {
		s = (s + 1) & mask
	}
	sh.slots[s] = slotTag(h) | uint16(i+1)
}

// slotOf returns the slot that points at entry i.
func (sh *shard) slotOf(i int) uint32 {
	mask := uint32(len(sh.slots) - 1)
	s := sh.entries[i].hash & mask
	for sh.slots[s]&slotIndexMask != uint16(i+1) {
		s = (s + 1) & mask
	}
	return s
}

// rebuild makes the slot table anew with n slots.
func (sh *shard) rebuild(n int) {
	sh.slots = make([]uint16, n)
	for i := range sh.entries {
		sh.place(sh.entries[i].hash, i)
	}
}

// remove takes entry i out. The last entry moves into its place, so indices do not survive it.
func (sh *shard) remove(i int) {
	sh.free(sh.slotOf(i))
	sh.garbage += sh.entries[i].keyLen()
	last := len(sh.entries) - 1
	if i != last {
		s := sh.slotOf(last)
		sh.slots[s] = sh.slots[s]&^slotIndexMask | uint16(i+1)
		sh.entries[i] = sh.entries[last]
	}
	sh.entries = sh.entries[:last]
	switch {
	case last == 0:
		*sh = shard{depth: sh.depth, expiry: never}
	case last < cap(sh.entries)/4*3 && cap(sh.entries) > slotsMin:
		sh.entries = append(fresh(sh.entries, last+last/8), sh.entries...)
		sh.rebuild(slotsFor(last))
	}
	if sh.garbage > len(sh.arena)/3 && sh.garbage > 256 {
		sh.compact()
	}
}

// free empties slot s and moves back what had been pushed past it, so that probing needs no marks.
func (sh *shard) free(s uint32) {
	mask := uint32(len(sh.slots) - 1)
	for next := s; ; {
		next = (next + 1) & mask
		v := sh.slots[next]
		if v == 0 {
			break
		}
		home := sh.entries[v&slotIndexMask-1].hash & mask
		if (next-home)&mask >= (next-s)&mask {
			sh.slots[s] = v
			s = next
		}
	}
	sh.slots[s] = 0
}

// compact copies the keys that are in use to a new arena.
func (sh *shard) compact() {
	used := len(sh.arena) - sh.garbage
	arena := fresh(sh.arena, used+used/8)
	for i := range sh.entries {
		e := &sh.entries[i]
		k := sh.key(e)
		e.keyOff = uint32(len(arena))
		arena = append(arena, k...)
	}
	sh.arena, sh.garbage = arena, 0
}

// bit says into which half of a split a hash goes.
func (sh *shard) bit(h uint32) int { return int(h << stripeBits >> (31 - sh.depth) & 1) }

// split shares out the entries to two shards, one bit deeper.
func (sh *shard) split() (halves [2]*shard) {
	var entries, bytes [2]int
	for i := range sh.entries {
		b := sh.bit(sh.entries[i].hash)
		entries[b]++
		bytes[b] += sh.entries[i].keyLen()
	}
	for b := range halves {
		halves[b] = &shard{
			slots:   make([]uint16, slotsFor(entries[b])),
			entries: fresh(sh.entries, entries[b]+entries[b]/8),
			arena:   fresh(sh.arena, bytes[b]+bytes[b]/8),
			expiry:  never,
			depth:   sh.depth + 1,
		}
	}
	for i := range sh.entries {
		e := sh.entries[i]
		half := halves[sh.bit(e.hash)]
		off := len(half.arena)
		half.arena = append(half.arena, sh.key(&e)...)
		e.keyOff = uint32(off)
		half.entries = append(half.entries, e)
		half.place(e.hash, len(half.entries)-1)
		if e.expiry != 0 && e.live() {
			half.expiry = min(half.expiry, e.expiry)
		}
	}
	return halves
}

func slotsFor(entries int) int {
	n := slotsMin
	for entries*4 > n*3 {
		n *= 2
	}
	return n
}

// room returns s with capacity for n more, grown by about an eighth rather than doubled.
func room[T any](s []T, n int) []T {
	need := len(s) + n
	if need <= cap(s) {
		return s
	}
	return append(fresh(s, max(need, len(s)+len(s)/8, 4)), s...)
}

// fresh returns an empty slice with capacity for at least n, rounded up to what the allocator hands out anyway.
func fresh[T any](_ []T, n int) []T { return append([]T(nil), make([]T, n)...)[:0] }
