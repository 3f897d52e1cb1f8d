package sim

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cvmstore/internal/mutant"
)

var mutantTimeFlag = flag.Duration("sim.mutanttime", 90*time.Second, "how long TestMutants tries seeds on one mutant")

// mutantNames are the mutants that this package hunts.
var mutantNames = map[mutant.ID]string{
	mutant.SkipFlush:              "SkipFlush",
	mutant.AckBeforeDurable:       "AckBeforeDurable",
	mutant.AckBeforeCommit:        "AckBeforeCommit",
	mutant.DurableNotPrefix:       "DurableNotPrefix",
	mutant.IgnoreChain:            "IgnoreChain",
	mutant.AcceptAnyGeneration:    "AcceptAnyGeneration",
	mutant.AcceptOlderTag:         "AcceptOlderTag",
	mutant.AcceptOlderManifest:    "AcceptOlderManifest",
	mutant.NewestSlotOnly:         "NewestSlotOnly",
	mutant.SlotInTurn:             "SlotInTurn",
	mutant.CommitBeforeSuperblock: "CommitBeforeSuperblock",
	mutant.UseSegmentEarly:        "UseSegmentEarly",
	mutant.NoFlushBeforeOpening:   "NoFlushBeforeOpening",
	mutant.CounterNotSynced:       "CounterNotSynced",
	mutant.ReuseNonce:             "ReuseNonce",
	mutant.ReuseCounter:           "ReuseCounter",
	mutant.DropMultiset:           "DropMultiset",
	mutant.SkipMultisetUpdate:     "SkipMultisetUpdate",
	mutant.ReleaseUnverified:      "ReleaseUnverified",
	mutant.SkipCounterCheck:       "SkipCounterCheck",
	mutant.PartialBatch:           "PartialBatch",
	mutant.ForgetTombstone:        "ForgetTombstone",
	mutant.ExpireEarly:            "ExpireEarly",
	mutant.IgnoreWriteError:       "IgnoreWriteError",
	mutant.FreeEarly:              "FreeEarly",
	mutant.SkipBlobFlush:          "SkipBlobFlush",
	mutant.FreeBlobEarly:          "FreeBlobEarly",
	mutant.FreeBlobUnderReader:    "FreeBlobUnderReader",
	mutant.ReleaseBlobUnverified:  "ReleaseBlobUnverified",
	mutant.ForgetBlobs:            "ForgetBlobs",
	mutant.StaleCache:             "StaleCache",
	mutant.LoseDelete:             "LoseDelete",
	mutant.SplitTransaction:       "SplitTransaction",
	mutant.IgnoreWatch:            "IgnoreWatch",
	mutant.SummaryUncommitted:     "SummaryUncommitted",
	mutant.ManifestBeforeSummary:  "ManifestBeforeSummary",
	mutant.MoveWithoutLock:        "MoveWithoutLock",
	mutant.MoveNewCounter:         "MoveNewCounter",
	mutant.DropTombstone:          "DropTombstone",
	mutant.CompactLosesRecord:     "CompactLosesRecord",

	mutant.CommitBeforeDurable: "CommitBeforeDurable",
	mutant.ParallelAhead:       "ParallelAhead",
	mutant.FreshNotDurable:     "FreshNotDurable",
	mutant.ParallelFreesEarly:  "ParallelFreesEarly",
	mutant.KeepBefore:          "KeepBefore",
	mutant.OneEpochMore:        "OneEpochMore",
	mutant.BlockingLeaks:       "BlockingLeaks",
	mutant.ForgetEpochs:        "ForgetEpochs",
	mutant.RetryAsNew:          "RetryAsNew",
	mutant.AssumeCommitted:     "AssumeCommitted",
	mutant.IgnoreFence:         "IgnoreFence",
	mutant.SkipSecondLook:      "SkipSecondLook",
	mutant.ForgetLease:         "ForgetLease",
	mutant.LeaseFromAnswer:     "LeaseFromAnswer",
	mutant.AcceptAfterRollback: "AcceptAfterRollback",
	mutant.IgnoreFloor:         "IgnoreFloor",
}

// directedOnly are the mutants that no random seed can meet, because other checks stop the same attack first, or because what they
// guard against is a bug of a store.
var directedOnly = map[mutant.ID]string{
	mutant.AcceptOlderManifest: "matters to fresh data only once manifests drop segments",
	mutant.DropMultiset:        "guards against a store that loses records",
	mutant.ForgetLease:         "a second server waits for the first to die, so nothing old is ever served",
	mutant.LeaseFromAnswer:     "the same",
	mutant.AcceptAfterRollback: "the owner's order is no accident",
	mutant.IgnoreFloor:         "the same",
	mutant.SkipCounterCheck:    "the place and the segment's life are in the associated data",
}

// TestMutants: each deliberate bug is caught by some seed, or by its directed scenario. The switch is one for the process, so
// mutants go one by one.
func TestMutants(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the mutants show that the checks work; the race detector adds nothing")
	}
	defer mutant.Set(mutant.None)
	for _, id := range mutant.All() {
		name := mutantNames[id]
		if name == "" {
			name = fmt.Sprint("mutant ", id)
		}
		t.Run(name, func(t *testing.T) {
			mutant.Set(id)
			defer mutant.Set(mutant.None)
			start := time.Now()
			if directedOnly[id] == "" {
				seeds, caught := hunt()
				if caught != nil {
					t.Logf("%-24s %5d seeds %6.1fs: seed %d: %.150v", name, seeds, time.Since(start).Seconds(), caught.Seed, caught.Err)
					return
				}
				t.Logf("%-24s not caught in %d seeds", name, seeds)
			}
			for _, d := range scenarios {
				for seed := uint64(1); d.mutant == id && seed <= scenarioSeeds; seed++ {
					if r := Directed(seed, d.tune, d.script); r.Err != nil {
						t.Logf("%-24s directed (%s): %.150v", name, d.name, r.Err)
						return
					}
				}
			}
			t.Errorf("%-24s not caught", name)
		})
	}
}

// hunt runs seeds until one fails.
func hunt() (seeds uint64, caught *Result) {
	start := time.Now()
	var next atomic.Uint64
	var mu sync.Mutex
	var found atomic.Bool
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for !found.Load() && time.Since(start) < *mutantTimeFlag {
				r := Run(next.Add(1), Options{})
				if r.Err == nil {
					continue
				}
				found.Store(true)
				mu.Lock()
				if caught == nil || r.Seed < caught.Seed {
					caught = r
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return next.Load(), caught
}
