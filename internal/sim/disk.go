package sim

import (
	"slices"
	"time"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

// disk is one server's view of the device: it dies with the server, counts what is on its way, and remembers where the frames
// of this generation lie, so that the adversary can cut where it hurts.
type disk struct {
	*memdev.Device
	w         *world
	s         *server
	queues    int
	frames    []frameWrite
	prefix    int               // frames that are done, together with all before them
	committed map[epoch.Tag]int // prefix when the commit of a tag was first sent
	manifests []manifestWrite
}

// manifestWrite is a manifest of this generation, and how many frames there were when one named it.
type manifestWrite struct {
	lba     device.LBA
	n       device.BlockCount
	done    bool
	namedBy int
}

// frameWrite is one frame on its way to the disk, or there.
type frameWrite struct {
	lba       device.LBA
	n         device.BlockCount
	done      bool
	manifests int  // how many were written before it
	reused    bool // something else was written there since
}

// The committer's tokens (volume/committer.go): a frame has its number above, this below.
const (
	tokenFrame    = 1
	tokenManifest = 2
)

// Info implements device.Device.
func (d *disk) Info() device.Info {
	info := d.Device.Info()
	info.Exclusive = !d.w.p.shared
	return info
}

// NewQueue implements device.Device.
func (d *disk) NewQueue(depth int) (device.Queue, error) {
	q, err := d.Device.NewQueue(depth)
	d.queues++
	return &queue{q, d, d.queues == 1}, err
}

// Reserve implements device.Device. While a volume opens, which sleeps between its questions, the answer comes at once.
func (d *disk) Reserve(n device.BlockCount) (bool, error) {
	for {
		done, err := d.Device.Reserve(n)
		if done || err != nil || d.s.v != nil {
			return done, err
		}
	}
}

// queue is a queue of a disk.
type queue struct {
	device.Queue
	d         *disk
	committer bool // the first one is
}

// Submit implements device.Queue. Volume and readers submit one write or flush at a time.
func (q *queue) Submit(reqs []device.Request) (int, error) {
	d := q.d
	if len(reqs) == 0 {
		return q.Queue.Submit(reqs)
	}
	if reqs[0].Op == device.OpRead {
		d.w.keys.read()
		return q.Queue.Submit(reqs)
	}
	what := "flush"
	if reqs[0].Op == device.OpWrite {
		d.w.keys.write()
		what = "write"
	}
	d.s.trip.step(what, true)
	n, err := q.Queue.Submit(reqs)
	if n > 0 && reqs[0].Op == device.OpWrite {
		if d.s.v != nil && q.committer {
			d.submitted(&reqs[0])
		}
	}
	d.s.trip.step(what, false)
	return n, err
}

// submitted remembers what a serving volume writes.
func (d *disk) submitted(r *device.Request) {
	n := device.BlocksFor(len(r.Buf))
	d.checkReuse(r.LBA, n)
	switch r.Token & 0xff {
	case tokenFrame:
		d.frames = append(d.frames, frameWrite{r.LBA, n, false, len(d.manifests), false})
		if seq := int(r.Token >> 8); seq != len(d.frames) {
			failf("simulator: frame %d submitted as number %d", len(d.frames), seq)
		}
		if i := len(d.manifests) - 1; i >= 0 && d.manifests[i].done && d.manifests[i].namedBy == 0 {
			d.manifests[i].namedBy = len(d.frames)
		}
	case tokenManifest:
		d.manifests = append(d.manifests, manifestWrite{lba: r.LBA, n: n})
	}
}

// checkReuse: the place of a frame is free again once a later manifest has left its segment out, and the frame that named that one
// is committed, durably. (That its keys are never used again is keySource's to see: 5.1.) The place of a manifest is free again once
// two later ones were published, and the frame that named the second is
// committed, durably (DESIGN.md 6.2).
func (d *disk) checkReuse(lba device.LBA, n device.BlockCount) {
	if d.w.fenced {
		return
	}
	rec := d.w.counter.Durable(d.w.store())
	committed := d.committed[rec.Current.Tag]
	if rec.Before.Value > 0 { // a restart may be one commit behind
		committed = d.committed[rec.Before.Tag]
	}
	for i := range d.frames {
		f := &d.frames[i]
		if f.reused || lba+device.LBA(n) <= f.lba || f.lba+device.LBA(f.n) <= lba {
			continue
		}
		f.reused = slices.ContainsFunc(d.manifests[min(f.manifests, len(d.manifests)):], func(m manifestWrite) bool {
			return m.namedBy != 0 && m.namedBy <= committed
		})
		if !f.reused {
			failf("6.2: block %d of this generation's journal is used again before what freed it is committed", lba)
		}
	}
	for i := range d.manifests {
		m := &d.manifests[i]
		if lba+device.LBA(n) <= m.lba || m.lba+device.LBA(m.n) <= lba {
			continue
		}
		if i+2 >= len(d.manifests) || d.manifests[i+2].namedBy == 0 || d.manifests[i+2].namedBy > committed {
			failf("6.2: block %d is used again before what freed it is committed", lba)
		}
		m.n = 0
	}
}

// Poll implements device.Queue.
func (q *queue) Poll(out []device.Completion) (int, error) {
	n, err := q.Queue.Poll(out)
	q.done(out[:n])
	return n, err
}

// Wait implements device.Queue. When nothing comes, time passes.
func (q *queue) Wait(out []device.Completion, timeout time.Duration) (int, error) {
	n, err := q.Queue.Wait(out, timeout)
	if n == 0 {
		q.d.w.clock.advance(timeout)
	}
	q.done(out[:n])
	return n, err
}

func (q *queue) done(list []device.Completion) {
	d := q.d
	if d.s.v == nil || !q.committer {
		return
	}
	for _, c := range list {
		if n := len(d.manifests); c.Token&0xff == tokenManifest && n > 0 {
			d.manifests[n-1].done = true
		}
		if c.Token&0xff != tokenFrame || c.Err != nil {
			continue
		}
		if i := int(c.Token>>8) - 1; i < len(d.frames) {
			d.frames[i].done = true
		}
	}
	for d.prefix < len(d.frames) && d.frames[d.prefix].done {
		d.prefix++
	}
}

// unfinished says whether a write is on its way.
func (d *disk) unfinished() bool {
	for _, f := range d.frames[d.prefix:] {
		if !f.done {
			return true
		}
	}
	return false
}

// trip is a crash in the middle of Open: at the nth step that leaves a trace, before or after it took effect.
type trip struct {
	w      *world
	left   int // steps until it happens; 0: never
	before bool
	power  bool
	at     string // where it happened; "" while it has not
	cancel func()
}

// step counts a step of Open and cuts the server off if it is the chosen one.
func (t *trip) step(what string, before bool) bool {
	if t.left == 0 || before != t.before {
		return false
	}
	if t.left--; t.left > 0 {
		return false
	}
	t.at = what + " (after)"
	if before {
		t.at = what + " (before)"
	}
	t.w.cut(t.power)
	t.cancel()
	return true
}
