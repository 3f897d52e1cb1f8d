package volume

import (
	"errors"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
)

// Counter numbers mutations in commit order.
type Counter = epoch.Counter

// Store says which store a record belongs to.
type Store uint8

// The stores. Number 0 is the volume's own (batch marks).
const (
	storeVolume Store = 0
	StoreKeys   Store = 1 // keyspace and all that plugs into it
	StoreFiles  Store = 2
)

// Kind is a record's kind, numbered by its store.
type Kind uint8

// Place says where a record lies: the segment's ordinal in this run, and the byte offset of the record in the segment. It is
// meaningful in memory only; recovery makes places anew. The zero Place is none. Places grow along the chain.
type Place uint64

func placeOf(ordinal uint32, offset int) Place { return Place(uint64(ordinal)<<32 | uint64(offset)) }
func (p Place) ordinal() uint32                { return uint32(p >> 32) }
func (p Place) offset() int                    { return int(uint32(p)) }

// Level is what a reply waits for (DESIGN.md 4.1).
type Level uint8

// The levels, weakest first.
const (
	LevelEverySec Level = iota + 1
	LevelDurable
	LevelFresh
)

func (l Level) String() string {
	switch l {
	case LevelEverySec:
		return "everysec"
	case LevelDurable:
		return "durable"
	case LevelFresh:
		return "fresh"
	}
	return "unknown"
}

// Class says which reserve a batch may use when space is short.
type Class uint8

// The classes of batches.
const (
	ClassNormal  Class = iota
	ClassReclaim       // deletes, expiry, trims: what gives space back
	ClassMove          // compaction
)

// Errors, told apart by what the caller must do.
var (
	// ErrBusy: nothing was done; try again after the next Step that returns true.
	ErrBusy = errors.New("busy: the volume is catching up")
	// ErrMoved: compaction has moved the record since the index named its place. Look it up again.
	ErrMoved = errors.New("moved")
	// ErrFull: out of space.
	ErrFull = errors.New("the volume is full")
	// ErrTooLarge: a record above MaxRecord, or a batch that this volume can never hold.
	ErrTooLarge = errors.New("too large for this volume")
	// ErrFailed: a write or flush failed, all writing has stopped (DESIGN.md 4.5). Sticky.
	ErrFailed = errors.New("writing has stopped after a device error")
	// ErrFenced: another server took over. Sticky.
	ErrFenced = errors.New("fenced: another server opened this store")
	// ErrRollback: the disk is older than the counter. Never retried.
	ErrRollback = errors.New("rollback detected")
	// ErrCorrupt: what was read is not what was written.
	ErrCorrupt = errors.New("corrupt")
	// ErrForeign: the device holds data of somebody else.
	ErrForeign = errors.New("the device holds data that is not this store's")
	// ErrClosed: the volume was closed.
	ErrClosed = errors.New("the volume is closed")
)

// Record is one record as recovery and compaction hand it to its store.
type Record struct {
	Store   Store
	Kind    Kind
	Counter Counter
	Place   Place
	Size    int    // of the whole payload, bytes
	Payload []byte // its front, of the length that Meta gave, or all of it; valid during the call only
}

// Replayer is a store as recovery and compaction see it (DESIGN.md 6.3, 6.4).
//
// Recovery reads summaries, not records: of each record it has kind, counter, place, size and the front of the payload that Meta
// names. It calls Replay for every record that has not been dropped, in no order and from several goroutines at once, then
// Settle once. So a store applies one rule: the highest counter wins, and of two equal ones (a record and its copy by Move) the
// later place.
type Replayer interface {
	// Reset forgets everything: recovery starts over with another manifest.
	Reset()
	// Meta returns how many bytes from the front of a payload recovery needs: keys, expiry, pointers; not values. It is a
	// function of kind and payload alone, and is called under the append lock: it does no more than add up lengths.
	Meta(k Kind, payload []byte) int
	// Replay applies one record of a completed batch. Payload has the length that Meta gave it.
	Replay(v *Volume, r Record) error
	// Settle comes after the last Replay: it puts every live item into the multiset hash, and says which records are live.
	Settle(v *Volume, d *Delta) error
	// Live reports whether the record, of which Payload is the front, is still needed at its place: what the index names, or
	// a tombstone that still hides older records (DESIGN.md 6.3). It takes the lock of the record's key for itself.
	Live(v *Volume, r Record) bool
	// Move appends a live record again, with its counter unchanged: r.Payload is all of it, from the device, verified. Under
	// the lock of its key it looks once more whether the record is needed at r.Place, opens a batch of ClassMove for it, points
	// the index to the new place, and reports the old one dead (Tx.Dead). A record that is no longer needed is left where it
	// is: moved is false. ErrBusy, ErrFull: nothing was changed.
	Move(v *Volume, r Record) (moved bool, err error)
}

// Tidier is a store that has work to do when segments have gone. Maintain calls it, from one goroutine.
type Tidier interface {
	// Tidy does a bounded step: tombstones that hide nothing any more are forgotten, and what a flush dropped is reported dead.
	// more: call it again. held is about how many bytes tombstones take on the device that are still needed.
	Tidy(v *Volume) (more bool, held int)
}

// KeySource is what the volume needs to know of keys; seal satisfies it.
type KeySource interface {
	StoreID() [16]byte
	// Suite names the cipher suite, "aegis" or "aes-256-gcm": chosen at format time, never from the disk.
	Suite() string
	// Derive fills out with key material that only this label and context give.
	Derive(out []byte, label string, context ...[]byte)
	// Seed mixes the generator's seed for one run (DESIGN.md 5.1).
	Seed(gen uint64, fromCounter [32]byte) [32]byte
}

// Clock is the machine's monotonic clock: since an arbitrary start, never back. The host owns it; clock.go says what is made
// of it. The wall clock is not asked for: dates come with the counter service's stamps.
type Clock interface {
	Monotonic() time.Duration
}

// Options say how to open a volume. Zero values take the defaults.
type Options struct {
	Device  device.Device
	Counter epoch.Service
	Keys    KeySource
	Stores  map[Store]Replayer

	SegmentBlocks  device.BlockCount // of a new volume; default 4096 (16 MiB); pinned in the superblock
	FrameBytes     int               // soft limit of a frame; default 1 MiB
	FramesInFlight int               // default 2
	EpochLength    time.Duration     // default 10 ms (DESIGN.md 4.1: 1 to 281 ms); negative: commits go back to back
	EpochOps       int               // default 65536
	EpochBytes     int               // default 64 MiB
	Blobs          BlobOptions
	// RecoveryWorkers is how many summaries are read at once; default one a core. With 1 no goroutine is started.
	RecoveryWorkers int
	// EpochsUncommitted is how many epochs may be uncommitted, the open one included; default 2. Blocking mode makes it one and
	// holds mutations at the end of each epoch until its commit.
	EpochsUncommitted int
	Blocking          bool
	// Parallel sends a commit together with the frames that it covers (DESIGN.md 4.6): a restart may then be one commit behind.
	// Refused on a device that another server can reach.
	Parallel bool
	// FreshLease is how long after a commit began what is committed may be called fresh; 0: for ever (embedded counter).
	FreshLease    time.Duration
	Clock         Clock // default: the machine's
	Log           zerolog.Logger
	FormatForeign bool // at birth, format over data that is not ours
}

const (
	segmentBlocksDefault = 4096
	segmentBlocksMin     = 4
	frameBytesDefault    = 1 << 20
	framesInFlightMax    = 16
)

func (o *Options) setDefaults() {
	if o.SegmentBlocks == 0 {
		o.SegmentBlocks = segmentBlocksDefault
	}
	o.SegmentBlocks = max(o.SegmentBlocks, segmentBlocksMin)
	if o.FrameBytes == 0 {
		o.FrameBytes = frameBytesDefault
	}
	if o.FramesInFlight == 0 {
		o.FramesInFlight = 2
	}
	o.FramesInFlight = min(o.FramesInFlight, framesInFlightMax)
	if o.EpochLength == 0 {
		o.EpochLength = 10 * time.Millisecond
	}
	o.EpochLength = max(o.EpochLength, 0)
	if o.EpochsUncommitted == 0 {
		o.EpochsUncommitted = 2
	}
	if o.EpochOps == 0 {
		o.EpochOps = 1 << 16
	}
	if o.EpochBytes == 0 {
		o.EpochBytes = 64 << 20
	}
	o.Blobs.setDefaults()
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
}
