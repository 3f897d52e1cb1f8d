package sim

import (
	"errors"
	"testing"
	"time"

	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

const windowOps = 8

func windowPlan(tune func(*plan)) func(*plan) {
	return func(p *plan) {
		p.async, p.epochOps, p.pipeline = true, windowOps, 1000
		if tune != nil {
			tune(p)
		}
	}
}

// fill sets keys at level durable, delivering the first commits of the counter only, until mutations are held. It returns how many
// were acknowledged.
func (s *scenario) fill(deliver int) (acknowledged int) {
	cl := s.clients[0]
	cl.level = volume.LevelDurable
	for {
		s.set("k")
		for n := 0; cl.now != nil || len(cl.replies) > 0; n++ {
			if n > 300 {
				if cl.now == nil {
					failf("scenario: a durable reply never leaves")
				}
				cl.now = nil
				return acknowledged
			}
			s.step()
			if s.counter.Pending() > 0 && deliver > 0 {
				deliver--
				s.counter.Deliver()
			}
			if cl.now != nil {
				s.act(cl)
			}
		}
		acknowledged++
	}
}

// restored kills the server and starts another on an older disk.
func (s *scenario) restored(image *memdev.Snapshot) error {
	s.counter.Kill()
	s.kill()
	for s.counter.Drop() { // what was under way is lost for good
	}
	s.genuine, s.tampered = s.disk.Snapshot(), true
	s.disk.Restore(image)
	s.healed = true
	return s.tryStart(trip{})
}

// rollEnds lets the next segment be opened, whose frames would make durable and commit what they find.
func (s *scenario) rollEnds() {
	for range 300 {
		s.step()
		s.deliver()
	}
}

// The window of each mode, exactly: a host that restores the oldest disk that the counter allows takes that many acknowledged
// changes from clients that chose the level durable, and no more can be uncommitted; one commit further back is refused.
func TestWindowsAreExact(t *testing.T) {
	for _, row := range []struct {
		name    string
		tune    func(*plan)
		deliver int // commits that reach the counter after the disk was copied
		lost    int // epochs that the copy then takes; -1: it is refused
	}{
		{"non-blocking", nil, 0, 2},
		{"non-blocking, one commit later", nil, 1, -1},
		{"blocking", func(p *plan) { p.blocking = true }, 0, 1},
		{"blocking, one commit later", func(p *plan) { p.blocking = true }, 1, -1},
		{"three epochs", func(p *plan) { p.epochsMax = 3 }, 0, 3},
		{"PARALLEL", func(p *plan) { p.parallel = true }, 0, 2},
		{"PARALLEL, one commit later", func(p *plan) { p.parallel = true }, 1, 3},
		{"PARALLEL, two commits later", func(p *plan) { p.parallel = true }, 2, -1},
		{"PARALLEL and blocking, one commit later", func(p *plan) { p.parallel, p.blocking = true, true }, 1, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := Directed(1, windowPlan(row.tune), func(s *scenario) {
				s.start()
				s.rollEnds()
				image, acknowledged := s.disk.Snapshot(), 0
				acknowledged = s.fill(row.deliver)
				window := s.p.windowEpochs()
				if want := (window + row.deliver) * windowOps; acknowledged != want {
					failf("4.4: %d changes were acknowledged before mutations were held, %d epochs are %d", acknowledged, window+row.deliver, want)
				}
				err := s.restored(image)
				if row.lost < 0 {
					if !errors.Is(err, volume.ErrRollback) {
						failf("the older disk: %v", err)
					}
					return
				}
				if err != nil {
					failf("the disk that the counter allows: %v", err)
				}
				if left := len(s.model.batches); left != 0 || acknowledged != row.lost*windowOps {
					failf("%d acknowledged, %d left; the table says that %d epochs of %d may be lost", acknowledged, left, row.lost, windowOps)
				}
			})
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
}

// What fresh loses: nothing under ORDERED; under PARALLEL the last epoch, and the one before not.
func TestFreshWindows(t *testing.T) {
	for _, row := range []struct {
		name     string
		parallel bool
		after    int // fresh replies after the disk was copied
		refused  bool
	}{
		{"ORDERED", false, 1, true},
		{"PARALLEL, the last", true, 1, false},
		{"PARALLEL, the last two", true, 2, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := Directed(1, func(p *plan) { p.parallel = row.parallel }, func(s *scenario) {
				s.start()
				s.setAt("a", volume.LevelFresh)
				s.rollEnds()
				image, n := s.disk.Snapshot(), len(s.model.batches)
				for range row.after {
					s.setAt("a", volume.LevelFresh)
				}
				err := s.restored(image)
				switch {
				case row.refused && !errors.Is(err, volume.ErrRollback):
					failf("a disk without an acknowledged fresh change: %v", err)
				case !row.refused && (err != nil || len(s.model.batches) != n):
					failf("the disk one commit behind: %v, %d batches", err, len(s.model.batches))
				}
			})
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
}

// everysec: a reply leaves at once, so a kill may take it; a second later it is durable and stays.
func TestEverySecondWindow(t *testing.T) {
	r := Directed(1, nil, func(s *scenario) {
		s.start()
		s.rollEnds()
		s.clients[0].level = volume.LevelEverySec
		s.set("a")
		s.release()
		if len(s.clients[0].replies) != 0 {
			failf("everysec waited")
		}
		s.clock.advance(900 * time.Millisecond)
		s.steps(50)
		s.kill()
		s.start()
		if len(s.model.batches) != 0 {
			failf("everysec: %d changes outlived a kill within the second: it is stronger than its table", len(s.model.batches))
		}
		s.clients[0].level = volume.LevelEverySec
		s.set("a")
		s.release()
		s.clock.advance(time.Second)
		for n := 0; n < 300; n++ {
			s.step()
		}
		s.kill()
		s.start()
		if len(s.model.batches) != 1 {
			failf("everysec: lost what was applied more than a second before")
		}
	})
	if r.Err != nil {
		t.Error(r.Err)
	}
}
