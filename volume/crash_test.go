package volume_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// The crash matrix (DESIGN.md 6.1, 6.4, 6.5): a script is run with a fault at its nth write or flush, or its nth call of the
// counter, for every n that the script reaches; then the machine is killed or loses power; then it must start, and hold at
// least what was acknowledged and nothing that was never written. An honest crash is never refused.

var errInjected = errors.New("injected")

type script struct {
	name string
	run  func(c *crash) // returns at the first error
	// Of a device that takes only so many blocks in one request, and a volume of large segments; 0: the usual.
	transfer, segment, blocks device.BlockCount
}

// crash is one run of a script towards its fault.
type crash struct {
	*rig
	acked   map[uint32]string   // by key: the last acknowledged value
	maybe   map[uint32][]string // values since then that were not acknowledged
	stopped bool
}

func (c *crash) start() {
	if c.stopped = c.stopped || c.tryOpen() != nil; !c.stopped {
		c.check("after the start")
	}
}

func (c *crash) write(key uint32, value string) {
	if c.stopped {
		return
	}
	c.maybe[key] = append(c.maybe[key], value)
	if _, err := c.tryPut(volume.LevelDurable, op{key, value}); err != nil {
		c.stopped = true
		return
	}
	c.acked[key], c.maybe[key] = value, nil
}

// writeBlob is write of a blob: a restart finds its pointer together with all of its bytes, or neither.
func (c *crash) writeBlob(key uint32, seed uint64, n int) {
	if c.stopped {
		return
	}
	value := content(seed, n)
	c.maybe[key] = append(c.maybe[key], string(value))
	if err := c.tryBlob(volume.LevelDurable, key, value); err != nil {
		c.stopped = true
		return
	}
	c.acked[key], c.maybe[key] = string(value), nil
}

// values are the store's, those of blobs read from the device.
func (c *crash) values(when string) map[uint32]string {
	m := c.store.values()
	for key, it := range c.store.items {
		if it.blob == nil {
			continue
		}
		b, err := c.readBlob(key, 0, it.blob.Size())
		if err != nil {
			c.t.Fatalf("%s: key %d: a pointer without its data: %v", when, key, err)
		}
		m[key] = string(b)
	}
	return m
}

// check compares what is there with what must be, and from then on holds the store to it: a state that was served once never
// changes back.
func (c *crash) check(when string) {
	got := c.values(when)
	for key, want := range c.acked {
		ok := got[key] == want
		for _, m := range c.maybe[key] {
			ok = ok || got[key] == m
		}
		if !ok {
			c.t.Fatalf("%s: key %d is %.100q; acknowledged %.100q, maybe %.100q", when, key, got[key], want, c.maybe[key])
		}
	}
	for key, value := range got {
		ok := c.acked[key] == value
		for _, m := range c.maybe[key] {
			ok = ok || value == m
		}
		if !ok {
			c.t.Fatalf("%s: key %d is %q, which was never written or was replaced", when, key, value)
		}
	}
	c.acked = maps.Clone(got)
	c.maybe = map[uint32][]string{}
}

var scripts = []script{
	{name: "birth", run: func(c *crash) {
		c.start()
		c.write(1, "a")
	}},
	{name: "in pieces", transfer: 1, segment: 16, blocks: 160, run: func(c *crash) {
		c.start()
		c.write(1, fmt.Sprintf("a%12000d", 1))
		c.restartNow()
		for i := range 4 {
			c.write(uint32(i%3), fmt.Sprintf("%d %12000d", i, i))
		}
	}},
	{name: "restart", run: func(c *crash) {
		c.start()
		c.write(1, "a")
		c.write(2, "b")
		c.restartNow()
		c.write(1, "c")
		c.restartNow()
		c.write(3, "d")
	}},
	{name: "rolls", run: func(c *crash) {
		c.start()
		for i := range 12 {
			c.write(uint32(i%3), fmt.Sprintf("%d %2500d", i, i))
		}
	}},
	{name: "blobs", run: func(c *crash) {
		c.start()
		c.writeBlob(1, 1, 3*4096+10)
		c.write(2, "b")
		c.writeBlob(1, 2, 5*4096)
		c.write(2, "")
		c.restartNow()
		c.writeBlob(2, 3, 100)
		c.writeBlob(1, 4, 2*4096)
		c.restartNow()
		c.writeBlob(3, 5, 3*4096)
	}},
	{name: "rolls after a restart", run: func(c *crash) {
		c.start()
		c.write(1, "a")
		c.restartNow()
		for i := range 8 {
			c.write(uint32(i%3), fmt.Sprintf("%d %2500d", i, i))
		}
		c.restartNow()
		c.write(1, "b")
	}},
}

// restartNow is a kill and a start in the middle of a script.
func (c *crash) restartNow() {
	if c.stopped {
		return
	}
	c.dev.Kill()
	c.counter.Kill()
	c.start()
}

// fault decides what befalls the nth request that counts.
type fault struct {
	name    string
	device  memdev.Fault
	counter epochtest.Fault
}

var faults = []fault{
	{"lost", memdev.Fault{Err: errInjected, Land: memdev.LandNone}, epochtest.FaultLost},
	{"landed but reported failed", memdev.Fault{Err: errInjected, Land: memdev.LandAll}, epochtest.FaultAnswer},
	{"torn", memdev.Fault{Err: errInjected, Land: memdev.LandTorn}, epochtest.FaultNone},
}

func TestCrashMatrix(t *testing.T) {
	for _, s := range scripts {
		for _, lagging := range []bool{false, true} {
			if lagging && s.transfer > 0 && testing.Short() {
				continue
			}
			for _, f := range faults {
				t.Run(fmt.Sprintf("%s/lagging %v/%s", s.name, lagging, f.name), func(t *testing.T) {
					steps := 0
					for n := 1; ; n++ {
						if !crashAt(t, s, f, lagging, n) {
							break
						}
						steps = n
					}
					t.Logf("%d steps", steps)
					if steps < 5 {
						t.Fatal("the script did nothing that could fail")
					}
				})
			}
		}
	}
}

// crashAt runs the script with the fault at its nth step, three times: to be killed after, and to lose power in two ways. It
// reports whether the script had an nth step.
func crashAt(t *testing.T, s script, f fault, lagging bool, n int) bool {
	t.Helper()
	reached := false
	for way := range uint64(3) {
		r := newBlobRig(t, memdev.Options{Blocks: max(96, s.blocks), TransferBlocks: s.transfer, Seed: uint64(n)}, epochtest.Options{Lagging: lagging})
		r.opts.SegmentBlocks = max(r.opts.SegmentBlocks, s.segment)
		c := &crash{rig: r, acked: map[uint32]string{}, maybe: map[uint32][]string{}}
		step := 0
		r.dev.SetFault(func(q memdev.Request) memdev.Fault {
			if q.Op != device.OpRead && r.dev != nil {
				if step++; step == n {
					reached = true
					return f.device
				}
			}
			return memdev.Fault{}
		})
		s.run(c)
		r.dev.SetFault(nil)
		if way == 0 {
			r.dev.Kill()
			r.counter.Kill()
		} else {
			rng := rand.New(rand.NewPCG(way, uint64(n)))
			r.dev.PowerCut(rng)
			r.counter.PowerCut(rng)
		}
		for i := range 3 { // start, progress, start again
			if err := r.tryOpen(); err != nil {
				t.Fatalf("step %d, way %d: start %d after an honest crash: %v", n, way, i, err)
			}
			c.stopped = false
			c.check(fmt.Sprintf("step %d, way %d, start %d", n, way, i))
			c.write(uint32(100+i), "progress")
			if c.stopped {
				t.Fatalf("step %d, way %d: no progress after start %d: %v", n, way, i, r.v.Err())
			}
			r.dev.Kill()
			r.counter.Kill()
		}
	}
	return reached
}

// TestCounterCrashMatrix is the same for the calls of the counter: a lost request, and a lost answer.
func TestCounterCrashMatrix(t *testing.T) {
	for _, s := range scripts {
		for _, f := range faults[:2] {
			t.Run(s.name+"/"+f.name, func(t *testing.T) {
				for n := 1; ; n++ {
					reached, step := false, 0
					o := epochtest.Options{Fault: func(call epochtest.Call) epochtest.Fault {
						if call == epochtest.CallCreate {
							return epochtest.FaultNone
						}
						if step++; step == n {
							reached = true
							return f.counter
						}
						return epochtest.FaultNone
					}}
					r := newBlobRig(t, memdev.Options{Blocks: 96}, o)
					c := &crash{rig: r, acked: map[uint32]string{}, maybe: map[uint32][]string{}}
					s.run(c)
					r.dev.Kill()
					r.counter.Kill()
					c.stopped = false
					if c.start(); c.stopped {
						if c.stopped = false; reached { // the fault met this start: the next one goes through
							c.start()
						}
						if c.stopped {
							t.Fatalf("call %d: refused after an honest crash: %v", n, r.tryOpen())
						}
					}
					c.write(9, "progress")
					if c.stopped && reached && r.v.Err() != nil { // the fault met this run: the next one goes through
						r.dev.Kill()
						r.counter.Kill()
						c.stopped = false
						c.start()
						c.write(9, "progress")
					}
					if c.stopped {
						t.Fatalf("call %d: no progress", n)
					}
					if !reached {
						return
					}
				}
			})
		}
	}
}

// The rollback matrix: what a host may put back between runs, and whether the start is refused.
func TestRollbackMatrix(t *testing.T) {
	type world struct {
		dev     *memdev.Snapshot
		counter epochtest.Snapshot
	}
	blank := memdev.New(memdev.Options{Blocks: 96}).Snapshot()
	rows := []struct {
		name   string
		disk   func(old, now *memdev.Device) *memdev.Device
		refuse bool
	}{
		{"the disk as it is", func(_, now *memdev.Device) *memdev.Device { return now }, false},
		{"yesterday's disk", func(old, _ *memdev.Device) *memdev.Device { return old }, true},
		{"a blank disk", func(_, _ *memdev.Device) *memdev.Device { return memdev.Fork(blank, memdev.Options{Blocks: 96}) }, true},
		{"both older superblocks, newer frames", func(old, now *memdev.Device) *memdev.Device {
			now.Poke(0, old.Peek(0))
			now.Poke(1, old.Peek(1))
			return now
		}, true},
		{"both superblocks wiped", func(_, now *memdev.Device) *memdev.Device {
			now.Poke(0, make([]byte, device.BlockSize))
			now.Poke(1, make([]byte, device.BlockSize))
			return now
		}, true},
		{"superblocks swapped", func(_, now *memdev.Device) *memdev.Device { now.Swap(0, 1); return now }, true},
		{"newer superblocks, older frames", func(old, now *memdev.Device) *memdev.Device {
			old.Poke(0, now.Peek(0))
			old.Poke(1, now.Peek(1))
			return old
		}, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, memdev.Options{Blocks: 96}, epochtest.Options{})
			r.open()
			r.put(volume.LevelFresh, op{1, "old"})
			r.close()
			old := r.dev.Snapshot()
			r.open()
			r.put(volume.LevelFresh, op{1, "new"}, op{2, "also new"})
			r.close()
			now := world{r.dev.Snapshot(), r.counter.Snapshot()}
			fork := func(s *memdev.Snapshot) *memdev.Device { return memdev.Fork(s, memdev.Options{Blocks: 96}) }
			r.dev = row.disk(fork(old), fork(now.dev))
			err := r.tryOpen()
			switch {
			case row.refuse && !errors.Is(err, volume.ErrRollback):
				t.Fatalf("not refused: %v", err)
			case !row.refuse && err != nil:
				t.Fatal(err)
			case !row.refuse:
				r.wantState(map[uint32]string{1: "new", 2: "also new"})
			}
		})
	}
}

// TestASuffixHiddenAtOneStartNeverReturns: durable but uncommitted frames that a start did not see were replaced by that start.
func TestASuffixHiddenAtOneStartNeverReturns(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 96}, epochtest.Options{Async: true})
	r.openAsync()
	before := r.dev.Snapshot()
	if _, err := r.store.write(op{1, "suffix"}); err != nil {
		t.Fatal(err)
	}
	r.v.Want(volume.Counter(^uint64(0)>>1), volume.LevelDurable)
	for range 10 {
		r.v.Step()
	}
	r.dev.Kill()
	r.counter.Kill()
	with := r.dev.Snapshot()

	r.dev.Restore(before) // the host hides the suffix: allowed, it was never committed
	r.openAsync()
	r.wantState(map[uint32]string{})
	r.dev.Kill()
	r.counter.Kill()

	r.dev.Restore(with) // and shows it again, in place of what was written since
	if err := r.tryOpenAsync(); !errors.Is(err, volume.ErrRollback) {
		t.Fatalf("the replaced suffix came back: %v", err)
	}
}

// TestAnOpeningThatWasNeverCommittedIsIgnored: the disk holds an opening frame and a superblock of a generation whose commit
// never arrived; the older superblock's state is the one.
func TestAnOpeningThatWasNeverCommittedIsIgnored(t *testing.T) {
	lose := false
	r := newRig(t, memdev.Options{Blocks: 128}, epochtest.Options{Fault: func(c epochtest.Call) epochtest.Fault {
		if lose && c == epochtest.CallCommit {
			return epochtest.FaultLost
		}
		return epochtest.FaultNone
	}})
	r.open()
	r.put(volume.LevelFresh, op{1, "a"})
	for range 4 {
		r.dev.Kill()
		r.counter.Kill()
		lose = true
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if err := r.openWith(ctx); err == nil {
			t.Fatal("started without its opening commit")
		}
		cancel()
		r.dev.Kill()
		r.counter.Kill()
		lose = false
		r.open()
		r.wantState(map[uint32]string{1: "a"})
	}
}

// TestTwoServers: the one that opened first is fenced at its next commit.
func TestTwoServers(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 96}, epochtest.Options{})
	r.open()
	r.put(volume.LevelFresh, op{1, "a"})
	first, firstStore := r.v, r.store
	copied := memdev.Fork(r.dev.Snapshot(), memdev.Options{Blocks: 96})
	second := &rig{t: t, dev: copied, counter: r.counter, keys: r.keys, opts: r.opts}
	second.open()
	second.wantState(map[uint32]string{1: "a"})
	second.put(volume.LevelFresh, op{1, "b"})
	r.v, r.store = first, firstStore
	if _, err := r.tryPut(volume.LevelFresh, op{1, "lost"}); !errors.Is(err, volume.ErrFenced) {
		t.Fatalf("the older server went on: %v", err)
	}
	second.put(volume.LevelFresh, op{1, "c"})
}

func TestAVolumeWithoutARecordIsRefused(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 96}, epochtest.Options{})
	r.open()
	r.put(volume.LevelFresh, op{1, "a"})
	r.close()
	r.counter = epochtest.NewMemory(epochtest.Options{})
	if err := r.tryOpen(); !errors.Is(err, epoch.ErrNoRecord) {
		t.Fatalf("opened without a record: %v", err)
	}
}

func TestBirthSparesWhatIsNotOurs(t *testing.T) {
	foreign := make([]byte, device.BlockSize)
	copy(foreign[1080:], "\x53\xef") // an ext4 superblock's magic
	r := newRig(t, memdev.Options{Blocks: 96}, epochtest.Options{})
	r.dev.Poke(0, foreign)
	if err := r.tryOpen(); !errors.Is(err, volume.ErrForeign) {
		t.Fatalf("formatted over a file system: %v", err)
	}
	r.opts.FormatForeign = true
	r.open()
}

// TestAReadErrorIsNoRollback: a device that does not read says nothing about the state. Recovery stops, changes nothing, and
// succeeds once the device reads again; it never falls back to an older superblock.
func TestAReadErrorIsNoRollback(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 96}, epochtest.Options{})
	want := map[uint32]string{}
	r.open()
	for i := range 12 {
		o := op{uint32(i % 3), fmt.Sprintf("%d %2500d", i, i)}
		r.put(volume.LevelDurable, o)
		want[o.key] = o.value
	}
	r.dev.Kill()
	for nth := range 100 {
		reads, hit := 0, false
		r.dev.SetFault(func(q memdev.Request) memdev.Fault {
			if q.Op == device.OpRead {
				if reads++; reads == nth+1 {
					hit = true
					return memdev.Fault{Err: errInjected}
				}
			}
			return memdev.Fault{}
		})
		err := r.tryOpen()
		r.dev.SetFault(nil)
		if !hit {
			if err != nil {
				t.Fatal(err)
			}
			r.wantState(want)
			return
		}
		if !errors.Is(err, errInjected) || errors.Is(err, volume.ErrRollback) {
			t.Fatalf("read %d failed: %v", nth+1, err)
		}
	}
	t.Fatal("recovery never came to its end")
}
