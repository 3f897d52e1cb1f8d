package sim

import (
	"context"
	"errors"
	"testing"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/volume"
)

// directed is a scenario that chance meets too seldom, or whose trace is a rule's reason (model/honest.py holes, model/hostile.py):
// with the rule it holds for each seed of the disk, and with the mutant that takes the rule out, some seed breaks a promise.
type directed struct {
	name   string
	mutant mutant.ID
	tune   func(*plan)
	script func(*scenario)
}

var scenarios = []directed{
	{"what a kill left in the cache is flushed before the opening frame", mutant.NoFlushBeforeOpening, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.clients[0].level = volume.LevelDurable
		s.set("b")
		s.steps(1)
		s.kill()
		s.start()
		s.powerCut()
		s.start()
	}},
	{"the superblock is durable before the opening commit", mutant.CommitBeforeSuperblock, nil, func(s *scenario) {
		s.crashInOpen(stepCommit, false, false)
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.kill()
		s.crashInOpen(stepSuperblock, true, true)
		s.start()
	}},
	{"the opening superblock goes to the slot that recovery did not use", mutant.SlotInTurn, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.kill()
		for range 3 {
			s.crashInOpen(stepCommit, true, false)
		}
		s.start()
	}},
	{"an older superblock serves when the newer one was never committed", mutant.NewestSlotOnly, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.kill()
		s.crashInOpen(stepCommit, true, true)
		s.start()
	}},
	{"the embedded counter is flushed after the opening commit", mutant.CounterNotSynced, func(p *plan) { p.lagging = true }, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelDurable)
		s.powerCut()
		s.start()
		s.setAt("b", volume.LevelFresh)
		s.powerCut()
		s.start()
	}},
	{"a segment takes frames only once a superblock lists it", mutant.UseSegmentEarly, smallSegments, func(s *scenario) {
		s.start()
		for range 12 {
			s.setAt("a", volume.LevelDurable)
		}
		s.powerCut()
		s.start()
	}},
	{"the segment with the committed tag stays while the server rolls on", mutant.None, smallSegments, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		for range 20 {
			s.setAt("b", volume.LevelDurable)
		}
		s.kill()
		s.start()
		s.powerCut()
		s.start()
	}},
	{"a start that was not committed leaves no trace", mutant.AcceptOlderManifest, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		committed := s.srv.disk.prefix
		s.setAt("b", volume.LevelDurable)
		s.kill()
		var lbas []device.LBA
		var contents [][]byte
		for _, f := range s.dead.frames[committed:] {
			lbas, contents = append(lbas, f.lba), append(contents, s.disk.Peek(f.lba))
			s.disk.Poke(f.lba, make([]byte, device.BlockSize))
		}
		s.crashInOpen(stepCommit, true, false)
		for i := range lbas {
			s.disk.Poke(lbas[i], contents[i])
		}
		s.start()
	}},
	{"frames of a generation that was never committed are ignored", mutant.AcceptAnyGeneration, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.kill()
		s.crashInOpen(stepCommit, true, false)
		s.crashInOpen(stepCommit, true, false)
		s.start()
	}},
	{"a suffix that was hidden at one start does not come back at the next", mutant.None, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		committed := s.srv.disk.prefix
		s.setAt("b", volume.LevelDurable)
		s.setAt("b", volume.LevelDurable)
		s.kill()
		for _, f := range s.dead.frames[committed:] {
			s.hidden = append(s.hidden, hiddenBlock{f.lba, s.disk.Peek(f.lba)})
			s.disk.Poke(f.lba, make([]byte, device.BlockSize))
		}
		s.tampered, s.genuine = true, s.disk.Snapshot()
		s.start() // b is gone, allowed: it was durable, not fresh
		s.setAt("c", volume.LevelFresh)
		s.kill()
		for _, h := range s.hidden {
			s.disk.Poke(h.lba, h.content)
		}
		s.start()
	}},
	{"an older disk is refused", mutant.AcceptOlderTag, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		old := s.disk.Snapshot()
		s.setAt("a", volume.LevelFresh)
		s.kill()
		now := s.disk.Snapshot()
		for _, image := range []*memdev.Snapshot{old, memdev.New(memdev.Options{Blocks: s.p.blocks}).Snapshot()} {
			s.disk.Restore(image)
			if err := s.tryStart(trip{}); !errors.Is(err, volume.ErrRollback) {
				failf("older or blank disk: %v", err)
			}
		}
		s.disk.Restore(now)
		s.start()
	}},
	{"a volume without a record is refused", mutant.None, nil, func(s *scenario) {
		s.start()
		s.kill()
		record := s.counter.Snapshot()
		s.counter.Restore(nil)
		if err := s.tryStart(trip{}); !errors.Is(err, epoch.ErrNoRecord) {
			failf("no record: %v", err)
		}
		s.counter.Restore(record)
		s.start()
	}},
	{"after an authorised rollback no frame behind the tag is accepted", mutant.None, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		target, last := s.record().Current, s.model.newest()
		s.setAt("b", volume.LevelFresh)
		s.setAt("c", volume.LevelDurable)
		s.kill()
		s.counter.Edit(s.store(), func(r *epoch.Record) {
			r.Current, r.Before, r.Gen = epoch.State{Value: target.Value, Tag: target.Tag}, epoch.State{}, r.Gen+1
		})
		s.ackFresh, s.ackDurable = last, last
		s.start()
		if s.srv.tap.last != last {
			failf("rolled back to %d, recovered %d", last, s.srv.tap.last)
		}
	}},
	{"of two servers that race to open copies, the one that looked first is refused", mutant.SkipSecondLook, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.kill()
		loser, tr := s.disk, &trip{}
		sv := s.newServer(loser, tr)
		sv.line.raced = func() {
			s.world.disk = memdev.Fork(loser.Snapshot(), memdev.Options{Manual: true, Seed: s.seed, History: true})
			s.start()
			s.setAt("b", volume.LevelFresh)
		}
		if err := sv.open(); !errors.Is(err, volume.ErrRollback) {
			failf("the loser of the race: %v", err)
		}
		sv.bury()
		s.fenced = true // the loser's Open did that
		s.clients[0].level = volume.LevelFresh
		s.set("c")
		s.steps(20)
		if err := s.srv.v.Err(); !errors.Is(err, volume.ErrFenced) {
			failf("the winner was fenced, but says %v", err)
		}
		s.kill()
		s.start()
	}},
	{"a store that loses a record is found out", mutant.DropMultiset, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.setAt("b", volume.LevelFresh)
		s.setAt("a", volume.LevelFresh)
		s.kill()
		for nth := 1; nth <= 3; nth++ {
			sv, n := s.newServer(s.disk, &trip{}), 0
			sv.tap.swallow = func(r volume.Record) bool {
				if sv.tap.records == 1 {
					n = 0
				}
				n++
				return n == nth
			}
			// Of the first value of a, only the second one's predecessor is missing: no difference at the end.
			if err := sv.open(); nth != 1 && !errors.Is(err, volume.ErrCorrupt) {
				failf("without record %d: %v", nth, err)
			} else if err == nil {
				s.cut(false)
			}
			sv.bury()
		}
	}},
	{"a record is served for the counter that the index expects only", mutant.SkipCounterCheck, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		t := &s.srv.dump
		s.srv.space.Begin(t, 0, [][]byte{[]byte("a")})
		_, _, err := t.Load([]byte("a"), keyspace.TypeString)
		t.End()
		if !errors.Is(err, keyspace.ErrMiss) {
			failf("load: %v", err)
		}
		f := t.Misses()[0]
		if _, err := s.srv.v.Read(context.Background(), f); err != nil {
			failf("read: %v", err)
		}
		f.Counter++
		if _, err := s.srv.v.Read(context.Background(), f); !errors.Is(err, volume.ErrCorrupt) {
			failf("read for another counter: %v", err)
		}
	}},
}

func smallSegments(p *plan) { p.segmentBlocks, p.frameBytes = 4, 4096 }

// scenarioSeeds is how many seeds of the disk each scenario gets.
var scenarioSeeds = func() uint64 {
	if raceEnabled {
		return 12
	}
	return 60
}()

// TestScenarios: each directed scenario holds, and its mutant breaks it.
func TestScenarios(t *testing.T) {
	defer mutant.Set(mutant.None)
	for _, d := range scenarios {
		t.Run(d.name, func(t *testing.T) {
			mutant.Set(mutant.None)
			for seed := uint64(1); seed <= scenarioSeeds; seed++ {
				if r := Directed(seed, d.tune, d.script); r.Err != nil {
					t.Fatalf("disk seed %d: %.2000v", seed, r.Err)
				}
			}
			if d.mutant == mutant.None {
				return
			}
			mutant.Set(d.mutant)
			for seed := uint64(1); seed <= scenarioSeeds; seed++ {
				if r := Directed(seed, d.tune, d.script); r.Err != nil {
					t.Logf("%s: disk seed %d: %.120v", mutantNames[d.mutant], seed, r.Err)
					return
				}
			}
			t.Errorf("%s was not caught", mutantNames[d.mutant])
		})
	}
}
