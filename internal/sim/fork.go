package sim

import (
	"errors"

	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// fork starts a second server on a copy of the disk, with the one counter there is. The first goes on for a while and must not
// acknowledge anything at fresh that the second does not have; then it dies, and the second serves.
func (w *world) fork() {
	if w.fenced || w.full {
		return
	}
	first := w.srv
	image, current := w.disk.Snapshot(), true
	if len(w.archive) > 0 && chance(w.rng, 30) {
		image, current = choose(w.rng, w.archive...), false
	}
	dev := memdev.Fork(image, memdev.Options{
		BlocksMax: w.p.blocksMax, Seed: w.rng.Uint64(), Manual: true, History: true, TransferBlocks: 256,
	})
	w.count("adversary: second server on a copy")
	before := w.record()
	s := w.newServer(dev, &trip{})
	was := w.healed
	w.healed = true
	err := s.open()
	w.healed = was
	w.fenced = w.record().Gen != before.Gen
	w.note("adversary: a second server on a copy (of now: %v): %v", current, err)
	if err != nil {
		s.bury()
		switch {
		case errors.Is(err, volume.ErrFull):
			w.full = true
		case current:
			failf("a server on an exact copy was refused: %v", err)
		case w.fenced && errors.Is(err, volume.ErrRollback) && before.Current == w.record().Current:
			failf("6.4.1: a refused start fenced the running server")
		}
		return
	}
	dev.SetFault(w.diskFault)
	for range 30 + w.rng.IntN(100) { // the first server, fenced
		w.tick()
		if w.failedFor > failedMax {
			break
		}
	}
	w.archive = append(w.archive[:min(len(w.archive), archiveMax-1)], w.disk.Snapshot())
	w.note("the first server dies, the second serves")
	w.endServer(func() { first.line.dead = true })
	w.disk, w.srv = dev, s
	w.fenced, w.failedFor, w.tampered = false, 0, true
	w.checkRecovered(s)
	w.becomeGenuine()
}
