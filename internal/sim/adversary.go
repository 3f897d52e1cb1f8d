package sim

import (
	"bytes"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

// The adversary keeps every version of every block (memdev's history), images of the whole disk, and every message to the counter.
// Between runs it makes of the disk what it likes; the right content is kept aside for when the start is refused.

// hiddenBlock is a block that was hidden at a start, for a later one.
type hiddenBlock struct {
	lba     device.LBA
	content []byte
}

// archiveMax bounds the images that the adversary keeps.
const archiveMax = 8

// remember takes an image of the whole disk.
func (w *world) remember() {
	if len(w.archive) == archiveMax {
		i := w.rng.IntN(archiveMax)
		w.archive = append(w.archive[:i], w.archive[i+1:]...)
	}
	w.archive = append(w.archive, w.disk.Snapshot())
}

// tamper changes the disk between two runs.
func (w *world) tamper() {
	w.genuine = w.disk.Snapshot()
	w.tampered, w.mustRefuse = true, ""
	if chance(w.rng, 20) {
		w.remember()
	}
	for range 1 + w.rng.IntN(10)/8 {
		w.mustRefuse = "" // the next change may undo it
		what := w.tamperOnce()
		w.note("adversary: %s", what)
		w.count("adversary: " + what)
	}
}

func (w *world) tamperOnce() string {
	switch r := w.rng.IntN(100); {
	case r < 45:
		return w.hideFrames()
	case r < 60:
		return w.rewindSuperblock()
	case r < 70:
		return w.showHidden()
	case r < 78 && len(w.archive) > 0:
		w.disk.Restore(choose(w.rng, w.archive...))
		return "older disk"
	case r < 84 && len(w.archive) > 0:
		return w.splice(choose(w.rng, w.archive...))
	case r < 88:
		return w.mixVersions()
	case r < 92:
		w.disk.Swap(w.written(), w.written())
		return "blocks swapped"
	case r < 96:
		w.disk.FlipBit(w.written(), w.rng.IntN(8*device.BlockSize))
		return "bit flipped"
	case r < 98:
		w.disk.Poke(w.written(), make([]byte, device.BlockSize))
		return "block zeroed"
	}
	w.disk.Restore(memdev.New(memdev.Options{Blocks: w.p.blocks}).Snapshot())
	if w.record().Current.Value > 0 {
		w.mustRefuse = "the disk was blank and the counter was not at 0"
	}
	return "blank disk"
}

func (w *world) blocks() device.BlockCount { return w.disk.Info().Blocks }

// written returns a block that was written at some time.
func (w *world) written() device.LBA {
	for range 100 {
		if lba := device.LBA(w.rng.Uint64N(uint64(w.blocks()))); len(w.disk.History(lba)) > 0 {
			return lba
		}
	}
	return 0
}

// hideFrames takes away a frame of the last run, or all from one on: as if they had not been written yet. If one of them was
// committed, the start is refused, or all that was in it is missed when it is read.
func (w *world) hideFrames() string {
	d := w.dead
	if d == nil || len(d.frames) == 0 {
		return w.rewindSuperblock()
	}
	committed := d.committed[w.deadState.Tag]
	from := w.rng.IntN(len(d.frames))
	if committed < len(d.frames) && chance(w.rng, 70) {
		from = committed + w.rng.IntN(len(d.frames)-committed)
	}
	to := len(d.frames)
	if chance(w.rng, 30) {
		to = from + 1 + w.rng.IntN(2)
	}
	for i := from; i < min(to, len(d.frames)); i++ {
		f := d.frames[i]
		if uint64(f.lba)+uint64(f.n) > uint64(w.blocks()) {
			continue
		}
		old := w.disk.Peek(f.lba)
		w.rewind(f.lba)
		if bytes.Equal(old, w.disk.Peek(f.lba)) {
			continue // nothing newer was there
		}
		w.hidden = append(w.hidden, hiddenBlock{f.lba, old})
	}
	if from >= committed {
		return "uncommitted frames hidden"
	}
	return "committed frames hidden"
}

// rewind gives a block an older version than the one that is there, or zeros.
func (w *world) rewind(lba device.LBA) {
	h := w.disk.History(lba)
	now := w.disk.Peek(lba)
	for len(h) > 0 && !bytes.Equal(h[len(h)-1], now) {
		h = h[:len(h)-1]
	}
	version := -1
	if len(h) > 1 && chance(w.rng, 50) {
		version = w.rng.IntN(len(h) - 1)
	}
	w.disk.Rewind(lba, version)
}

func (w *world) rewindSuperblock() string {
	slot := device.LBA(w.rng.IntN(2))
	h := w.disk.History(slot)
	if len(h) == 0 {
		return "nothing"
	}
	w.disk.Rewind(slot, max(len(h)-1-w.rng.IntN(4), 0))
	if chance(w.rng, 20) {
		w.disk.Swap(0, 1)
		return "superblock slots swapped"
	}
	return "older superblock"
}

// showHidden puts back what an earlier start was not shown.
func (w *world) showHidden() string {
	if len(w.hidden) == 0 {
		return w.hideFrames()
	}
	for _, h := range w.hidden {
		if chance(w.rng, 80) && uint64(h.lba) < uint64(w.blocks()) {
			w.disk.Poke(h.lba, h.content)
		}
	}
	return "hidden frames shown"
}

// splice takes a run of blocks from an older image.
func (w *world) splice(old *memdev.Snapshot) string {
	other := memdev.Fork(old, memdev.Options{})
	n := min(uint64(old.Blocks()), uint64(w.blocks()))
	from := w.rng.Uint64N(n)
	for i := from; i < min(from+1+w.rng.Uint64N(n), n); i++ {
		w.disk.Poke(device.LBA(i), other.Peek(device.LBA(i)))
	}
	return "older and newer blocks mixed"
}

// mixVersions gives some of the blocks some version of theirs.
func (w *world) mixVersions() string {
	percent := 1 + w.rng.IntN(30)
	for lba := range device.LBA(w.blocks()) {
		if h := w.disk.History(lba); len(h) > 0 && chance(w.rng, percent) {
			w.disk.Rewind(lba, w.rng.IntN(len(h)+1)-1)
		}
	}
	return "versions mixed"
}

// disturb is what the host does under a running server.
func (w *world) disturb() {
	switch r := w.rng.IntN(100); {
	case r < 35:
		w.remember()
	case r < 65:
		w.replayMessage()
	case r < 95:
		w.tamperReads()
	default:
		w.fork()
	}
}

// replayMessage sends an old commit to the counter again.
func (w *world) replayMessage() {
	if len(w.messages) == 0 {
		return
	}
	before := w.record()
	req := choose(w.rng, w.messages...)
	w.counter.Replay(req)
	w.count("counter: replayed message")
	if after := w.record(); after.Current != before.Current && req.Tag != after.Current.Tag {
		failf("a replayed commit changed the counter from %+v to %+v", before, after)
	}
}

// tamperReads changes blocks while the server reads them, and puts them back. What is read meanwhile is right or an error.
func (w *world) tamperReads() {
	s := w.srv
	was, wasTampered := w.healed, w.readsTampered
	w.healed, w.readsTampered = true, true
	defer func() { w.healed, w.readsTampered = was, wasTampered }()
	changed, contents := []device.LBA{}, [][]byte{}
	for range 1 + w.rng.IntN(8) {
		lba := w.written()
		now := w.disk.Peek(lba)
		switch w.rng.IntN(3) {
		case 0:
			w.disk.FlipBit(lba, w.rng.IntN(8*device.BlockSize))
		case 1:
			w.rewind(lba)
		default:
			w.disk.Poke(lba, w.disk.Peek(w.written()))
		}
		changed, contents = append(changed, lba), append(contents, now)
	}
	w.count("adversary: blocks changed under a running server")
	w.readSome(s)
	for i := len(changed) - 1; i >= 0; i-- {
		w.disk.Poke(changed[i], contents[i])
	}
}
