package hostile_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"cvmstore/internal/hostile"
	"cvmstore/nvme"
)

var (
	composeFor  = flag.Duration("hostile.for", 2*time.Second, "how long random compositions of attacks are tried")
	composeSeed = flag.Uint64("hostile.seed", 0, "try this composition only")
)

// Random compositions of attacks, on random controllers. The workload checks that no wrong byte is accepted, that each request
// completes once, and that no wait is endless; a panic fails the test; the controller checks that no command points outside
// of the memory for it.
func TestComposition(t *testing.T) {
	made := map[hostile.Attack]int{}
	var seeds, opened, verified, refused, broken uint64
	first, last := uint64(1), ^uint64(0)
	if *composeSeed > 0 {
		first, last = *composeSeed, *composeSeed
	}
	deadline := time.Now().Add(*composeFor)
	for seed := first; seed <= last && (seed == first || time.Now().Before(deadline)); seed++ {
		c, w := compose(t, seed)
		seeds++
		for _, a := range hostile.All() {
			made[a] += c.Made(a)
		}
		if w != nil {
			opened++
			verified += uint64(w.verified)
			refused += uint64(w.refused)
			if w.broken != nil {
				broken++
			}
		}
		if t.Failed() {
			t.Fatalf("replay: go test ./internal/hostile -run TestComposition -hostile.seed=%d (%s)", seed, c.Replay())
		}
	}
	t.Logf("%d compositions, %d opened, %d ended with a broken queue; %d blocks verified, %d refused; attacks made: %v",
		seeds, opened, broken, verified, refused, made)
	if *composeSeed > 0 || *composeFor < 30*time.Second {
		return
	}
	if verified == 0 || refused == 0 || broken == 0 || opened == seeds {
		t.Error("one of the outcomes never happened")
	}
	for _, a := range hostile.All() {
		if made[a] == 0 && a != hostile.Peek && a.Row() != 33 && a != hostile.OtherDevice {
			t.Errorf("attack %v was never made", a)
		}
	}
}

func compose(t *testing.T, seed uint64) (*hostile.Controller, *workload) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	pick := func(n int) bool { return rng.IntN(n) == 0 }
	o := hostile.Options{
		Seed: seed, Every: 1 + rng.IntN(60), Shuffle: pick(2), Scatter: pick(2), NoTrim: pick(4), Blocks: 64 + uint64(rng.IntN(1000)),
		LogicalBytes: []int{512, 4096}[rng.IntN(2)], MDTS: uint8(rng.IntN(8)), Entries: 2 + rng.IntN(64), Pairs: 1 + rng.IntN(4),
	}
	if o.MDTS > 0 {
		o.MDTS = max(o.MDTS, 3) // the workload's transfers
	}
	for _, a := range hostile.All() {
		if chance := 12; a.Setup() && pick(3*chance) || !a.Setup() && pick(chance) {
			o.Attacks = append(o.Attacks, a)
		}
	}
	c := hostile.New(o)
	d, err := nvme.Open(c, c, nvme.Options{Clock: c.Clock(), Depth: 8 + rng.IntN(64), Queues: 1 + rng.IntN(4)})
	if err != nil {
		blameless(t, c)
		return c, nil
	}
	w := newWorkload(t, c, d, seed)
	w.pause = pick(2)
	c.Arm(true)
	for range 4 {
		w.run(60)
		if w.broken == nil && pick(6) {
			c.PowerCut()
		}
		if w.broken != nil && pick(2) { // what goes on in a new queue, if there is one
			_ = w.q.Close()
			q, err := d.NewQueue(4)
			if err != nil {
				break
			}
			w.q, w.broken = q, nil
		}
	}
	was := w.broken
	w.close()
	w.broken = was
	if err := d.Close(); err == nil && was == nil && c.Held() > 0 {
		t.Errorf("%d pieces of shared memory are still allocated", c.Held())
	}
	blameless(t, c)
	return c, w
}
