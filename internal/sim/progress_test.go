package sim

import (
	"fmt"
	"testing"

	"cvmstore/volume"
)

// A batch that needs several segments gets them though nobody else writes: nothing that a roll waits for comes with a later commit
// only. (In PARALLEL a segment's summary is due with the commit after the one that its last frame was in. A roll waited for that,
// and the batch for the roll.)
func TestALargeBatchGetsItsSegments(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		for before := range 8 {
			r := Directed(uint64(before+1), func(p *plan) {
				p.parallel, p.blocksMax, p.epochOps, p.epochBytes = parallel, 4096, 16, 32<<10
				p.epochLength = 1_000_000
			}, func(s *scenario) {
				s.start()
				for range before {
					s.batch(1, 6000)
				}
				for range 3 {
					s.batch(16, 7000)
				}
			})
			if r.Err != nil {
				t.Errorf("PARALLEL %v, after %d writes: %v", parallel, before, r.Err)
			}
		}
	}
}

// batch runs an MSET of n keys and waits for its reply at fresh.
func (s *scenario) batch(n, size int) {
	cl := s.clients[0]
	cl.level = volume.LevelFresh
	c := &command{verb: vMSet}
	for i := range n {
		s.values++
		c.keys = append(c.keys, fmt.Appendf(nil, "k%d", i))
		c.vals = append(c.vals, fmt.Appendf(nil, "%*d", size, s.values))
	}
	cl.now = c
	s.heal()
	if err := s.srv.v.Err(); err != nil {
		failf("%v", err)
	}
}
