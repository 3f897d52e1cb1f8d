package volume

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/internal/mutant"
	"cvmstore/ioengine/device"
)

// compaction moves what is still needed out of segments that are mostly dead, so that they can go (DESIGN.md 6.3). It works in
// bounded steps, on whatever goroutine calls Compact (maintain.go decides when): read the segment's summary and ask the
// stores which of its records are live; read those back, a stretch at a time; have each moved by its store; ask again; then a roll
// leaves the segment out of the manifest, and its blocks are free when that is committed.
type compaction struct {
	mu      sync.Mutex
	reader  summaryReader
	victim  *segment
	live    []liveRecord // of the victim, still to be moved, by offset
	checked bool         // the summary was read once more after the moves
	refused map[*segment]bool

	tidied   *segmentList // that tidy has seen
	tidying  bool
	tidiedAt time.Duration
	debt     atomic.Uint64
	busy     atomic.Bool
	held     atomic.Int64 // bytes of tombstones that are still needed

	hopeful atomic.Bool // somebody compacts, and there is something to be had
	stats   compactionStats
}

type compactionStats struct {
	moved, movedBytes, dropped, failed atomic.Uint64
}

// liveRecord is a record as a summary lists it.
type liveRecord struct {
	store   Store
	kind    Kind
	counter Counter
	offset  int
	size    int
}

func (r *liveRecord) end() int { return r.offset + recOverhead + r.size }

const (
	compactStretch = 64  // blocks that one step reads at most, if no record is longer
	compactGap     = 4   // dead blocks between two live records that are read rather than skipped
	compactMoves   = 512 // records that one step moves at most
)

// Compact does one bounded step of compaction: it chooses a segment if need be, and moves up to a few hundred records. more says
// that there is more to do. ErrBusy and ErrFull say that records could not be moved now.
func (v *Volume) Compact() (more bool, err error) {
	c := &v.compaction
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := v.Err(); err != nil {
		return false, err
	}
	c.reader.v = v
	if c.victim == nil {
		if c.victim = v.chooseVictim(); c.victim == nil {
			return false, nil
		}
		c.checked = false
		if err := v.listLive(); err != nil {
			return true, v.refuseVictim(err)
		}
		// What nothing needs is not needed later either. To ask twice would cost a busy server of two cores a tenth of its time.
		c.checked = len(c.live) == 0
	}
	if len(c.live) > 0 {
		err := v.moveSome()
		if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrFull) && v.Err() == nil {
			err = v.refuseVictim(err)
		}
		return true, err
	}
	if !c.checked { // what is live by now, though it was to be moved?
		c.checked = true
		if err := v.listLive(); err != nil {
			return true, v.refuseVictim(err)
		}
		if len(c.live) > 0 {
			return true, v.refuseVictim(fmt.Errorf("%d records are still needed after they were moved", len(c.live)))
		}
	}
	v.victimDone()
	return true, nil
}

// refuseVictim leaves a segment as it is that cannot be compacted, because it does not read or does not verify. It stays in the
// manifest, so nothing is lost; check and scrub say more about it.
func (v *Volume) refuseVictim(err error) error {
	c := &v.compaction
	if c.refused == nil {
		c.refused = map[*segment]bool{}
	}
	c.refused[c.victim] = true
	c.stats.failed.Add(1)
	err = fmt.Errorf("compaction of the segment at block %d: %w", c.victim.lba, err)
	v.log.Error().Err(err).Msg("a segment stays as it is: see CvmstoreSegmentsUnreadable in docs/OPERATIONS.md")
	c.victim, c.live = nil, nil
	return err
}

// listLive asks the stores which records of the victim are live.
func (v *Volume) listLive() error {
	c := &v.compaction
	seg := c.victim
	c.live = c.live[:0]
	shared, err := c.reader.read(seg.summary.extent())
	if err != nil {
		return fmt.Errorf("summary at block %d: %w", seg.summary.lba, err)
	}
	body, err := v.openSummary(seg, shared)
	if err != nil {
		return err
	}
	return readListing(body, seg.summary.records, seg.end.Bytes(), func(r *record, offset, size int) error {
		s := v.opts.Stores[r.store]
		if s == nil {
			return ErrCorrupt
		}
		if s.Live(v, Record{
			Store: r.store, Kind: r.kind, Counter: r.counter, Place: placeOf(seg.ordinal, offset), Size: size, Payload: r.payload,
		}) {
			c.live = append(c.live, liveRecord{r.store, r.kind, r.counter, offset, size})
		}
		return nil
	})
}

// moveSome reads one stretch of the victim and moves the live records in it.
func (v *Volume) moveSome() error {
	c := &v.compaction
	first := device.BlockCount(c.live[0].offset / device.BlockSize)
	n, last := 0, first
	for n < len(c.live) && n < compactMoves {
		from := device.BlockCount(c.live[n].offset / device.BlockSize)
		to := blocksOf(c.live[n].end())
		if n > 0 && (to-first > compactStretch || from > last+compactGap) {
			break
		}
		n, last = n+1, max(last, to)
	}
	shared, err := c.reader.read(extent{c.victim.lba + device.LBA(first), last - first})
	if err != nil {
		return err
	}
	for i := range n {
		if err := v.moveOne(&c.live[i], shared[c.live[i].offset-first.Bytes():]); err != nil {
			c.live = append(c.live[:0], c.live[i:]...)
			return err
		}
	}
	c.live = append(c.live[:0], c.live[n:]...)
	return nil
}

// moveOne opens one record from shared memory and has its store move it.
func (v *Volume) moveOne(r *liveRecord, shared []byte) error {
	c := &v.compaction
	at := placeOf(c.victim.ordinal, r.offset)
	payload, err := v.openFrom(&c.reader.x, c.victim, Fetch{At: at, Size: r.size, Counter: r.counter, Store: r.store, Kind: r.kind}, shared)
	if err != nil {
		return err
	}
	if mutant.On(mutant.CompactLosesRecord) && r.counter%7 == 0 {
		return nil
	}
	moved, err := v.opts.Stores[r.store].Move(v, Record{
		Store: r.store, Kind: r.kind, Counter: r.counter, Place: at, Size: r.size, Payload: payload,
	})
	if moved {
		c.stats.moved.Add(1)
		c.stats.movedBytes.Add(uint64(recOverhead + r.size))
	}
	return err
}

// victimDone hands an emptied segment to the next roll.
func (v *Volume) victimDone() {
	c := &v.compaction
	v.mu.Lock()
	bytes := v.bytes
	v.mu.Unlock()
	v.leader.Lock()
	v.emptied = append(v.emptied, emptied{c.victim, bytes, v.clock.Monotonic()})
	v.leader.Unlock()
	v.pushMoves.Store(true)
	v.kick.Store(true)
	c.stats.dropped.Add(1)
	c.victim = nil
}

// chooseVictim picks the segment that pays best: what it would free over what it costs to read and write, times the root of its age
// (cost-benefit). The age keeps segments whose records still die fast from being copied too early. Nil: none is worth it.
func (v *Volume) chooseVictim() *segment {
	v.leader.Lock()
	gone := make(map[*segment]bool, len(v.emptied))
	for _, e := range v.emptied {
		gone[e.seg] = true
	}
	for s := range v.roll.dropped {
		gone[s] = true
	}
	v.leader.Unlock()
	list := v.segments.Load().all()
	if len(list) == 0 {
		return nil
	}
	newest := list[len(list)-1].ordinal
	// Tombstones hide what lies in older segments. When they take too much, the oldest goes whatever it holds: then they can.
	aged := v.compaction.held.Load() > int64(v.blocks.Bytes()/heldMax)
	var best *segment
	var most float64
	for _, s := range list {
		if !s.hasSummary.Load() || gone[s] || v.compaction.refused[s] {
			continue
		}
		if aged {
			return s
		}
		if v.deadBytes(s) < v.worthwhile(s) {
			continue
		}
		u := float64(s.liveBytes()) / float64(s.taken.Bytes())
		if score := (1 - u) / (1 + u) * math.Sqrt(float64(newest-s.ordinal+1)); best == nil || score > most {
			best, most = s, score
		}
	}
	return best
}

// liveBytes is what of a segment is needed, by the stores' account.
func (s *segment) liveBytes() int {
	return int(min(max(s.live.Load(), 0), int64(s.taken.Bytes())))
}

func (v *Volume) deadBytes(s *segment) int { return s.taken.Bytes() - s.liveBytes() }

// deadSegments is how many segments compaction could free at best.
func (v *Volume) deadSegments() int {
	dead := 0
	for _, s := range v.segments.Load().all() {
		if s.hasSummary.Load() {
			dead += v.deadBytes(s)
		}
	}
	return dead / v.segmentBlocks.Bytes()
}

// worthwhile is how much must be dead in a segment so that it is compacted: below it a writer would wait for little.
func (v *Volume) worthwhile(s *segment) int { return max(s.taken.Bytes()/compactWorth, 1) }

// compactWorth: at least a sixteenth of a segment is dead.
const compactWorth = 16

// heldMax: tombstones may take a sixteenth of the volume.
const heldMax = 16
