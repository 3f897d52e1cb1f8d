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

	live atomic.Int64 // bytes of records that something needs, overhead included

	// The leader's, and recovery's:
	end     device.BlockCount // blocks that sealed frames fill
	lastTag epoch.Tag         // of the last frame in it
	closed  bool              // no frame will follow here
}

func (v *Volume) newSegment(lba device.LBA, gen epoch.Generation, life [32]byte) (*segment, error) {
	k, err := newSegmentKeys(v.keys, v.id, gen, life)
	if err != nil {
		return nil, err
	}
	return &segment{lba: lba, gen: gen, life: life, keys: k}, nil
}

// addSegments appends to the list of segments, which readers use without a lock.
func (v *Volume) addSegments(s ...*segment) {
	old := *v.segments.Load()
	list := make([]*segment, len(old), len(old)+len(s))
	copy(list, old)
	for _, x := range s {
		list = append(list, x)
		x.ordinal = uint32(len(list))
	}
	v.segments.Store(&list)
}

// segmentAt returns the segment that a place names, or nil.
func (v *Volume) segmentAt(p Place) *segment {
	list := *v.segments.Load()
	if i := int(p.ordinal()); i >= 1 && i <= len(list) {
		return list[i-1]
	}
	return nil
}

func (v *Volume) manifestOf(gen epoch.Generation, segments []*segment) *manifest {
	m := &manifest{gen: gen}
	for _, s := range segments {
		e := manifestSegment{lba: s.lba, gen: s.gen, life: s.life}
		if s.closed {
			e.end, e.lastTag = s.end, s.lastTag
		}
		m.segments = append(m.segments, e)
	}
	return m
}
