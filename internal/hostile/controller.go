package hostile

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"cvmstore/nvme"
)

// Options describe a controller. Zero values give an honest one of 64 MiB.
type Options struct {
	Seed         uint64
	Blocks       uint64 // of 4096 bytes; default 16384
	LogicalBytes int    // 512 or 4096; default 4096
	MDTS         uint8
	Entries      int    // of the largest ring; default 1024
	Pairs        int    // I/O queue pairs granted; default 16
	Namespaces   int    // of the same size, only the first is used; default 1
	Serial       string // default "1"
	Disk         Disk   // its contents; none: zeros
	Scatter      bool   // pages of buffers and lists do not follow each other for the device
	Shuffle      bool   // commands complete late, in any order
	NoTrim       bool

	Attacks []Attack
	Every   int // an attack that is made by chance is made once in so many chances; default 1

	// For benchmarks.
	RealTime  bool    // Clock is the machine's
	NoData    bool    // reads and writes move nothing
	Bandwidth float64 // bytes a second that all data shares; 0: no limit
	Latency   time.Duration
}

// Controller is the controller. Its methods may be called from any goroutine.
type Controller struct {
	opts Options
	on   [attackCount]bool

	mu       sync.Mutex
	rng      *rand.Rand
	start    time.Time
	now      time.Duration
	made     [attackCount]int
	armed    bool
	problems []string

	// Memory.
	table       map[uint64]mapped // by address of a page
	nextPage    uint64
	pieces      []piece
	allocations []Allocation

	// Registers.
	cc, csts, aqa uint32
	asq, acq      uint64
	capReads      int
	starts        int // how often it was enabled
	resets        int // how often it was disabled after it had been enabled

	// Queues and commands.
	queues  []*queue // by id; 0: admin
	pending []pending
	late    []pending // lost ones that write after they were given up
	busy    time.Duration
	ios     int
	flushes int
	recent  []*uint64 // words of completion entries that were posted lately
	dataIn  [][]byte  // pages that were read into since the driver looked last
	dataNow [][]byte  // the last few, for Harass

	disk    *disk
	backing *backing // nil: disk
}

var (
	_ nvme.Bar = (*Controller)(nil)
	_ nvme.DMA = (*Controller)(nil)
)

// pending is a command that was fetched and has not completed.
type pending struct {
	q     *queue
	cmd   [8]uint64
	pages [][]byte // of a read or write, as the lists said when the command was fetched
	due   time.Duration
}

// queue is a queue pair as the controller knows it.
type queue struct {
	id                   int
	sq, cq               []uint64
	sqAddress, cqAddress uint64
	sqHead, sqTail       int
	cqTail, cqHead       int
	phase                uint64
	done                 []uint16 // identifiers that completed
}

func (q *queue) sqEntries() int { return len(q.sq) / 8 }
func (q *queue) cqEntries() int { return len(q.cq) / 2 }

// New makes a controller.
func New(o Options) *Controller {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.LogicalBytes, 4096)
	def(&o.Entries, 1024)
	def(&o.Pairs, 16)
	def(&o.Namespaces, 1)
	def(&o.Every, 1)
	if o.Blocks == 0 {
		o.Blocks = 16384
	}
	if o.Serial == "" {
		o.Serial = "1"
	}
	c := &Controller{
		opts: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6e766d65)), start: time.Now(),
		table: map[uint64]mapped{}, nextPage: 0x10000, queues: make([]*queue, o.Pairs+1), disk: o.Disk.d,
	}
	if c.disk == nil {
		c.disk = newDisk()
	}
	for _, a := range o.Attacks {
		c.on[a] = true
	}
	return c
}

// Arm begins or ends the attacks that are made by chance. A new controller makes none, so that the device can be opened.
func (c *Controller) Arm(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = on
}

// Resets returns how often the driver stopped the controller after it had started it.
func (c *Controller) Resets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Flushes returns how many flush commands and writes with FUA arrived.
func (c *Controller) Flushes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flushes
}

// Commands returns how many I/O commands arrived.
func (c *Controller) Commands() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ios
}

// Replay is a line that says how to get the same controller again.
func (c *Controller) Replay() string {
	return fmt.Sprintf("seed %d, attacks %v, every %d, shuffle %v, scatter %v", c.opts.Seed, c.opts.Attacks, c.opts.Every, c.opts.Shuffle, c.opts.Scatter)
}

func (c *Controller) enabledRegister() bool { return c.cc&1 != 0 }

// tick lets what is due happen.
func (c *Controller) tick() {
	if c.opts.RealTime {
		c.now = time.Since(c.start)
	}
	if c.backing != nil {
		c.backing.collect(c)
	}
	c.changeLater()
	if c.csts&2 != 0 || !c.enabledRegister() {
		return
	}
	// A command that completes may be the reason that another one is sent, but not in here: one pass is enough.
	rest := c.pending[:0]
	var due []pending
	for _, p := range c.pending {
		if p.due <= c.now {
			due = append(due, p)
		} else {
			rest = append(rest, p)
		}
	}
	c.pending = rest
	if c.opts.Shuffle {
		c.rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	}
	for _, p := range due {
		c.run(p)
	}
}
