package bench

// cleaning is a reference for the write amplification of log cleaning: the same segments, records and choice of victims as the
// volume's, as counts in memory, without summaries, manifests, padding or pacing.
type cleaning struct {
	perSegment int
	place      []int32 // of each record: segment
	segments   []cleanSegment
	free       []int32
	open       int32
	filled     int
	clock      int64
	written    int64
}

type cleanSegment struct {
	live    int
	closed  bool
	born    int64 // when it was closed
	records []int32
}

// simulateCleaning overwrites records drawn from c, writes times the number of records, in a log of so many segments, and
// returns writes done by writes asked for, over the last two thirds.
func simulateCleaning(c *chooser, segments, perSegment, writes int) float64 {
	s := &cleaning{perSegment: perSegment, place: make([]int32, c.n), segments: make([]cleanSegment, segments), open: -1}
	for i := range s.place {
		s.place[i] = -1
	}
	for i := range segments {
		s.free = append(s.free, int32(segments-1-i))
	}
	for r := range c.n {
		s.write(int32(r))
	}
	var asked, before int64
	for i := range writes {
		if i == writes/3 {
			asked, before = 0, s.written
		}
		s.write(int32(c.next()))
		asked++
		for len(s.free) < 3 {
			if !s.clean() {
				return 0
			}
		}
	}
	return float64(s.written-before) / float64(asked)
}

func (s *cleaning) write(r int32) {
	if s.open < 0 || s.filled == s.perSegment {
		if s.open >= 0 {
			s.segments[s.open].closed, s.segments[s.open].born = true, s.clock
		}
		s.clock++
		s.open, s.free, s.filled = s.free[len(s.free)-1], s.free[:len(s.free)-1], 0
		s.segments[s.open] = cleanSegment{records: s.segments[s.open].records[:0]}
	}
	if p := s.place[r]; p >= 0 {
		s.segments[p].live--
	}
	seg := &s.segments[s.open]
	seg.records = append(seg.records, r)
	seg.live++
	s.place[r] = s.open
	s.filled++
	s.written++
}

// clean empties the segment with the best ratio of benefit to cost.
func (s *cleaning) clean() bool {
	best, most := int32(-1), 0.0
	for i := range s.segments {
		g := &s.segments[i]
		if !g.closed || g.live == s.perSegment {
			continue
		}
		u := float64(g.live) / float64(s.perSegment)
		if score := (1 - u) / (1 + u) * float64(s.clock-g.born+1); best < 0 || score > most {
			best, most = int32(i), score
		}
	}
	if best < 0 {
		return false
	}
	s.segments[best].closed = false
	for _, r := range s.segments[best].records {
		if s.place[r] == best {
			s.write(r)
		}
	}
	s.free = append(s.free, best)
	return true
}
