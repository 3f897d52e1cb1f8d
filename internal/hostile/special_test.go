package hostile_test

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"cvmstore/internal/hostile"
	"cvmstore/ioengine/device"
	"cvmstore/nvme"
)

// armed returns a workload that went well so far, on a controller that attacks from now on.
func armed(t *testing.T, o hostile.Options, d nvme.Options) *workload {
	t.Helper()
	c := hostile.New(o)
	w := newWorkload(t, c, open(t, c, d), o.Seed)
	w.run(60)
	if len(w.failed) > 0 || w.refused > 0 || w.broken != nil {
		t.Fatalf("before the attack: %s", w.outcome())
	}
	c.Arm(true)
	return w
}

// harass changes what is shared from another goroutine while f runs.
func harass(c *hostile.Controller, data bool, f func()) {
	stop := make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() { c.Harass(stop, data) })
	f()
	close(stop)
	other.Wait()
}

// Row 5: entries alternate between two possible values while the driver looks. It takes one of them, whole.
func TestCompletionsChangeMeanwhile(t *testing.T) {
	w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.CompletionChanges}, Every: 1 << 30, Shuffle: true}, nvme.Options{})
	harass(w.c, false, func() {
		for range 20 {
			w.run(200)
		}
	})
	if w.broken != nil || w.refused > 0 || w.verified == 0 || w.c.Made(hostile.CompletionChanges) < 100 {
		t.Fatalf("%d changes: %s", w.c.Made(hostile.CompletionChanges), w.outcome())
	}
	for _, err := range w.failed {
		if !errors.Is(err, nvme.ErrRefused) {
			t.Fatal(err)
		}
	}
	w.close()
	if err := w.d.Close(); err != nil {
		t.Fatal(err)
	}
}

// Row 8: the ciphertext changes while it is decrypted, straight from shared memory. Either the tag fails, or the plaintext is right.
func TestDataChangesDuringDecryption(t *testing.T) {
	if raceEnabled {
		t.Skip("the race is the point")
	}
	w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.DataChanges}, Every: 1 << 30}, nvme.Options{})
	w.write(3, 1, true)
	harass(w.c, true, func() {
		for range 2000 {
			if err := w.do(device.Request{Op: device.OpRead, LBA: 3, Buf: w.r[:device.BlockSize]}); err != nil {
				t.Fatal(err)
			}
			w.verify(3, w.r[:device.BlockSize])
		}
	})
	if w.verified == 0 || w.c.Made(hostile.DataChanges) == 0 {
		t.Fatalf("%d changes: %s", w.c.Made(hostile.DataChanges), w.outcome())
	}
	t.Logf("%d changes; %s", w.c.Made(hostile.DataChanges), w.outcome())
}

// Rows 12 and 13: what a power cut leaves of blocks that were acknowledged, or torn, is noticed on read.
func TestPowerCut(t *testing.T) {
	for _, a := range []hostile.Attack{hostile.DropFlush, hostile.TornWrite} {
		w := armed(t, hostile.Options{Attacks: []hostile.Attack{a}, Every: 1, Seed: 3}, nvme.Options{})
		for lba := range device.LBA(20) {
			w.write(lba, 1, false)
		}
		if err := w.do(device.Request{Op: device.OpFlush}); err != nil {
			t.Fatal(err)
		}
		if a == hostile.TornWrite { // its flush was honest: what comes after it is at stake
			for lba := range device.LBA(20) {
				w.write(lba, 1, false)
			}
		}
		w.c.PowerCut()
		w.readAll()
		if w.refused == 0 || w.broken != nil || w.c.Made(a) == 0 {
			t.Errorf("%v, made %d times: %s", a, w.c.Made(a), w.outcome())
		}
		w.close()
	}
}

// Row 17, first half.
func TestGeometryChanges(t *testing.T) {
	w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.GeometryChanges, hostile.NeverDone}, Every: 5}, nvme.Options{})
	w.run(400)
	if !errors.Is(w.broken, nvme.ErrGeometry) || w.c.Made(hostile.GeometryChanges) == 0 || w.refused > 0 {
		t.Fatal(w.outcome())
	}
	if _, err := w.d.NewQueue(1); !errors.Is(err, nvme.ErrGeometry) {
		t.Fatalf("a device of another size gives queues: %v", err)
	}
}

// Row 17, second half: an event that nobody asked for is a completion of nothing. The next admin command notices.
func TestEventsUnasked(t *testing.T) {
	w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.EventsUnasked}, Every: 3}, nvme.Options{})
	w.run(100)
	if w.broken != nil || w.refused > 0 || len(w.failed) > 0 || w.c.Made(hostile.EventsUnasked) == 0 {
		t.Fatal(w.outcome())
	}
	w.c.Arm(false)
	if _, err := w.d.NewQueue(4); !errors.Is(err, nvme.ErrProtocol) {
		t.Fatalf("new queue: %v", err)
	}
	w.close()
	if err := w.d.Close(); err != nil && !errors.Is(err, nvme.ErrProtocol) {
		t.Fatal(err)
	}
}

// Row 18: a read whose command was given up completes, with an error, only after the controller was stopped. What the
// controller writes after that harms nobody who looks at tags.
func TestLateDMA(t *testing.T) {
	for seed := range uint64(10) {
		w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.LateDMA}, Every: 40, Seed: seed, Shuffle: seed%2 == 0}, nvme.Options{})
		for range 100 {
			before := len(w.failed)
			resets := w.c.Resets()
			w.run(10)
			for _, err := range w.failed[before:] {
				if errors.Is(err, nvme.ErrReset) && w.c.Resets() == resets {
					t.Fatalf("a buffer came back before the controller was stopped: %v", err)
				}
			}
		}
		if w.c.Made(hostile.LateDMA) == 0 || w.verified == 0 {
			t.Fatalf("made %d times: %s", w.c.Made(hostile.LateDMA), w.outcome())
		}
	}
}

// Row 18: a controller that does not stop. Its buffers are never used again.
func TestNeverStops(t *testing.T) {
	w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.NeverStops, hostile.NeverDone}, Every: 2}, nvme.Options{})
	held := w.c.Held()
	w.run(400)
	if !errors.Is(w.broken, nvme.ErrTimeout) || w.c.Made(hostile.NeverStops) == 0 {
		t.Fatal(w.outcome())
	}
	quarantined := &w.r[0]
	w.close()
	for range 2000 {
		buf, err := w.d.Alloc(transferMax)
		if err != nil {
			t.Fatal(err)
		}
		if &buf[0] == quarantined {
			t.Fatal("a buffer that the controller may still write to was handed out again")
		}
	}
	_ = w.d.Close()
	if w.c.Held() < held {
		t.Fatal("memory was freed that the controller may still write to")
	}
}

// Row 21: commands get lost. They end by abort or reset, writes stop, reads go on, and a controller that goes on so is given up.
func TestNeverDone(t *testing.T) {
	aborted, stopped, givenUp := 0, 0, 0
	for seed := range uint64(20) {
		w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.NeverDone}, Every: 60, Seed: seed, Pairs: 1 + int(seed%2)}, nvme.Options{})
		w.run(800)
		if w.refused > 0 || w.verified == 0 || len(w.failed) == 0 || w.broken != nil && !errors.Is(w.broken, nvme.ErrTimeout) {
			t.Fatal(w.outcome())
		}
		for _, err := range w.failed {
			switch {
			case errors.Is(err, nvme.ErrWritesStopped):
				stopped++
			case errors.Is(err, nvme.ErrRefused):
				aborted++
			case !errors.Is(err, nvme.ErrReset):
				t.Fatal(err)
			}
		}
		if w.broken != nil {
			givenUp++
		}
	}
	if aborted == 0 || stopped == 0 || givenUp == 0 {
		t.Errorf("%d aborted, %d writes stopped, %d controllers given up: one of the ways was not taken", aborted, stopped, givenUp)
	}
}

func TestNeverDoneAdmin(t *testing.T) {
	w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.NeverDoneAdmin}}, nvme.Options{})
	before := w.c.Clock().Now()
	if _, err := w.d.NewQueue(4); !errors.Is(err, nvme.ErrTimeout) {
		t.Fatalf("new queue: %v", err)
	}
	// The controller may know of half a queue pair, so it is reset; nothing answers after that, so it is given up.
	w.run(20)
	if !errors.Is(w.broken, nvme.ErrTimeout) || w.c.Resets() == 0 || w.c.Made(hostile.NeverDoneAdmin) == 0 {
		t.Fatal(w.outcome())
	}
	w.close()
	_ = w.d.Close()
	if took := w.c.Clock().Now() - before; took > 3*time.Minute {
		t.Errorf("it took %v of the controller's time", took)
	}
}

// Row 32.
func TestFatalStatus(t *testing.T) {
	w := armed(t, hostile.Options{Attacks: []hostile.Attack{hostile.FatalStatus}, Every: 80}, nvme.Options{})
	w.run(200)
	if w.c.Made(hostile.FatalStatus) == 0 || w.c.Resets() == 0 || w.refused > 0 || len(w.failed) == 0 {
		t.Fatal(w.outcome())
	}
	w.c.Arm(false)
	if w.broken == nil {
		w.verified = 0
		w.readAll()
		if w.verified == 0 || w.broken != nil {
			t.Fatalf("after the reset: %s", w.outcome())
		}
	}
}

// Row 22.
func TestStringsAreEscaped(t *testing.T) {
	c := hostile.New(hostile.Options{Attacks: []hostile.Attack{hostile.StringsCrafted}})
	d := open(t, c, nvme.Options{})
	id := d.Identity()
	for _, s := range []string{id.Model, id.Serial, id.Firmware, d.Info().Name} {
		for _, r := range s {
			if r < ' ' || r > '~' {
				t.Errorf("%q holds %#x", s, r)
			}
		}
	}
	if id.Model == "" || c.Made(hostile.StringsCrafted) == 0 {
		t.Errorf("model %q", id.Model)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// Row 23: what an earlier user left in a buffer is gone before somebody else gets it, and stands nowhere else.
func TestNothingIsLeftInSharedMemory(t *testing.T) {
	c := hostile.New(hostile.Options{Attacks: []hostile.Attack{hostile.Peek}})
	d := open(t, c, nvme.Options{})
	w := newWorkload(t, c, d, 1)
	secret := bytes.Repeat([]byte("plaintext left behind"), 2000)[:transferMax*device.BlockSize]
	buf, err := d.Alloc(transferMax)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf, secret)
	if found := c.Search(secret[:64]); !slices.Contains(found, nvme.PurposeBuffers) {
		t.Fatal("the search finds nothing")
	}
	d.Free(buf)
	var all [][]byte
	for range 400 {
		if buf, err = d.Alloc(1); err != nil {
			t.Fatal(err)
		}
		all = append(all, buf)
	}
	if found := c.Search(secret[:64]); len(found) > 0 || c.Made(hostile.Peek) == 0 {
		t.Fatalf("it still stands in %v", found)
	}
	for _, b := range all {
		d.Free(b)
	}
	w.run(50)
	if len(w.failed) > 0 || w.refused > 0 {
		t.Fatal(w.outcome())
	}
}

// Row 29.
func TestFlushesWithoutACache(t *testing.T) {
	c := hostile.New(hostile.Options{Attacks: []hostile.Attack{hostile.NoCache}})
	d := open(t, c, nvme.Options{})
	w := newWorkload(t, c, d, 1)
	if d.Identity().WriteCache {
		t.Fatal("it says that it has a cache")
	}
	w.write(0, 1, true)
	if err := w.do(device.Request{Op: device.OpFlush}); err != nil || c.Flushes() != 2 {
		t.Fatalf("%d flushes of 2: %v", c.Flushes(), err)
	}
}

// Row 33.
func TestCapabilityLists(t *testing.T) {
	honest, err := nvme.Capabilities(hostile.New(hostile.Options{}).ConfigSpace())
	if err != nil || len(honest) != 3 || honest[1] != (nvme.Capability{ID: nvme.CapabilityPCIe, Offset: 0x50}) {
		t.Fatalf("%v, %v", honest, err)
	}
	for _, a := range []hostile.Attack{hostile.CapabilityLoop, hostile.CapabilityOutside} {
		c := hostile.New(hostile.Options{Attacks: []hostile.Attack{a}})
		all, err := nvme.Capabilities(c.ConfigSpace())
		if !errors.Is(err, nvme.ErrConfigSpace) || c.Made(a) == 0 {
			t.Errorf("%v: %v, %v", a, all, err)
		}
	}
}

// docs/NVME.md lists everything that is shared with the controller, and nothing else.
func TestSharedMemoryIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/NVME.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[nvme.Purpose]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| shared: ([^|]+?) *\|`).FindAllSubmatch(text, -1) {
		documented[nvme.Purpose(m[1])] = false
	}
	for _, pairs := range []int{1, 16} {
		c := hostile.New(hostile.Options{Pairs: pairs})
		w := newWorkload(t, c, open(t, c, nvme.Options{}), 1)
		w.run(100)
		for _, a := range c.Allocations() {
			if _, ok := documented[a.Purpose]; !ok {
				t.Errorf("%q is shared with the controller and not in docs/NVME.md", a.Purpose)
			}
			documented[a.Purpose] = true
		}
	}
	for p, used := range documented {
		if !used {
			t.Errorf("docs/NVME.md lists %q, which nobody allocates", p)
		}
	}
	if len(documented) == 0 {
		t.Error("docs/NVME.md lists nothing")
	}
}
