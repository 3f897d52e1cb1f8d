package volume

import (
	"sync/atomic"
	"time"

	"cvmstore/epoch"
)

// stats are counted by the leader (plain fields, read under its lock) and by readers (atomics).
type stats struct {
	frames       uint64
	commits      uint64
	bytesWritten uint64
	summaryBytes uint64
	bytesRead    atomic.Uint64 // of records and metadata
	blobsWritten atomic.Uint64 // bytes of blobs, at the device
	blobsRead    atomic.Uint64
}

// Recovery is what the start took, by phase.
type Recovery struct {
	Chain     time.Duration // following frames
	Summaries time.Duration // reading summaries and replaying them
	Settle    time.Duration // adding up what is live
	Opening   time.Duration // making it final
	BytesRead uint64        // from the device
}

// Status is a snapshot for INFO, CVM.STATUS and metrics.
type Status struct {
	Store            epoch.StoreID
	Volume           [16]byte
	Generation       epoch.Generation
	Epoch            epoch.Epoch
	Suite            string
	Device           string
	Applied          Counter
	Durable          Counter
	Fresh            Counter
	UncommittedOps   uint64        // counters handed out beyond the committed one
	UncommittedBytes int           // of records not yet durable
	UncommittedAge   time.Duration // since the last commit was sent, while anything is uncommitted
	Frames           uint64        // since start
	Commits          uint64
	BytesWritten     uint64
	BytesRead        uint64
	BytesAppended    uint64 // since start: records, of clients and moved ones
	BytesMoved       uint64 // since start: records that compaction moved
	RecordsMoved     uint64
	SegmentsCleaned  uint64 // since start
	SegmentsRefused  uint64 // that compaction could not read
	LiveBytes        uint64 // of records in the journal
	DeadBytes        uint64 // what else its segments take
	TombstoneBytes   uint64 // of deletes that still hide older records, about
	CompactionDebt   uint64 // bytes that a burst of compaction still has to free; 0: none is under way
	SegmentsOpen     int    // in use or opened ahead
	SegmentsListed   int    // closed, with a summary
	SegmentsEmptied  int    // by compaction, not free yet
	Recovery         Recovery
	Segments         int
	SegmentBytes     int
	VolumeBytes      uint64
	FreeBytes        uint64
	Full             bool
	Waiting          int           // epochs that have ended and are not committed; the open one comes on top
	WindowEpochs     int           // how many may be uncommitted
	Mode             string        // ordered or parallel, blocking or non-blocking
	Committed        epoch.State   // the newest state that the counter confirmed
	RoundTrip        time.Duration // of the last commit
	EpochRate        float64       // epochs ended a second, since start
	Lease            time.Duration // 0: none
	LeaseLeft        time.Duration // negative: it has lapsed
	LastCounterError error
	Failure          error
	StoreTime        int64 // ms
}

// Status returns a snapshot. It waits for a commit step that is at work, so it is not for the hot path.
func (v *Volume) Status() Status {
	s := Status{
		Store: v.store, Volume: v.id, Generation: v.gen, Suite: v.keys.Suite(), Device: v.dev.Info().Name,
		SegmentBytes: v.segmentBlocks.Bytes(), VolumeBytes: uint64(v.blocks.Bytes()), Failure: v.Err(), StoreTime: v.Now(),
		BytesRead: v.stats.bytesRead.Load() + v.stats.blobsRead.Load(), Segments: len(v.segments.Load().all()),
	}
	s.Applied, s.Durable, s.Fresh = v.Watermarks()
	s.UncommittedOps = uint64(max(s.Applied, s.Fresh) - s.Fresh)
	s.countSegments(v)
	v.leader.Lock()
	s.SegmentsEmptied = len(v.emptied)
	s.Frames, s.Commits, s.BytesWritten = v.stats.frames, v.stats.commits, v.stats.bytesWritten+v.stats.blobsWritten.Load()
	s.LastCounterError = v.commit.lastError
	c := &v.commit
	s.Committed = epoch.State{Value: c.committed.last, Tag: c.committed.tag, Gen: v.gen}
	s.RoundTrip, s.Mode, s.WindowEpochs = c.trip, v.mode(), v.epochs.max
	if s.Lease = v.lease.length; s.Lease > 0 {
		s.LeaseLeft = time.Duration(v.lease.began.Load()) + s.Lease - v.clock.Monotonic()
	}
	s.FreeBytes = uint64(v.space.blocks().Bytes())
	if s.UncommittedOps > 0 {
		s.UncommittedAge = v.clock.Monotonic() - v.commit.at
	}
	v.leader.Unlock()
	v.mu.Lock()
	s.Epoch, s.Full, s.Waiting = v.epochs.number, v.noSpace, len(v.epochs.ends)
	if up := v.clock.Monotonic() - v.started; up > 0 {
		s.EpochRate = float64(v.epochs.number-v.epochs.firstNumber) / up.Seconds()
	}
	s.BytesAppended = v.bytes
	for _, f := range v.pending {
		s.UncommittedBytes += len(f.buf)
	}
	v.mu.Unlock()
	return s
}

// mode names how epochs are committed.
func (v *Volume) mode() string {
	order, holds := "ordered", "non-blocking"
	if v.opts.Parallel {
		order = "parallel"
	}
	if v.opts.Blocking {
		holds = "blocking"
	}
	return order + " " + holds
}

// countSegments fills in what concerns segments and compaction.
func (s *Status) countSegments(v *Volume) {
	for _, seg := range v.segments.Load().all() {
		s.LiveBytes += uint64(seg.liveBytes())
		s.DeadBytes += uint64(v.deadBytes(seg))
		if seg.hasSummary.Load() {
			s.SegmentsListed++
		} else {
			s.SegmentsOpen++
		}
	}
	c := &v.compaction.stats
	s.BytesMoved, s.RecordsMoved = c.movedBytes.Load(), c.moved.Load()
	s.SegmentsCleaned, s.SegmentsRefused = c.dropped.Load(), c.failed.Load()
	s.TombstoneBytes = uint64(v.compaction.held.Load())
	s.CompactionDebt = v.compaction.debt.Load()
	s.Recovery = v.recovery
}

// WriteAmplification is what was written to the device since start for each byte of clients' records; 0: they wrote none.
func (s *Status) WriteAmplification() float64 {
	if s.BytesAppended <= s.BytesMoved {
		return 0
	}
	return float64(s.BytesWritten) / float64(s.BytesAppended-s.BytesMoved)
}
