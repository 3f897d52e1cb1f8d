package keyspace

// Sizer is a Type that knows how much memory its values' indexes take. One that does not say is not weighed by Used.
type Sizer interface {
	// Bytes is called often, from any goroutine, with or without locks.
	Bytes() int64
}

// slotShare is an entry's part of the slot table, which is between three eighths and three quarters full.
const slotShare = 4

// keyCost is what a key takes in the index.
func keyCost(keyLen int) int64 { return int64(entrySize + slotShare + keyLen) }

// cost is what a table's keys take in the index.
func (tb *table) cost() int64 { return int64(tb.live)*keyCost(0) + int64(tb.keyBytes) }

// Used returns the bytes that the index needs for the keys that there are: it goes down as soon as one is deleted, while what
// is allocated follows when shards shrink and garbage is collected.
func (s *Space) Used() int64 {
	n := s.indexed.Load()
	for _, z := range s.sizers {
		n += z.Bytes()
	}
	return n
}

// Allocated returns the bytes that are allocated for what Used counts. It looks at each shard, one stripe after the other.
func (s *Space) Allocated() int64 {
	n := s.Used() - s.indexed.Load()
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.Lock()
		for _, d := range st.dirs {
			if d == nil {
				continue
			}
			d.each(func(sh *shard) bool {
				n += int64(cap(sh.entries)*entrySize + cap(sh.arena) + 2*cap(sh.slots))
				return true
			})
		}
		st.mu.Unlock()
	}
	return n
}
