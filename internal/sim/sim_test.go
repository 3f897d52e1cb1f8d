package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	timeFlag  = flag.Duration("sim.time", simTime(), "how long TestSim simulates")
	seedsFlag = flag.Uint64("sim.seeds", 0, "how many seeds TestSim simulates instead; for soaks")
	firstFlag = flag.Uint64("sim.first", 1, "the first seed of TestSim")
)

// TestMain trades memory for time: a seed's world is small and short-lived.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// simTime is the default of -sim.time: what CVMSTORE_SIM says, or 5 s.
func simTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("CVMSTORE_SIM")); err == nil {
		return d
	}
	return 5 * time.Second
}

// replayLine is what to type to see a failure again.
func replayLine(seed uint64, mutant int) string {
	line := fmt.Sprintf("go test ./internal/sim -run 'TestSeed$' -v -seed=%d", seed)
	if mutant != 0 {
		line += fmt.Sprintf(" -mutant=%d", mutant)
	}
	return line
}

// tail runs a failed seed again and returns the last lines of its trace.
func tail(seed uint64) string {
	const lines = 25
	var list []string
	Run(seed, Options{Trace: func(l string) {
		if len(l) > 200 {
			l = l[:200] + "..."
		}
		if list = append(list, l); len(list) > lines {
			list = list[1:]
		}
	}})
	return strings.Join(list, "\n")
}

// TestSim: no seed breaks a promise.
func TestSim(t *testing.T) {
	start := time.Now()
	var next, done, full, commands, crashes, restarts atomic.Uint64
	next.Store(*firstFlag - 1)
	var mu sync.Mutex
	counts := map[string]int{}
	failures := 0
	var failed []string // what to type to see them again
	more := func() bool {
		if *seedsFlag > 0 {
			return next.Load() < *firstFlag-1+*seedsFlag
		}
		return time.Since(start) < *timeFlag
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for more() {
				r := Run(next.Add(1), Options{})
				if r.Full {
					full.Add(1)
				} else {
					done.Add(1)
				}
				commands.Add(uint64(r.Commands))
				crashes.Add(uint64(r.Crashes))
				restarts.Add(uint64(r.Restarts))
				mu.Lock()
				for k, n := range r.Counts {
					counts[k] += n
				}
				if r.Err != nil {
					if failures++; failures <= 10 {
						failed = append(failed, fmt.Sprintf("seed %d: %.200v\n  replay: %s", r.Seed, r.Err, replayLine(r.Seed, 0)))
						t.Errorf("seed %d: %.3000v\nreplay: %s\n%s", r.Seed, r.Err, replayLine(r.Seed, 0), tail(r.Seed))
					}
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	took := time.Since(start)
	n := done.Load()
	t.Logf("%d seeds (and %d that a full volume cut short) in %.1fs (%.0f a second, %d workers), %d commands, %d restarts, %d crashes with writes on their way, %d failures",
		n, full.Load(), took.Seconds(), float64(n)/took.Seconds(), runtime.GOMAXPROCS(0), commands.Load(), restarts.Load(), crashes.Load(), failures)
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("  %8d %s", counts[k], k)
	}
	if n >= 300 {
		checkCoverage(t, counts)
	}
	if failures > 0 { // last, so that what a log is cut to still says it
		t.Errorf("%d seeds failed:\n%s", failures, strings.Join(failed, "\n"))
	}
}

// checkCoverage: each class of fault was injected, and surfaced where it can.
func checkCoverage(t *testing.T, counts map[string]int) {
	t.Helper()
	for _, want := range []string{
		"kill", "power cut", "clean stop", "busy", "full", "expired", "crash in Open: opening commit (before)", "crash in Open: opening commit (after)",
		"crash in Open: counter Open (after)", "crash in Open: flush (after)", "crash in Open: write (after)",
		"counter: request lost", "counter: answer lost", "counter: late message", "counter: replayed message",
		"delayed write", "read error", "read error in Open", "torn read", "dropped read",
		"write error, lost", "write error, landed", "write error, torn", "surfaced: fail-stop", "surfaced: fault in Open", "surfaced: read error",
		"adversary: uncommitted frames hidden", "adversary: committed frames hidden", "adversary: hidden frames shown", "adversary: older superblock",
		"adversary: older disk", "adversary: older and newer blocks mixed", "adversary: versions mixed", "adversary: blocks swapped",
		"adversary: bit flipped", "adversary: block zeroed", "adversary: blank disk", "adversary: second server on a copy",
		"adversary: blocks changed under a running server",
		"surfaced: tampered start refused", "surfaced: tampered start accepted", "surfaced: tampered read", "surfaced: fenced",
		"surfaced: durable replies lost to the adversary", "surfaced: unacknowledged batches lost",
	} {
		if counts[want] == 0 {
			t.Errorf("never happened: %s", want)
		}
	}
}

// TestSeedsAreReproducible: the same seed does the same, step by step.
func TestSeedsAreReproducible(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		var first, second []string
		a := Run(seed, Options{Trace: func(l string) { first = append(first, l) }})
		b := Run(seed, Options{Trace: func(l string) { second = append(second, l) }})
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Fatalf("seed %d, line %d:\n%s\n%s", seed, i, first[i], second[i])
			}
		}
		if len(first) != len(second) || !maps.Equal(a.Counts, b.Counts) {
			t.Fatalf("seed %d: %d and %d lines", seed, len(first), len(second))
		}
		if a.Err == nil && (a.Commands < 200 || a.Clients < 4 || a.Crashes < 1 || a.Restarts < 1) && !a.Full {
			t.Errorf("seed %d is too small: %+v", seed, a)
		}
	}
}
