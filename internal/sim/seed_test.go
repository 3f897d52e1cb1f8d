package sim

import (
	"flag"
	"testing"

	"cvmstore/internal/mutant"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "the one seed that TestSeed runs; -v shows its trace")
	mutantFlag = flag.Int("mutant", 0, "a deliberate bug (number in internal/mutant) to run it with")
)

// TestSeed replays one seed: what a failure of TestSim or TestMutants prints.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed")
	}
	mutant.Set(mutant.ID(*mutantFlag))
	defer mutant.Set(mutant.None)
	o := Options{}
	if testing.Verbose() {
		o.Trace = func(line string) { t.Log(line) }
	}
	if r := Run(*seedFlag, o); r.Err != nil {
		t.Errorf("seed %d: %v", r.Seed, r.Err)
	} else {
		t.Logf("%+v", r.Counts)
	}
}
