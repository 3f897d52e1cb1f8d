package streams

import (
	"sort"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// A gap stands for entries that were deleted, one after the other, from the middle of a stream or from its end: it covers the
// counters that are missing there, as long as there is an entry before. It is also their tombstone, so it lives until the header
// covers it. Two gaps without an entry between them become one.
type gap struct {
	first, last volume.Counter // of the entries
	prev        volume.Counter // the first one's predecessor
	counter     volume.Counter // of its record
	place       volume.Place
}

// gapBefore returns the number of gaps that begin below a counter.
func (s *stream) gapBefore(c volume.Counter) int {
	return sort.Search(len(s.gaps), func(i int) bool { return s.gaps[i].first >= c })
}

// prevOf is what the entry of a counter must name as its predecessor: the entry before, whose counter is given, or the last of the
// gap between them. 0: anything below the header's lower bound.
func (s *stream) prevOf(c, before volume.Counter) volume.Counter {
	if i := s.gapBefore(c); i > 0 && s.gaps[i-1].last > before {
		return s.gaps[i-1].last
	}
	return before
}

func (s *stream) hashGap(v *volume.Volume, g *gap) volume.Sum {
	return s.hash(v, g.counter, itemGap, uint64(g.first), uint64(g.last))
}

// putGap journals that the entries of a gap are gone. It takes gapSize of the reservation. Gaps that touch it become part of it.
func (s *stream) putGap(t *keyspace.Tx, g gap) {
	i := s.gapBefore(g.first)
	j := i
	if i > 0 && s.gaps[i-1].last == g.prev {
		i--
		g.first, g.prev = s.gaps[i].first, s.gaps[i].prev
	}
	if j < len(s.gaps) && s.gaps[j].prev == g.last {
		g.last = s.gaps[j].last
		j++
	}
	for k := i; k < j; k++ {
		s.debit(t, s.hashGap(t.Volume(), &s.gaps[k]), s.gaps[k].place, gapSize)
	}
	var p []byte
	p, g.counter, g.place = t.Element(KindGap, gapSize)
	encodeGap(p, s.incarnation, &g)
	s.credit(t, s.hashGap(t.Volume(), &g), g.place, gapSize)
	if i == j {
		s.gaps = append(s.gaps, gap{})
		copy(s.gaps[i+1:], s.gaps[i:])
	} else {
		s.gaps = append(s.gaps[:i+1], s.gaps[j:]...)
	}
	s.gaps[i] = g
}

// raise moves the lower bound up to the first entry, and forgets the gaps below: the header covers them.
func (s *stream) raise(t *keyspace.Tx) {
	s.head.low = s.head.tail + 1
	if m, ok := s.index.first(); ok {
		s.head.low = m.counter
	}
	n := s.gapBefore(s.head.low)
	for i := range s.gaps[:n] {
		s.debit(t, s.hashGap(t.Volume(), &s.gaps[i]), s.gaps[i].place, gapSize)
	}
	s.gaps = append(s.gaps[:0], s.gaps[n:]...)
	if len(s.gaps) == 0 {
		s.gaps = nil
	}
}
