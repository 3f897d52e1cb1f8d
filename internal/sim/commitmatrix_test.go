package sim

import (
	"fmt"
	"testing"

	"cvmstore/epoch/epochtest"
	"cvmstore/volume"
)

// TestCommitMatrix: a crash at each step of the commit rule, in each mode, as a kill or a power cut, with an honest disk or one on which
// all that may be hidden is: the next start succeeds, what was acknowledged is there as far as the mode promises (the world
// checks that), and the store goes on.
func TestCommitMatrix(t *testing.T) {
	modes := map[string]func(*plan){
		"ordered":           func(*plan) {},
		"blocking":          func(p *plan) { p.blocking = true },
		"parallel":          func(p *plan) { p.parallel = true },
		"parallel blocking": func(p *plan) { p.parallel, p.blocking = true, true },
	}
	steps := []struct {
		name string
		do   func(*scenario)
	}{
		{"applied, no frame yet", func(*scenario) {}},
		{"frame on its way", func(s *scenario) { s.steps(1) }},
		{"frame durable, commit on its way", func(s *scenario) { s.steps(30) }},
		{"commit never arrived", func(s *scenario) { s.commitMeets(epochtest.FaultLost); s.steps(30); s.deliver() }},
		{"commit arrived, its answer was lost", func(s *scenario) { s.commitMeets(epochtest.FaultAnswer); s.steps(30); s.deliver() }},
		{"answer lost, sent again", func(s *scenario) {
			s.commitMeets(epochtest.FaultAnswer)
			s.steps(30)
			s.deliver()
			s.settleRetry()
		}},
		{"answered", func(s *scenario) { s.steps(30); s.deliver(); s.steps(30) }},
		{"answered, the next on its way", func(s *scenario) {
			s.steps(30)
			s.deliver()
			s.steps(30)
			s.clients[0].replies = nil
			s.set("d")
			s.steps(5)
		}},
	}
	rows := 0
	for mode, tune := range modes {
		for _, step := range steps {
			for power := range 2 {
				for hostile := range 2 {
					for seed := uint64(1); seed <= scenarioSeeds/12; seed++ {
						rows++
						r := Directed(seed, func(p *plan) { p.async = true; tune(p) }, func(s *scenario) {
							s.start()
							s.setAt("a", volume.LevelFresh)
							s.setAt("b", volume.LevelFresh)
							s.clients[0].level = volume.LevelFresh
							s.set("c")
							step.do(s)
							if power == 0 {
								s.kill()
							} else {
								s.powerCut()
							}
							if hostile == 1 {
								s.hideAllowed()
							}
							s.start()
							s.setAt("d", volume.LevelFresh)
							s.kill()
							s.start()
						})
						if r.Err != nil {
							t.Errorf("%s", fmt.Sprintf("%s, %s, power cut %d, hostile %d, disk seed %d: %v", mode, step.name, power, hostile, seed, r.Err))
						}
					}
				}
			}
		}
	}
	t.Logf("%d rows", rows)
}

func (s *scenario) commitMeets(f epochtest.Fault) { s.nextCommit = f }

// settleRetry lets time pass until the request that had no answer is sent again and answered.
func (s *scenario) settleRetry() {
	for range 20 {
		s.clock.advance(50e6)
		s.step()
		s.deliver()
	}
}

// hideAllowed takes away every frame of the last run behind what the counter holds.
func (s *scenario) hideAllowed() {
	for s.counter.Drop() { // what is still under way would demand more
	}
	from := s.dead.committed[s.record().Current.Tag]
	if s.record().Before.Value > 0 {
		from = s.dead.committed[s.record().Before.Tag]
	}
	s.genuine, s.tampered = s.disk.Snapshot(), true
	for _, f := range s.dead.frames[from:] {
		s.disk.Rewind(f.lba, -1)
	}
}
