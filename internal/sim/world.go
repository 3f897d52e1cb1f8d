package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// world is what outlives a server.
type world struct {
	seed      uint64
	p         plan
	rng       *rand.Rand
	clock     clock
	disk      *memdev.Device // the right one
	counter   *epochtest.Memory
	keys      *keySource
	model     *model
	clients   []*client
	histories *histories
	srv       *server // nil while none serves
	result    *Result
	tracing   bool
	events    int64
	values    int
	commands  int

	// What must survive.
	ackFresh   volume.Counter
	ackDurable volume.Counter
	choices    map[epoch.Generation]choice // of starts whose opening frame may have been committed

	// This run.
	failedFor     int                       // steps since the volume failed
	stopping      bool                      // clients begin nothing new
	healed        bool                      // no more faults
	writeFault    bool                      // a write was told to fail
	syncFault     bool                      // a flush of the counter was
	readsTampered bool                      // reads may fail
	full          bool                      // somebody was told that the volume is full
	openings      map[epoch.Generation]bool // committed since a server last opened a segment ahead
	storeTime     int64
	fenced        bool // another server was opened

	// The adversary.
	tampered      bool
	mustRefuse    string           // why a start on this disk must be refused
	genuine       *memdev.Snapshot // the right content, while tampered
	ended         bool             // some were: the disk will not be whole again, the seed ends
	archive       []*memdev.Snapshot
	hidden        []hiddenBlock
	messages      []epoch.CommitRequest
	nextCommit    epochtest.Fault // for directed scenarios: befalls the next commit
	dead          *disk           // the last server's view: where its frames lie
	deadState     epoch.State
	faultInOpen   bool
	mayBeDamaged  bool // a start was accepted on a disk that was tampered with
	damaged       map[dbKey]volume.Counter
	formatForeign bool // the operator has said so
}

// dbKey is a key of a database.
type dbKey struct {
	db  int
	key string
}

// choice is the state that a start accepted; it is final once its opening frame is committed.
type choice struct {
	recovered volume.Counter
	tampered  bool
	base      volume.Counter // what the trusted counter held
	behind    volume.Counter // the state before it, where that is acceptable too
}

// errInjected is what injected device faults report.
var errInjected = errors.New("injected device fault")

// Options of Run.
type Options struct {
	Trace func(string) // gets a line for each step; nil: none
}

// Result is what one seed did.
type Result struct {
	Seed     uint64
	Err      error          // nil, or the broken promise
	Counts   map[string]int // faults by kind, and what surfaced of them
	Commands int
	Clients  int
	Crashes  int // while writes were on their way
	Restarts int
	Full     bool // it ended early: the volume had no room for another start
	trace    func(string)
}

// Run simulates one seed.
func Run(seed uint64, o Options) (res *Result) {
	res = &Result{Seed: seed, Counts: map[string]int{}, trace: o.Trace}
	var w *world
	defer func() {
		res.finish(w, recover())
	}()
	w = newWorld(seed, res, nil)
	w.live()
	return res
}

// finish turns what a run panicked with into its error, and frees what it still holds.
func (r *Result) finish(w *world, thrown any) {
	switch v := thrown.(type) {
	case nil:
	case violation:
		r.Err = errors.New(v.text)
	default:
		r.Err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	}
	if w == nil {
		return
	}
	r.Commands, r.Clients = w.commands, len(w.clients)
	if w.srv != nil && r.Err == nil {
		w.srv.bury()
	}
}

func newWorld(seed uint64, res *Result, tune func(*plan)) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 0x73696d)), seed: seed, result: res, tracing: res.trace != nil,
		choices: map[epoch.Generation]choice{}, openings: map[epoch.Generation]bool{},
	}
	w.model = newModel(&w.clock)
	w.p = newPlan(w.rng)
	if tune != nil {
		tune(&w.p)
	}
	w.start()
	return w
}

// start makes disk, counter and clients by the plan.
func (w *world) start() {
	p := &w.p
	w.histories = newHistories(&w.events)
	w.disk = memdev.New(memdev.Options{
		Blocks: p.blocks, BlocksMax: p.blocksMax, Seed: w.seed, Manual: true, History: p.adversary, Garbage: p.garbage,
		TransferBlocks: 256,
	})
	w.disk.SetFault(w.diskFault)
	w.keys = newKeySource(w.seed, p.suite)
	w.counter = epochtest.NewMemory(epochtest.Options{
		Clock:   w.stamp,
		Bounded: p.bounded, Lagging: p.lagging, Async: p.async, Fault: w.counterFault,
	})
	w.healed = true
	if err := w.counter.Create(context.Background(), w.store()); err != nil {
		failf("create: %v", err)
	}
	w.healed = false
	for i := range p.clients {
		w.clients = append(w.clients, &client{id: i, db: w.rng.IntN(databases) * w.rng.IntN(2), level: level(w.rng)})
	}
	if w.tracing {
		w.note("plan %+v", w.p)
	}
}

func (w *world) store() epoch.StoreID { return epoch.StoreID(w.keys.StoreID()) }

// stamp is the counter's clock: true time where the host does not own it.
func (w *world) stamp() epoch.Stamp {
	if w.p.bounded {
		return w.clock.trueTime()
	}
	return epoch.Stamp(w.clock.Wall())
}

// record is what the counter holds.
func (w *world) record() epoch.Record { return w.counter.Snapshot()[w.store()] }

func (w *world) count(what string) { w.result.Counts[what]++ }

func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.result.trace(fmt.Sprintf(format, args...))
	}
}

// cut ends the server that runs or opens, as a kill or a power cut does. What was under way to the counter may still arrive.
func (w *world) cut(power bool) {
	if s := w.srv; s != nil {
		s.line.dead = true
		if s.disk.unfinished() {
			w.result.Crashes++
		}
	}
	if power {
		w.count("power cut")
		w.disk.PowerCut(w.rng)
		w.counter.PowerCut(w.rng)
	} else {
		w.count("kill")
		w.disk.Kill()
		w.counter.Kill()
	}
}

// diskFault decides what befalls one request; see armDisk.
func (w *world) diskFault(r memdev.Request) memdev.Fault {
	if w.healed {
		return memdev.Fault{}
	}
	if w.p.diskFaults && r.Op != device.OpRead && chance(w.rng, 5) {
		w.count("delayed write")
		return memdev.Fault{Delay: 1 + w.rng.IntN(6)}
	}
	opening := w.srv == nil
	perMille := 5
	if r.Op == device.OpRead && !opening {
		perMille = 30
	}
	if !w.p.diskFaults || w.rng.IntN(1000) >= perMille {
		return memdev.Fault{}
	}
	switch r.Op {
	case device.OpRead:
		if opening {
			w.faultInOpen = true
			w.count("read error in Open")
			w.note("read error at block %d", r.LBA)
			return memdev.Fault{Err: errInjected}
		}
		w.readsTampered = true
		switch w.rng.IntN(3) {
		case 0:
			w.count("read error")
			return memdev.Fault{Err: errInjected}
		case 1:
			w.count("torn read")
			return memdev.Fault{Land: memdev.LandTorn}
		}
		w.count("dropped read")
		return memdev.Fault{Land: memdev.LandNone}
	case device.OpWrite:
		w.writeFault, w.faultInOpen = true, w.faultInOpen || opening
		land := choose(w.rng, memdev.LandNone, memdev.LandAll, memdev.LandTorn)
		w.note("write error at block %d", r.LBA)
		w.count([]string{"", "write error, landed", "write error, lost", "write error, torn"}[land])
		return memdev.Fault{Err: errInjected, Land: land}
	case device.OpFlush:
		w.writeFault, w.faultInOpen = true, w.faultInOpen || opening
		w.count("flush error")
		return memdev.Fault{Err: errInjected}
	}
	return memdev.Fault{}
}
