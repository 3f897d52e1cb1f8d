// Package sim is the simulator of DESIGN.md section 11. One seed drives everything that a store depends on: the disk
// (ioengine/memdev), the trusted counter (epoch/epochtest), the host's clock, and at least four clients that use keyspace and
// kvs on a real volume as resp does. All of it runs in one goroutine that never sleeps, so a seed is a run that can be repeated.
//
// In comes a seed; out comes a Result: what was done, which faults were injected and which of them surfaced, and the first
// broken promise, if any. A seed is at least 200 commands by at least four clients, at least one crash while writes are on their
// way to the disk, and at least one restart.
//
// # Who does what
//
//   - plan draws what a seed decides once; world holds what outlives a server: disk, counter, clock, model.
//   - server is one run on the disk: a volume, its keyspace, and between them and the world a disk (the server's view of the
//     device), a line (its view of the counter) and a tap (what recovery replays).
//   - client has a level (DESIGN.md 4.1) and a queue of replies that leave when what they saw has reached it.
//   - model is the dumb twin: maps, and a journal of all batches in commit order that can be cut back.
//   - adversary changes the disk between runs (and under a running server), fork starts a second server on a copy.
//
// # How to run it
//
// TestSim simulates for -sim.time (5 s; the environment's CVMSTORE_SIM=2m in CI) or -sim.seeds seeds (a soak), on all processors;
// a failure prints the line that replays it, which runs TestSeed. TestMutants hunts each deliberate bug of internal/mutant.
// TestScenarios and TestCrashMatrix run scripted scenarios with the same world and the same checks: the traces of
// model/honest.py and model/hostile.py, and what chance meets too seldom.
//
// # What is checked
//
// Each reply equals the model's, and each change that the keyspace makes is the one that the model expects. A reply that left
// depended on nothing that had not reached its level, by the model's own account. After each start the recovered state is the
// model's state at the end of some batch (whole batches only, each value read back from the disk), at or after everything
// acknowledged: at fresh always, at durable too unless the disk was tampered with. What that cut off never comes back, since
// the journal no longer has it. A start may be refused only if the disk was tampered with, must be if a committed frame was
// removed, and the right disk always starts. Counters are never handed out twice, keys of segments never derived twice for
// writing, store time never goes back nor runs ahead of a bounded counter, and at most two epochs are uncommitted. Histories of
// single keys are linearizable (porcupine). Nothing panics.
package sim
