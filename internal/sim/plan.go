package sim

import (
	"math/rand/v2"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/seal"
	"cvmstore/volume"
)

// databases is how many databases the clients use.
const databases = 2

// plan is what a seed decides once, before anything runs.
type plan struct {
	clients  int
	commands int // over all runs
	runs     int // starts that serve, at least two
	keys     int
	pipeline int // replies that a client may wait for
	valueMax int // bytes, usually

	segmentBlocks   device.BlockCount
	blocks          device.BlockCount
	blocksMax       device.BlockCount
	frameBytes      int
	framesInFlight  int
	epochOps        int
	epochBytes      int
	epochLength     time.Duration
	suite           string
	cacheBytes      int64
	blobBytes       int  // values from so many bytes on are blobs; negative: none
	lagging         bool // counter: answered commits may be lost by a power cut until Sync (embedded)
	async           bool // counter: commits arrive when the world delivers them
	slowCounter     bool // counter: a commit takes many commands
	bounded         bool // counter: stamps are not the host's
	counterFaults   bool
	diskFaults      bool
	adversary       bool
	parallel        bool // commits go with their frames
	blocking        bool // mutations are held at the end of each epoch
	epochsMax       int  // uncommitted ones
	lease           time.Duration
	shared          bool // the device says that somebody else may be writing
	bigBatches      bool
	clockJumps      bool
	powerCutsLikely bool
	compacting      int  // percent of the steps that compact
	garbage         bool // a power cut may leave sectors that nobody wrote
}

// choose returns one of the choices.
func choose[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

// chance is true with a probability of percent in a hundred.
func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

func newPlan(rng *rand.Rand) plan {
	p := plan{
		clients:        4 + rng.IntN(4),
		commands:       200 + rng.IntN(80),
		runs:           2 + rng.IntN(4),
		keys:           choose(rng, 3, 6, 12, 24),
		pipeline:       choose(rng, 1, 2, 4),
		valueMax:       choose(rng, 20, 200, 1500),
		segmentBlocks:  choose[device.BlockCount](rng, 4, 6, 8, 16, 32),
		frameBytes:     choose(rng, 4096, 8192, 16384, 65536),
		framesInFlight: 1 + rng.IntN(4),
		epochOps:       choose(rng, 8, 16, 64, 1<<16),
		epochBytes:     choose(rng, 4<<10, 32<<10, 1<<20, 64<<20),
		epochLength:    choose(rng, time.Millisecond, 10*time.Millisecond, 281*time.Millisecond),
		suite:          seal.SuiteAEGIS,
		cacheBytes:     choose[int64](rng, -1, -1, 256<<10, 4<<20),
		counterFaults:  chance(rng, 30),
		diskFaults:     chance(rng, 30),
		adversary:      chance(rng, 50),
		bigBatches:     chance(rng, 30),
		clockJumps:     chance(rng, 30),
		shared:         chance(rng, 30),
	}
	p.blobBytes = choose(rng, -1, -1, 20, 200, 1000, 5000)
	p.mode(rng)
	p.powerCutsLikely, p.garbage = chance(rng, 50), chance(rng, 30)
	p.compacting = choose(rng, 0, 1, 3, 20)
	if chance(rng, 5) {
		p.suite = seal.SuiteAESGCM
	}
	switch rng.IntN(3) {
	case 0:
		p.lagging = true
	case 1:
		p.async, p.slowCounter = true, chance(rng, 40)
		p.bounded = chance(rng, 50)
	default:
		p.bounded = chance(rng, 50)
	}
	if p.bigBatches {
		p.segmentBlocks = choose[device.BlockCount](rng, 16, 32)
		p.frameBytes = choose(rng, 32<<10, 64<<10)
	}
	// Small volumes fill up: then commands answer that, and so may a start.
	p.blocks = 64 + device.BlockCount(rng.IntN(64))
	p.blocksMax = choose[device.BlockCount](rng, 1024, 2048, 4096)
	if chance(rng, 12) {
		p.blocks *= choose[device.BlockCount](rng, 1, 2, 4)
		p.blocksMax = p.blocks
	}
	if p.blocks < 2+3*(p.segmentBlocks+1) {
		p.blocks = 2 + 4*(p.segmentBlocks+1)
		p.blocksMax = max(p.blocksMax, p.blocks)
	}
	return p
}

// mode draws the epochs' mode: half of the seeds have the default, ORDERED and non-blocking.
func (p *plan) mode(rng *rand.Rand) {
	p.epochsMax = choose(rng, 2, 2, 2, 3)
	switch rng.IntN(6) {
	case 0, 1:
		p.parallel, p.shared = true, false
	case 2:
		p.blocking = true
	}
	if !p.shared && chance(rng, 25) { // a start on a shared device waits for it in earnest
		p.lease = choose(rng, 20*time.Millisecond, time.Second, 10*time.Second)
	}
}

// windowEpochs is how many epochs may be uncommitted.
func (p *plan) windowEpochs() int {
	switch {
	case p.blocking:
		return 1
	case p.epochsMax == 0:
		return 2
	}
	return p.epochsMax
}

// level draws a client's level; fresh is the default and the most demanding.
func level(rng *rand.Rand) volume.Level {
	return choose(rng, volume.LevelFresh, volume.LevelFresh, volume.LevelDurable, volume.LevelEverySec)
}
