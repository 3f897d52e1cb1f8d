package sim

import (
	"fmt"
	"time"

	"cvmstore/volume"
)

// scenario is a world without chance, but for the disk's: a directed test says what happens, and the world's checks are the same
// as in a simulated seed. A broken promise panics with a violation; see Directed.
type scenario struct {
	*world
	values int
}

// Directed runs a scripted scenario for one seed of the disk, with a plan bent by tune, and returns the broken promise or nil.
func Directed(seed uint64, tune func(*plan), script func(*scenario)) (res *Result) {
	res = &Result{Seed: seed, Counts: map[string]int{}}
	var w *world
	defer func() {
		res.finish(w, recover())
	}()
	w = newWorld(seed, res, func(p *plan) {
		*p = plan{
			clients: 1, keys: 4, pipeline: 1, valueMax: 100, segmentBlocks: 16, frameBytes: 64 << 10, framesInFlight: 4, epochOps: 1 << 16,
			epochBytes: 64 << 20, epochLength: time.Hour, suite: p.suite, cacheBytes: -1, blobBytes: -1, blocks: 512, blocksMax: 512, adversary: true,
		}
		if tune != nil {
			tune(p)
		}
	})
	script(&scenario{world: w})
	return res
}

// start opens a server that must serve.
func (s *scenario) start() {
	s.healed = true
	if err := s.tryStart(trip{}); err != nil {
		failf("start: %v", err)
	}
}

// tryStart opens a server, through a crash at a step if tr says so, and returns Open's error.
func (s *scenario) tryStart(tr trip) error {
	sv := s.newServer(s.disk, &tr)
	err := sv.open()
	s.settle(sv, &tr, err)
	if err != nil {
		sv.bury()
	}
	return err
}

// crashInOpen starts a server that dies at a step: the nth (from 1) of those that leave a trace, before or after it happened.
// They are, after the first birth: Open at the counter, flush, manifest, opening frame, counter's flush, superblock, commit,
// counter's flush again.
func (s *scenario) crashInOpen(nth int, before, power bool) {
	if err := s.tryStart(trip{left: nth, before: before, power: power}); err == nil {
		failf("scenario: Open did not reach its step %d", nth)
	}
}

// mayCrashInOpen is crashInOpen where Open may have fewer steps: then the server is killed once it serves.
func (s *scenario) mayCrashInOpen(nth int, before, power bool) {
	if err := s.tryStart(trip{left: nth, before: before, power: power}); err == nil {
		s.kill()
	}
}

// The steps of crashInOpen, for a volume that exists. A birth has one more, the claim, after the flush.
const (
	stepOpen = iota + 1
	stepFlush
	stepManifest
	stepFrame
	stepSync
	stepSuperblock
	stepCommit
	stepLastSync
)

// set runs a SET; it does not wait.
func (s *scenario) set(key string) {
	s.values++
	cl := s.clients[0]
	cl.now = &command{verb: vSet, keys: [][]byte{[]byte(key)}, vals: [][]byte{fmt.Appendf(nil, "value %d", s.values)}}
	s.act(cl)
}

// setAt runs a SET and waits until it has reached a level.
func (s *scenario) setAt(key string, l volume.Level) {
	s.clients[0].level = l
	s.set(key)
	s.settleReplies()
}

// settleReplies steps until every reply has left.
func (s *scenario) settleReplies() {
	for n := 0; s.waiting(); n++ {
		if n > 1000 {
			failf("scenario: %v", s.stuck())
		}
		if cl := s.clients[0]; cl.now != nil {
			s.act(cl)
		}
		s.step()
		s.deliver()
	}
}

// steps lets the server take a few steps: less than what a frame needs to become durable for certain.
func (s *scenario) steps(n int) {
	for range n {
		s.step()
	}
}

func (s *scenario) kill()     { s.endServer(func() { s.cut(false) }) }
func (s *scenario) powerCut() { s.endServer(func() { s.cut(true) }) }
