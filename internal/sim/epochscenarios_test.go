package sim

import (
	"context"
	"errors"
	"time"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
	"cvmstore/volume"
)

// What the counter's protocol promises, and chance meets too seldom.

func init() { scenarios = append(scenarios, protocolScenarios...) }

func leased(p *plan) { p.lease, p.bounded = 10*time.Second, true }

// fresh says whether the newest state counts as fresh now.
func (s *scenario) fresh() bool {
	applied, _, _ := s.srv.v.Watermarks()
	return s.srv.v.Reached(applied, volume.LevelFresh)
}

// another is what another server's Open does to this one.
func (s *scenario) another() {
	s.fenced = true
	if _, err := s.counter.Open(context.Background(), s.store()); err != nil {
		failf("another Open: %v", err)
	}
}

var protocolScenarios = []directed{
	{"an idle server keeps its lease", mutant.None, leased, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		for range 100 {
			s.clock.advance(900 * time.Millisecond)
			if !s.fresh() {
				failf("9: the lease lapsed though the counter answers")
			}
			s.step()
		}
	}},
	{"once its lease has ended a fenced server calls nothing fresh", mutant.ForgetLease, leased, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.another()
		s.clock.advance(9 * time.Second)
		if !s.fresh() {
			failf("9: the lease ended early")
		}
		s.clock.advance(2 * time.Second)
		if s.fresh() {
			failf("9: fresh after the lease")
		}
		s.steps(3)
		if err := s.srv.v.Err(); !errors.Is(err, volume.ErrFenced) {
			failf("9: fenced at its next commit, but says %v", err)
		}
	}},
	{"the lease counts from when the commit began", mutant.LeaseFromAnswer, func(p *plan) { leased(p); p.async = true }, func(s *scenario) {
		s.start()
		s.clock.advance(5 * time.Second)
		s.steps(2) // a renewal leaves
		s.clock.advance(4 * time.Second)
		s.deliver()
		s.v().Step()
		s.clock.advance(5 * time.Second)
		if !s.fresh() {
			failf("9: the lease that the renewal brought ended early")
		}
		s.clock.advance(2 * time.Second)
		if s.fresh() {
			failf("9: the lease was counted from the answer")
		}
	}},
	{"after an authorised rollback frames behind the tag do not count", mutant.AcceptAfterRollback, nil, authorisedRollback},
	{"after an authorised rollback the value goes on above what was replaced", mutant.IgnoreFloor, nil, authorisedRollback},
	{"a replayed rollback order is refused", mutant.None, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		r := s.record()
		if _, err := r.RolledBack(r.Gen-1, r.Current.Tag, epoch.State{Value: 1, Tag: epoch.Tag{1}}); !errors.Is(err, epoch.ErrConflict) {
			failf("an order for an earlier generation: %v", err)
		}
	}},
	{"a clone of the running VM that commits another branch stops this one", mutant.None, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		r := s.record()
		branch := epoch.CommitRequest{
			Store: r.Store, Gen: r.Gen, Expected: r.Current.Tag, Value: r.Current.Value + 1, Tag: epoch.Tag{0xc1},
		}
		s.counter.Replay(branch)
		s.fenced = true
		s.clients[0].level = volume.LevelFresh
		s.set("a")
		s.steps(20)
		if err := s.srv.v.Err(); !errors.Is(err, volume.ErrFenced) || s.record().Current.Tag != branch.Tag {
			failf("compare and swap: two branches of one generation: %v", err)
		}
		if len(s.clients[0].replies) == 0 && s.ackFresh == s.model.newest() {
			failf("compare and swap: the second branch was acknowledged")
		}
		s.srv.bury()
		s.srv = nil
	}},
	{"a replayed Open fences, and shows nothing old", mutant.IgnoreFence, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.another()
		s.clients[0].level = volume.LevelFresh
		s.set("a")
		s.steps(20)
		if err := s.srv.v.Err(); !errors.Is(err, volume.ErrFenced) {
			failf("9: after another Open: %v", err)
		}
		s.kill()
		s.start()
		s.setAt("a", volume.LevelFresh)
	}},
	{"one volume, registered as two stores", mutant.None, nil, func(s *scenario) {
		s.start()
		s.setAt("a", volume.LevelFresh)
		s.kill()
		right := s.keys
		s.keys = newKeySourceOf([16]byte{2}, s.seed, s.p.suite)
		if err := s.counter.Create(context.Background(), s.store()); err != nil {
			failf("create: %v", err)
		}
		if err := s.tryStart(trip{}); !errors.Is(err, volume.ErrForeign) {
			failf("6.5: the volume of another store: %v", err)
		}
		s.keys = right
		s.start()
	}},
	{"PARALLEL is refused where another server may take over", mutant.None, func(p *plan) { p.shared, p.parallel = true, true }, func(s *scenario) {
		if err := s.tryStart(trip{}); err == nil {
			failf("4.6: PARALLEL on a shared device")
		}
	}},
	{"a server that is far behind its counter's answers holds", mutant.None, func(p *plan) { p.async, p.epochLength = true, time.Millisecond }, func(s *scenario) {
		s.start()
		s.clients[0].level = volume.LevelEverySec
		s.set("a")
		s.clock.advance(2 * time.Second)
		s.steps(5) // its commit is under way, and stays so
		s.set("b")
		s.steps(5)
		s.clock.advance(2 * time.Second)
		s.steps(5)
		s.set("c")
		if s.clients[0].now == nil {
			failf("4.4: a mutation was admitted long after the counter stopped answering")
		}
		s.settleReplies() // it answers again
		if s.clients[0].now != nil {
			failf("4.4: held for ever")
		}
	}},
}

func (s *scenario) v() *volume.Volume { return s.srv.v }

// authorisedRollback goes back to a state and forward from it.
func authorisedRollback(s *scenario) {
	s.start()
	s.setAt("a", volume.LevelFresh)
	target, last := s.record().Current, s.model.newest()
	s.setAt("b", volume.LevelFresh)
	s.setAt("c", volume.LevelDurable)
	s.kill()
	image := s.disk.Snapshot() // the copy that the owner goes back to has frames behind the target
	s.start()                  // so that the value is far above the target's
	s.setAt("b", volume.LevelFresh)
	s.kill()
	s.disk.Restore(image)
	replaced := s.record().Current.Value
	s.counter.Edit(s.store(), func(r *epoch.Record) {
		next, err := r.RolledBack(r.Gen, r.Current.Tag, target)
		if err != nil {
			failf("rollback: %v", err)
		}
		*r = next
	})
	s.ackFresh, s.ackDurable = last, last
	s.start()
	if s.srv.tap.last != last {
		failf("6.4.2: rolled back to %d, recovered %d", last, s.srv.tap.last)
	}
	if now := s.record().Current.Value; now <= replaced {
		failf("9: the value went down from %d to %d", replaced, now)
	}
	s.setAt("b", volume.LevelFresh)
	s.kill()
	s.start()
}
