package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"cvmstore/epoch"
	"cvmstore/keyspace"
	"cvmstore/volume"
)

// startsMax bounds how often a server is started until it serves.
const startsMax = 40

// startServer starts a server, through crashes in the middle of Open and through what the adversary does, until one serves. It
// returns false if the seed ends here: the volume is full.
func (w *world) startServer() bool {
	if w.dead != nil {
		w.result.Restarts++
	}
	for try := 0; ; try++ {
		if try > startsMax {
			failf("no start in %d tries", try)
		}
		w.downtime(try)
		tr := &trip{}
		if !w.healed && try < 5 && chance(w.rng, 35) {
			tr.left, tr.before, tr.power = 1+w.rng.IntN(10), chance(w.rng, 50), chance(w.rng, 50)
		}
		w.faultInOpen, w.writeFault = false, false
		s := w.newServer(w.disk, tr)
		err := s.open()
		if w.settle(s, tr, err) {
			if w.ended {
				w.endServer(func() { w.cut(false) })
			}
			return !w.ended
		}
		if err == nil {
			continue
		}
		s.bury()
		if errors.Is(err, volume.ErrFull) && tr.at == "" {
			if w.p.blocksMax > 1000 && !w.full || len(w.openings) < openingsMin && !w.p.adversary {
				failf("a volume of %d blocks cannot be started after %d starts: %v", w.p.blocksMax, len(w.openings), err)
			}
			w.count("start: full")
			w.result.Full = true
			return false
		}
		if !w.refused(tr, err) {
			return false
		}
	}
}

// openingsMin is how many starts a volume has room for, however full it is: what a server leaves when it opens no segment more.
const openingsMin = 2

// downtime is what happens while nobody serves.
func (w *world) downtime(try int) {
	if w.healed {
		return
	}
	if w.p.clockJumps && chance(w.rng, 10) {
		w.count("clock jump: " + w.clock.jump(w.rng) + ", while down")
	}
	w.clock.advance(time.Duration(w.rng.IntN(100)) * time.Millisecond)
	for w.counter.Pending() > 0 && chance(w.rng, 50) {
		w.count("counter: late message")
		w.deliver()
	}
	if w.p.adversary && !w.tampered && try < 6 && (w.dead != nil || try > 0) && chance(w.rng, 50) {
		w.tamper()
	}
}

// settle takes a start's outcome. The choice of a state is final once its opening frame is committed. It reports whether the
// server serves.
func (w *world) settle(s *server, tr *trip, err error) bool {
	gen := s.line.opened.Gen
	final := gen != 0 && w.record().Current.Gen == gen
	if final {
		w.openings[gen] = true
	}
	if gen != 0 {
		w.choices[gen] = choice{s.tap.last, w.tampered, s.line.opened.Current.Value, s.line.opened.Before.Value}
	}
	if tr.at != "" {
		w.note("crash in Open of generation %d: %s", gen, tr.at)
		w.count("crash in Open: " + tr.at)
	}
	if final && w.tampered {
		w.note("generation %d is committed on the tampered disk", gen)
		w.count("surfaced: tampered start accepted")
		if w.mustRefuse != "" {
			failf("a start was accepted, though %s", w.mustRefuse)
		}
	}
	if err == nil && tr.at == "" {
		w.srv = s
		w.mayBeDamaged = w.mayBeDamaged || w.tampered
		w.checkRecovered(s)
		w.becomeGenuine()
		w.failedFor, w.readsTampered, w.writeFault, w.syncFault, w.fenced = 0, false, false, false, false
		w.note("generation %d serves from %d", gen, s.tap.last)
		return true
	}
	if final && w.tampered { // with the embedded counter a power cut may still take it back: the disk stays
		w.ackDurable = min(w.ackDurable, s.tap.last)
		w.mayBeDamaged = true
		w.becomeGenuine()
	}
	if err == nil { // it died with its last step
		s.bury()
	}
	return false
}

// becomeGenuine: the start on the tampered disk is final, so that disk is the right one now.
func (w *world) becomeGenuine() {
	w.tampered, w.genuine, w.mustRefuse = false, nil, ""
}

// opensSeen is told of each answer to Open: if the current state is an opening frame of an earlier start, that start's choice was
// final.
func (w *world) opensSeen(r epoch.OpenReply) {
	c, ok := w.choices[r.Current.Gen]
	if !ok {
		return
	}
	w.openings[r.Current.Gen] = true // its commit was late
	delete(w.choices, r.Current.Gen)
	w.accept(c)
}

// accept makes a recovered state the one that everything goes on from. It is checked against what was acknowledged.
func (w *world) accept(c choice) {
	m := w.model
	before := m.newest()
	var floor volume.Counter
	if w.p.parallel {
		floor = m.endBefore(c.behind)
	}
	if !m.cut(c.recovered) {
		failf("the recovered state ends at counter %d, where no batch of the accepted history ends (it ends at %d)", c.recovered, before)
	}
	if c.tampered && w.p.lagging && c.base < w.ackFresh { // the embedded counter lost the commit: nothing protects it
		w.ackFresh = min(w.ackFresh, c.recovered)
		w.count("surfaced: fresh replies lost with the embedded counter's last commits")
	}
	if w.p.parallel && c.tampered && c.behind > 0 && w.ackFresh > c.recovered { // 4.6: the last epoch, not more
		if c.recovered < floor {
			failf("4.6: recovery ends at %d, more than one commit behind (the state before is %d)", c.recovered, floor)
		}
		w.ackFresh = c.recovered
		w.count("surfaced: the last epoch's fresh replies lost in PARALLEL")
	}
	if w.ackFresh > c.recovered {
		failf("an acknowledged fresh reply depends on %d, recovery ends at %d", w.ackFresh, c.recovered)
	}
	if w.ackDurable > c.recovered {
		if !c.tampered {
			failf("an acknowledged durable reply depends on %d, recovery ends at %d", w.ackDurable, c.recovered)
		}
		w.count("surfaced: durable replies lost to the adversary")
	}
	w.ackDurable = min(w.ackDurable, c.recovered)
	if before != c.recovered {
		w.count("surfaced: unacknowledged batches lost")
	}
	w.events++
	w.histories.cut(c.recovered, w.events)
}

// checkRecovered compares a server that has just opened with the model.
func (w *world) checkRecovered(s *server) {
	base := s.line.opened.Current
	gen := s.line.opened.Gen
	delete(w.choices, gen)
	highest := max(w.model.highest, base.Value, s.line.opened.Floor)
	w.accept(choice{s.tap.last, w.tampered, base.Value, s.line.opened.Before.Value})
	applied, durable, fresh := s.v.Watermarks()
	if applied != durable || durable != fresh || applied > highest+1<<32 || applied <= highest {
		failf("6.4.5: the opening frame's counter is %d, the highest before was %d", applied, highest)
	}
	w.model.highest = max(w.model.highest, applied)
	w.checkStartTime(s)
	w.compareState(s)
}

// checkStartTime: a restart begins no earlier than what the accepted frames say.
func (w *world) checkStartTime(s *server) {
	w.storeTime = s.v.Now()
	if n := len(w.model.batches); n > 0 && w.model.batches[n-1].at > w.storeTime {
		failf("4.7: store time went back over a restart, from %d to %d", w.model.batches[n-1].at, w.storeTime)
	}
}

// compareState compares all keys, expiries, counters and values with the model's. Each value is read from the device.
func (w *world) compareState(s *server) {
	was := w.healed
	w.healed = true
	defer func() { w.healed = was }()
	t := &s.dump
	w.damaged = map[dbKey]volume.Counter{}
	for db := range databases {
		s.space.BeginAll(t, db)
		n := t.DBSize()
		t.End()
		if want := len(w.model.dbs[db]); n != want {
			failf("database %d holds %d keys after recovery, the model %d", db, n, want)
		}
		for _, k := range slices.Sorted(maps.Keys(w.model.dbs[db])) {
			want := w.model.dbs[db][k]
			if want.expiry != 0 && want.expiry < s.v.Now() {
				continue // looking would delete it
			}
			val, it, err := s.load(db, []byte(k))
			if errors.Is(err, volume.ErrCorrupt) && it.Blob && it.Counter == want.counter && w.mayBeDamaged {
				w.count("surfaced: damaged blob")
				w.damaged[dbKey{db, k}] = want.counter
				continue
			}
			if errors.Is(err, volume.ErrCorrupt) && (w.tampered || w.mayBeDamaged) {
				w.count("surfaced: value damaged before the start")
				w.ended = true
				continue
			}
			if err != nil {
				failf("key %q after recovery: %v", k, err)
			}
			if !it.Exists() || it.Expiry != want.expiry || it.Counter != want.counter || val != want.val {
				failf("key %q in database %d is %.40q (%d bytes, expiry %d, counter %d) after recovery, the model says %.40q (%d bytes, expiry %d, counter %d)",
					k, db, val, len(val), it.Expiry, it.Counter, want.val, len(want.val), want.expiry, want.counter)
			}
		}
	}
}

// load reads one key, from the device if need be.
func (s *server) load(db int, key []byte) (string, keyspace.Item, error) {
	t := &s.dump
	defer t.Forget()
	var out [1]volume.Fetched
	for range 3 {
		s.space.Begin(t, db, [][]byte{key})
		val, it, err := t.Load(key, keyspace.TypeString)
		text := string(val)
		t.End()
		if !errors.Is(err, keyspace.ErrMiss) {
			return text, it, err
		}
		s.runJobs(t.Jobs())
		for _, f := range t.Misses() {
			if err := s.reader.Submit(f, 0); err != nil {
				return "", it, err
			}
			for s.reader.Poll(out[:]) == 0 {
			}
			if out[0].Err != nil {
				return "", it, out[0].Err
			}
			t.Supply(f.At, out[0].Payload)
		}
	}
	return "", keyspace.Item{}, errors.New("its value never comes")
}

// refused takes an error of Open. It returns false if the seed ends here.
func (w *world) refused(tr *trip, err error) bool {
	rollback := errors.Is(err, volume.ErrRollback)
	switch {
	case tr.at != "":
		if rollback && !w.tampered {
			failf("a crash in Open (%s) ended in a false rollback: %v", tr.at, err)
		}
		return true
	case w.p.garbage && errors.Is(err, volume.ErrForeign) && w.record().Current.Value == 0 && !w.formatForeign:
		// A power cut left noise where the claim was being written, before anything was committed: the operator is asked.
		w.count("surfaced: noise at birth")
		w.formatForeign = true
		return true
	case w.tampered:
		w.note("refused: %v", err)
		if !rollback && !errors.Is(err, volume.ErrCorrupt) && !errors.Is(err, volume.ErrForeign) && !w.faultInOpen {
			failf("a tampered disk gave an error without a name: %v", err)
		}
		w.count("surfaced: tampered start refused")
		w.disk.Restore(w.genuine)
		w.becomeGenuine()
		return true
	case w.faultInOpen:
		w.note("fault in Open: %v", err)
		if rollback {
			failf("a fault of the device or the network ended in a false rollback: %v", err)
		}
		w.count("surfaced: fault in Open")
		return true
	}
	failf("the right disk was refused: %v", err)
	return false
}
