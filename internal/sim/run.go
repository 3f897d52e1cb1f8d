package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/volume"
)

// runsMax bounds the starts of a seed.
const runsMax = 80

// live is a whole seed: runs between crashes, until the commands are spent; then all faults end, and everything must work.
func (w *world) live() {
	for run := 1; w.commands < w.p.commands || w.result.Crashes == 0 || w.result.Restarts == 0; run++ {
		if run > runsMax {
			failf("simulator: %d runs, %d commands and %d crashes", run, w.commands, w.result.Crashes)
		}
		if w.srv == nil && !w.startServer() {
			w.histories.check()
			return
		}
		w.serve(min(w.p.commands, w.commands+w.p.commands/w.p.runs))
	}
	if w.startServer() {
		w.heal()
		w.stop()
		w.healed = true
		w.startServer()
	}
	w.histories.check()
	w.checkSecrecy()
}

// checkSecrecy: nothing that clients wrote can be read off the disk (promise C).
func (w *world) checkSecrecy() {
	if w.seed%16 != 0 {
		return
	}
	for lba := range device.LBA(w.disk.Info().Blocks) {
		for _, content := range append(w.disk.History(lba), w.disk.Peek(lba)) {
			if bytes.Contains(content, []byte("efghijkl")) { // part of most values
				failf("C: block %d holds part of a value", lba)
			}
		}
	}
}

// serve runs the server until the clients have begun so many commands, or until it must be restarted, and ends it.
func (w *world) serve(until int) {
	quiet := 0
	for first := true; first || w.commands < until && w.failedFor < failedMax; first = false {
		before := w.commands
		w.tick()
		if quiet++; w.commands > before {
			quiet = 0
		}
		if quiet > 20_000 {
			failf("the server makes no progress: %v", w.stuck())
		}
	}
	if w.failedFor == 0 && chance(w.rng, 12) {
		w.heal()
		w.stop()
		w.healed = false
		return
	}
	w.crash()
}

// tick is one step of whoever the seed picks.
func (w *world) tick() {
	rng, s := w.rng, w.srv
	if chance(rng, w.p.compacting) {
		w.compact()
		w.step()
	}
	switch r := rng.IntN(100); {
	case r < 40:
		w.act(w.clients[rng.IntN(len(w.clients))])
	case r < 75:
		w.step()
	case r < 85:
		w.passTime()
	case r < 95:
		if w.p.async && (!w.p.slowCounter || chance(rng, 15)) {
			w.deliver()
		} else {
			w.step()
		}
	case r < 97:
		w.expireCycle()
	default:
		if w.p.adversary {
			w.disturb()
		}
	}
	if w.failedFor > 0 || s.v.Err() != nil {
		w.failedFor++
		w.release()
	}
}

// failedMax is how many steps a server that failed goes on answering reads before it is restarted.
const failedMax = 40

func (w *world) step() {
	w.srv.v.Step()
	if w.srv.reader.Outstanding() > 0 {
		w.srv.poll()
	}
	if w.srv.blobs.Busy() {
		w.srv.blobs.Step()
	}
	w.release()
	w.checkTime()
	w.checkEverySecond()
}

// checkEverySecond: after a step, what was applied more than a second ago is durable or on its way (DESIGN.md 4.1).
func (w *world) checkEverySecond() {
	s := w.srv
	if s.v.Err() != nil || s.disk.unfinished() {
		return
	}
	_, durable, _ := s.v.Watermarks()
	for _, b := range slices.Backward(w.model.batches) {
		if b.last <= durable {
			return
		}
		if age := w.clock.mono - b.mono; age > memoryMax {
			failf("4.1: counter %d was applied %v ago, and is neither durable nor on its way", b.last, age)
		}
	}
}

// memoryMax is how long a change may wait in memory while steps are taken.
const memoryMax = time.Second

// compact is what volume.Maintain does, in steps that the seed decides on. Small volumes need it to go on at all.
func (w *world) compact() {
	s := w.srv
	for range 1 + w.rng.IntN(4) {
		for more := true; more && chance(w.rng, 90); {
			more, _ = s.space.Tidy(s.v)
		}
		more, err := s.v.Compact()
		switch {
		case err == nil:
		case errors.Is(err, volume.ErrBusy), errors.Is(err, volume.ErrFull), s.v.Err() != nil:
			return
		case errors.Is(err, errInjected), errors.Is(err, volume.ErrCorrupt) && (w.readsTampered || w.mayBeDamaged):
			w.count("surfaced: compaction that could not read")
			return
		default:
			failf("compaction: %v", err)
		}
		if !more {
			return
		}
		w.count("compaction step")
	}
}

func (w *world) expireCycle() {
	s := w.srv
	s.events = s.events[:0]
	s.space.ExpireCycle(1 + w.rng.IntN(10))
	// The cycle's own transaction began at this time; nothing moved since.
	s.expiries(s.v.Now())
}

// passTime lets the clocks run, mostly a little; the host may let them jump.
func (w *world) passTime() {
	switch r := w.rng.IntN(100); {
	case r < 60:
		w.clock.advance(time.Duration(w.rng.IntN(2000)) * time.Microsecond)
	case r < 95:
		w.clock.advance(time.Duration(w.rng.IntN(50)) * time.Millisecond)
	case r < 99 || !w.p.clockJumps:
		w.clock.advance(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	default:
		w.count("clock jump: " + w.clock.jump(w.rng))
	}
}

// checkTime: store time never goes back, and is at most 10 s ahead of a bounded counter's clock (DESIGN.md 4.7).
func (w *world) checkTime() {
	now := w.srv.v.Now()
	if now < w.storeTime {
		failf("4.7: store time went back from %d to %d", w.storeTime, now)
	}
	w.storeTime = now
	if limit := int64(w.clock.trueTime()) + stampLead.Milliseconds(); w.p.bounded && now > limit {
		failf("4.7: store time is %d, the counter's clock allows %d", now, limit)
	}
}

// stampLead is how far store time may run ahead of the last stamp.
const stampLead = 10 * time.Second

// crash ends the server in the middle of what it does, most of the time while writes are on their way.
func (w *world) crash() {
	for range 50 {
		if w.srv.disk.unfinished() || w.failedFor > 0 {
			break
		}
		w.tick()
	}
	power := chance(w.rng, 30)
	if w.p.powerCutsLikely {
		power = chance(w.rng, 80)
	}
	w.note("crash, power cut: %v", power)
	w.endServer(func() { w.cut(power) })
	if !power && chance(w.rng, 20) {
		w.note("power cut while down")
		w.cut(true)
	}
}

// endServer takes the server away by how, and remembers where its frames lie.
func (w *world) endServer(how func()) {
	s := w.srv
	how()
	if len(s.disk.manifests) > 0 {
		clear(w.openings)
	}
	w.dead, w.deadState = s.disk, w.record().Current
	s.bury()
	w.disconnect()
	w.srv = nil
}

// heal ends all faults and waits until everything that waits is answered: in a world without faults the server gets there.
func (w *world) heal() {
	w.healed, w.stopping = true, true
	for n := 0; w.waiting() && w.srv.v.Err() == nil; n++ {
		if n > 20_000 {
			failf("without faults, the server makes no progress: %v", w.stuck())
		}
		for _, cl := range w.clients {
			w.act(cl)
		}
		w.step()
		w.deliver()
		w.clock.advance(time.Millisecond)
	}
	w.stopping = false
}

func (w *world) waiting() bool {
	for _, cl := range w.clients {
		if cl.now != nil || len(cl.replies) > 0 {
			return true
		}
	}
	return false
}

func (w *world) stuck() string {
	applied, durable, fresh := w.srv.v.Watermarks()
	text := fmt.Sprintf("applied %d, durable %d, fresh %d, error %v", applied, durable, fresh, w.srv.v.Err())
	for _, cl := range w.clients {
		if cl.now != nil {
			text += fmt.Sprintf("; client %d at %v (%d reads)", cl.id, cl.now, cl.fetching)
		}
		for _, r := range cl.replies {
			text += fmt.Sprintf("; client %d (%v) waits for %d", cl.id, cl.level, r.seen)
		}
	}
	return text
}

// stop closes the volume: then everything is durable and committed.
func (w *world) stop() {
	v := w.srv.v
	if v.Err() != nil {
		w.crash()
		return
	}
	applied, _, _ := v.Watermarks()
	v.Want(applied, volume.LevelFresh)
	for n := 0; !v.Reached(applied, volume.LevelFresh); n++ {
		if n > 20_000 || v.Err() != nil {
			failf("the volume cannot be closed: %v", w.stuck())
		}
		w.step()
		w.deliver()
		w.clock.advance(time.Millisecond)
	}
	if err := errors.Join(w.srv.blobs.Close(), w.srv.probe.Close()); err != nil {
		failf("close: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := v.Close(ctx); err != nil {
		failf("close: %v", err)
	}
	w.srv.closed = true
	w.note("closed")
	w.count("clean stop")
	w.ackFresh, w.ackDurable = max(w.ackFresh, w.model.newest()), max(w.ackDurable, w.model.newest())
	w.endServer(func() {})
}
