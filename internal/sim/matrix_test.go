package sim

import (
	"testing"

	"cvmstore/volume"
)

// TestCrashMatrix: a crash before or after each step of Open, as a kill or a power cut, at birth and later, twice in a row: the next
// start succeeds, and nothing is lost. Each row expects progress: no honest crash is refused.
func TestCrashMatrix(t *testing.T) {
	for _, lagging := range []bool{false, true} {
		for birth := range 2 {
			for step := 1; step <= stepLastSync+birth; step++ {
				for mode := range 4 {
					for seed := uint64(1); seed <= scenarioSeeds/12; seed++ {
						r := Directed(seed, func(p *plan) { p.lagging = lagging }, func(s *scenario) {
							if birth == 0 {
								s.start()
								s.setAt("a", volume.LevelFresh)
								s.clients[0].level = volume.LevelDurable
								s.set("b")
								s.steps(2)
								s.kill()
							}
							s.crashInOpen(step, mode&1 == 0, mode&2 == 0)
							s.mayCrashInOpen(step, mode&1 == 0, mode&2 != 0)
							s.start()
							s.setAt("c", volume.LevelFresh)
							s.powerCut()
							s.start()
						})
						if r.Err != nil {
							t.Errorf("birth %d, step %d, mode %d, lagging %v, disk seed %d: %v", birth, step, mode, lagging, seed, r.Err)
						}
					}
				}
			}
		}
	}
}
