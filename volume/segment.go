package volume

import (
	"sync/atomic"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
)

// segment is the run of blocks that frames fill from the front.
type segment struct {
	ordinal uint32 // place in this run's list; from 1, in chain order
	lba     device.LBA
	gen     epoch.Generation
	life    [32]byte
	keys    *segmentKeys

	live    atomic.Int64 // bytes of records that something needs, overhead included
	readers atomic.Int64 // fetches that are under way

	hasSummary atomic.Bool // durable, and the manifest names it: compaction may have the segment

	// The leader's, and recovery's:
	end     device.BlockCount // blocks that sealed frames fill
	taken   device.BlockCount // blocks that the allocator holds for it
	lastTag epoch.Tag         // of the last frame in it
	lastSeq uint64            // number of that frame, in this generation
	last    Counter           // of that frame
	closed  bool              // no frame will follow here
	reserve bool              // opened from compaction's reserve
	listing *listing          // nil: none, or its summary is durable
	summary summaryRef        // lba 0: none yet
}

func (v *Volume) newSegment(lba device.LBA, gen epoch.Generation, life [32]byte) (*segment, error) {
	k, err := newSegmentKeys(v.keys, v.id, gen, life)
	if err != nil {
		return nil, err
	}
	return &segment{lba: lba, gen: gen, life: life, keys: k, taken: v.segmentBlocks, listing: &listing{}}, nil
}

// segmentList is the segments of this run's manifest, by ordinal. Readers use it without a lock, so it is replaced, not changed.
type segmentList struct {
	base uint32     // ordinal of list[0]
	list []*segment // in chain order; nil: gone
}

func (l *segmentList) at(ordinal uint32) *segment {
	if i := int(ordinal) - int(l.base); i >= 0 && i < len(l.list) {
		return l.list[i]
	}
	return nil
}

// all lists those that are there, in chain order.
func (l *segmentList) all() []*segment {
	list := make([]*segment, 0, len(l.list))
	for _, s := range l.list {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// changeSegments replaces the list: without those that gone says, and with more at the end, which get their ordinals.
func (v *Volume) changeSegments(gone func(*segment) bool, more ...*segment) {
	old := v.segments.Load()
	next := &segmentList{base: old.base}
	for _, s := range old.list {
		if s != nil && gone != nil && gone(s) {
			s = nil
		}
		if s == nil && len(next.list) == 0 {
			next.base++ // nothing older is left
			continue
		}
		next.list = append(next.list, s)
	}
	for _, s := range more {
		s.ordinal = next.base + uint32(len(next.list))
		next.list = append(next.list, s)
	}
	v.segments.Store(next)
}

// segmentAt returns the segment that a place names, or nil: it is none of this run, or gone.
func (v *Volume) segmentAt(p Place) *segment { return v.segments.Load().at(p.ordinal()) }

func (v *Volume) manifestOf(gen epoch.Generation, segments []*segment) *manifest {
	m := &manifest{gen: gen}
	for _, s := range segments {
		e := manifestSegment{lba: s.lba, gen: s.gen, life: s.life}
		if s.closed {
			e.end, e.lastTag = s.end, s.lastTag
		}
		if s.summary.lba != 0 {
			e.summary, e.last = s.summary, s.last
		}
		m.segments = append(m.segments, e)
	}
	return m
}
