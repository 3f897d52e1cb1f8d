// Package mutant holds the switch for deliberate bugs (DESIGN.md section 11): tests turn one on and show that the simulator
// or the crash matrix catches it. A check that catches no mutant is no check. Production code never turns one on; Set panics
// outside a test binary.
package mutant

import (
	"sync/atomic"
	"testing"
)

// ID names one deliberate bug. None is no bug.
type ID int32

// The mutants, by the rule that each one breaks.
const (
	None                   ID = iota
	SkipFlush                 // 4.2: frames are written without write-through
	AckBeforeDurable          // 4.1: durable is reported at submission
	AckBeforeCommit           // 4.1: fresh is reported when durable
	DurableNotPrefix          // 4.2: a later frame's completion counts without the earlier one's
	IgnoreChain               // 6: a frame's predecessor is not checked
	AcceptAnyGeneration       // 6.4: frames of later generations after the committed tag are accepted
	AcceptOlderTag            // 6.4: a disk without the committed tag is accepted
	AcceptOlderManifest       // 6.4: a manifest that the path does not name is accepted
	NewestSlotOnly            // 6.4: only the newest superblock is tried
	SlotInTurn                // 6.4.5: the opening superblock goes to the older slot by sequence number
	CommitBeforeSuperblock    // 6.4.5: the opening commit goes before the superblock is durable
	UseSegmentEarly           // 6.1: frames enter a segment before a superblock lists it
	NoFlushBeforeOpening      // 6.4.3: accepted frames are not made durable before the opening frame
	CounterNotSynced          // 6.1, embedded counter: not flushed before the superblock and after the opening commit
	ReuseNonce                // 5.1: a restarted server appends to the old segment's keys
	ReuseCounter              // 6.4.5: the opening frame does not jump ahead by 2^32
	DropMultiset              // 6.4.4: the multiset is not compared
	SkipMultisetUpdate        // 6.4.4: a removal is not subtracted
	ReleaseUnverified         // 5.3: a record whose tag is wrong is released
	SkipCounterCheck          // 5.2: a record's counter is not compared with the index
	PartialBatch              // 4.8: records of an unfinished batch are applied
	ForgetTombstone           // 4.3: a delete leaves no tombstone, so absence is reported early
	ExpireEarly               // 4.7: expiry uses the host's clock
	IgnoreWriteError          // 4.5: a failed write is taken for durable
	FreeEarly                 // 6.2: space is reused before the epoch that freed it is committed
	SkipBlobFlush             // 4.2: a pointer record goes before the flush of its blob
	FreeBlobEarly             // 6.2: a blob's blocks are used again before the epoch that freed it is committed
	FreeBlobUnderReader       // 6.2: a reader's reference does not keep a blob's blocks
	ReleaseBlobUnverified     // 5.3: a chunk whose tag is wrong is released
	ForgetBlobs               // 6: recovery does not take the blocks of live blobs out of the free ones
	StaleCache                // kvs: an overwrite leaves the old value in the cache
	LoseDelete                // keyspace: a delete is not journaled
	SplitTransaction          // 4.8: the commands of one transaction are not one batch
	IgnoreWatch               // keyspace: a transaction goes on although a watched key has changed
	SummaryUncommitted        // 6.3: a segment counts as summarised before its frames are committed
	ManifestBeforeSummary     // 6.1: a manifest is written before the summaries that it names are durable
	MoveWithoutLock           // 6.3: a record is moved though the index names another by now
	MoveNewCounter            // 6.3: a moved record gets a new counter
	DropTombstone             // 6.3: a tombstone goes while segments with older records are still listed
	CompactLosesRecord        // 6.3: compaction drops a live record

	// The counter's protocol and its epochs.
	CommitBeforeDurable // 4: ORDERED commits a state whose frames may not be durable
	ParallelAhead       // 4.6: commit k goes before the frames of epoch k-1 are durable
	FreshNotDurable     // 4.6: committed is reported as fresh before it is durable
	ParallelFreesEarly  // 4.6: freed space waits for one commit only
	KeepBefore          // 4.6: ORDERED leaves the state before acceptable
	OneEpochMore        // 4.4: one epoch more than promised may be uncommitted
	BlockingLeaks       // 4.1: blocking mode does not hold mutations
	ForgetEpochs        // 4.4: a commit of a part of an epoch counts for all
	RetryAsNew          // 9: an unknown outcome is taken for a failure
	AssumeCommitted     // 9: an unknown outcome is taken for a success
	IgnoreFence         // 9: a fenced server goes on
	SkipSecondLook      // 6.4.1: the disk is not read again after another server was in charge
	ForgetLease         // 9: what is committed stays fresh for ever
	LeaseFromAnswer     // 9: the lease counts from the answer
	AcceptAfterRollback // 6.4.2: frames after the tag of an authorised rollback are accepted
	IgnoreFloor         // 9: the opening after an authorised rollback starts below what it replaced
	end
)

var current atomic.Int32

// On reports whether the deliberate bug id is switched on. It is one atomic load.
func On(id ID) bool { return ID(current.Load()) == id }

// Set switches one bug on (None: all off). Only tests may call it.
func Set(id ID) {
	if !testing.Testing() {
		panic("internal error: a mutant was set outside a test")
	}
	current.Store(int32(id))
}

// All lists every mutant.
func All() []ID {
	var ids []ID
	for id := None + 1; id < end; id++ {
		ids = append(ids, id)
	}
	return ids
}
