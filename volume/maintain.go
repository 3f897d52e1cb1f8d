package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cvmstore/ioengine/device"
)

// Maintain compacts in the background until ctx ends or the volume fails: it starts when room runs low or garbage is too much of
// the volume, keeps pace with what is appended, goes the faster the less is left, and otherwise stays out of the way of
// clients. One goroutine runs it; a program that does not will find the volume full in the end.
func (v *Volume) Maintain(ctx context.Context) {
	c := &v.compaction
	defer c.close()
	defer c.hopeful.Store(false)
	p := pace{v: v}
	c.hopeful.Store(true)
	fulls := 0
	for ctx.Err() == nil && v.Err() == nil {
		v.tidy()
		wait := p.next()
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			continue
		}
		more, err := v.Compact()
		switch {
		case errors.Is(err, ErrFull):
			// Not even the reserve holds a move. Unless something comes back meanwhile, ordinary writes are refused.
			if fulls++; fulls >= maintainFulls && !v.freeing() {
				c.hopeful.Store(false)
			}
			p.rest(maintainIdle / 4)
		case errors.Is(err, ErrBusy):
			p.rest(maintainBusy)
		case !more:
			c.hopeful.Store(v.freeing())
			p.rest(maintainIdle)
		default:
			fulls = 0
			c.hopeful.Store(true)
		}
		if v.Err() == nil {
			v.Step()
		}
	}
}

// freeing reports whether blocks are on their way back to the allocator.
func (v *Volume) freeing() bool {
	v.leader.Lock()
	defer v.leader.Unlock()
	return len(v.emptied)+len(v.freed) > 0 || v.roll.step != rollIdle
}

// tidy lets the stores look at what has changed since segments went, a step at a time.
func (v *Volume) tidy() {
	c := &v.compaction
	if list := v.segments.Load(); list != c.tidied || v.clock.Monotonic()-c.tidiedAt >= tidyInterval {
		c.tidied, c.tidying, c.tidiedAt = list, true, v.clock.Monotonic()
	}
	if !c.tidying {
		return
	}
	c.tidying = false
	held := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Err() != nil {
		return
	}
	for _, s := range v.opts.Stores {
		if t, ok := s.(Tidier); ok {
			more, n := t.Tidy(v)
			c.tidying = c.tidying || more
			held += n
		}
	}
	c.held.Store(int64(held))
}

// tidyInterval is how often the stores are asked even if no segment went: flushes.
const tidyInterval = time.Second

func (c *compaction) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reader.close()
	c.reader = summaryReader{}
}

const (
	maintainFulls = 4                      // times in a row that no move was admitted
	maintainIdle  = 20 * time.Millisecond  // nothing to do
	maintainBusy  = 200 * time.Microsecond // the committer is behind
)

// pace decides when the next step of compaction is due. Compaction runs in bursts: it begins when room runs low and goes on until
// there is enough, so that what it moves, which lives long, fills whole segments rather than mixing with what clients write,
// which dies soon. Within a burst it leaves clients the more time the more room is left.
type pace struct {
	v       *Volume
	active  bool
	began   time.Duration // of the step under way
	resting time.Duration
}

func (p *pace) rest(d time.Duration) { p.resting = d }

const (
	paceLow   = 2   // segments: a burst begins
	paceBurst = 2   // segments that it frees at least
	paceShare = 128 // and this part of the volume
	paceYield = 3   // at the beginning of a burst it takes a quarter of the time
)

// next returns how long to wait before the next step; 0: do it now.
func (p *pace) next() time.Duration {
	now := p.v.clock.Monotonic()
	took := now - p.began
	p.began = now
	if d := p.resting; d > 0 {
		p.resting, p.began = 0, now+d
		return d
	}
	room, coming, size := p.v.room()
	low := paceLow * p.v.segmentBlocks
	high := low + max(paceBurst*p.v.segmentBlocks, size/paceShare)
	urgent := room <= p.v.segmentBlocks || p.v.wanting()
	switch {
	case urgent:
		p.active = true
		p.v.compaction.busy.Store(true)
		return 0
	case p.active && room+coming >= high:
		p.active = false
	case !p.active && room <= low:
		p.active = true
	}
	debt := device.BlockCount(0)
	if p.active && room+coming < high {
		debt = high - room - coming
	}
	p.v.compaction.debt.Store(uint64(debt.Bytes()))
	p.v.compaction.busy.Store(p.active)
	if !p.active {
		p.v.compaction.hopeful.Store(true)
		p.began = now + maintainIdle
		return maintainIdle
	}
	wait := time.Duration(float64(min(took, maintainIdle)) * paceYield * min(1, float64(room)/float64(high)))
	if wait < paceWaitMin {
		return 0
	}
	p.began += wait
	return wait
}

// Compacting reports whether a burst of compaction is under way.
func (v *Volume) Compacting() bool { return v.compaction.busy.Load() }

// paceWaitMin is what a sleep is worth.
const paceWaitMin = 50 * time.Microsecond

// wanting reports whether somebody waits for a segment.
func (v *Volume) wanting() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.noSpace || v.wantReady > len(v.ready) && len(v.ready) == 0
}

// room returns how many blocks may still be filled with ordinary batches before compaction must have freed some, how many are on
// their way back, and the size that this counts against: the volume's, or for one that may grow for long, as much as keeps
// garbage within bounds.
func (v *Volume) room() (room, coming, size device.BlockCount) {
	list := v.segments.Load().all()
	var used device.BlockCount
	live := 0
	for _, s := range list {
		used += s.taken
		live += s.liveBytes()
	}
	free := device.BlockCount(v.spare.Load())
	reserved := (reserveSegments + 1) * v.segmentBlocks
	free -= min(free, reserved)
	// Garbage may take two fifths of what the journal takes, and 64 segments are not too much anyway.
	size = max(64*v.segmentBlocks, blocksOf(live)*5/3)
	soft := size - min(size, used)
	return min(free, soft), device.BlockCount(v.coming.Load()), min(size, v.blocks)
}

// fullError says what a batch that finds no room is told.
func (v *Volume) fullError() error {
	live := 0
	for _, s := range v.segments.Load().all() {
		live += s.liveBytes()
	}
	return fmt.Errorf("%w: %d MiB of %d MiB are live; delete keys, or let the volume grow (volume-size)", ErrFull,
		live>>20, v.blocks.Bytes()>>20)
}
