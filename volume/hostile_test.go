package volume_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// hostileRig is a small volume with several generations, rolls, overwrites and deletes on it, and everything about it.
type hostileRig struct {
	*rig
	disk  *memdev.Snapshot
	state epochtest.Snapshot // of the counter
	want  map[uint32]string
}

const hostileBlocks = 52

func newHostileRig(t *testing.T) *hostileRig {
	r := newRig(t, memdev.Options{Blocks: hostileBlocks, History: true}, epochtest.Options{})
	want := map[uint32]string{}
	for run := range 2 {
		r.open()
		for i := range 5 {
			o := op{uint32(i % 4), fmt.Sprintf("secret-%d-%d-%s", run, i, strings.Repeat("s", 200*i))}
			if i == 4 {
				o.value = ""
			}
			r.put(volume.LevelFresh, o)
			if want[o.key] = o.value; o.value == "" {
				delete(want, o.key)
			}
		}
		r.close()
	}
	return &hostileRig{r, r.dev.Snapshot(), r.counter.Snapshot(), want}
}

// outcome opens a disk and says what came of it: "refused", "named error" (some read fails, nothing is wrong), or "carries
// nothing" (all is right). A wrong state or value fails the test.
func (h *hostileRig) outcome(what string, disk *memdev.Device) string {
	h.t.Helper()
	h.dev = disk
	h.counter.Restore(h.state)
	if err := h.tryOpen(); err != nil {
		if !errors.Is(err, volume.ErrRollback) && !errors.Is(err, volume.ErrCorrupt) && !errors.Is(err, volume.ErrForeign) {
			h.t.Fatalf("%s: unnamed error %v", what, err)
		}
		return "refused"
	}
	defer h.close()
	if got := h.store.values(); !maps.Equal(got, h.want) {
		h.t.Fatalf("%s: wrong state %.200v", what, got)
	}
	return h.readAll(what)
}

func (h *hostileRig) readAll(what string) string {
	h.t.Helper()
	result := "carries nothing"
	for k, it := range h.store.items {
		p, err := h.v.Read(context.Background(), volume.Fetch{
			At: it.place, Size: it.size, Counter: it.counter, Store: volume.StoreKeys, Kind: toyPut,
		})
		switch {
		case err != nil && !errors.Is(err, volume.ErrCorrupt):
			h.t.Fatalf("%s: key %d: unnamed error %v", what, k, err)
		case err != nil:
			result = "named error"
		case string(p[4:]) != h.want[k]:
			h.t.Fatalf("%s: key %d: wrong value", what, k)
		}
	}
	return result
}

func (h *hostileRig) fork() *memdev.Device {
	return memdev.Fork(h.disk, memdev.Options{Blocks: hostileBlocks})
}

func TestEveryByteFlipped(t *testing.T) {
	step := 1
	if testing.Short() || raceEnabled {
		step = 61
	}
	var mu sync.Mutex
	total := map[string]int{}
	t.Run("flips", func(t *testing.T) {
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				h := newHostileRig(t)
				counts := map[string]int{}
				for at := w * step; at < hostileBlocks*device.BlockSize; at += step * workers {
					d := h.fork()
					d.FlipBit(device.LBA(at/device.BlockSize), at%device.BlockSize*8+at%8)
					counts[h.outcome(fmt.Sprintf("byte %d flipped", at), d)]++
				}
				mu.Lock()
				defer mu.Unlock()
				for what, n := range counts {
					total[what] += n
				}
			})
		}
	})
	t.Logf("%d bytes flipped before the start: %v", hostileBlocks*device.BlockSize/step, total)
	if total["refused"] == 0 || total["carries nothing"] == 0 {
		t.Fatal("the flips tested nothing")
	}
}

func TestEveryByteFlippedWhileRunning(t *testing.T) {
	h := newHostileRig(t)
	h.dev = h.fork()
	h.counter.Restore(h.state)
	h.open()
	counts := map[string]int{}
	for at := range hostileBlocks * device.BlockSize {
		h.dev.FlipBit(device.LBA(at/device.BlockSize), at%device.BlockSize*8+at%8)
		counts[h.readAll(fmt.Sprintf("byte %d flipped", at))]++
		h.dev.FlipBit(device.LBA(at/device.BlockSize), at%device.BlockSize*8+at%8)
	}
	t.Logf("%d bytes flipped under a running volume: %v", hostileBlocks*device.BlockSize, counts)
	if counts["named error"] == 0 {
		t.Fatal("the flips tested nothing")
	}
}

func TestEveryBlockSwappedZeroedOrOld(t *testing.T) {
	h := newHostileRig(t)
	source := h.rig.dev
	counts := map[string]int{}
	for a := range device.LBA(hostileBlocks) {
		for b := range a {
			d := h.fork()
			d.Swap(a, b)
			counts["swap: "+h.outcome(fmt.Sprintf("blocks %d and %d swapped", a, b), d)]++
		}
		d := h.fork()
		d.Poke(a, make([]byte, device.BlockSize))
		counts["zero: "+h.outcome(fmt.Sprintf("block %d zeroed", a), d)]++
		for i, old := range source.History(a) {
			d := h.fork()
			d.Poke(a, old)
			counts["old: "+h.outcome(fmt.Sprintf("block %d as in version %d", a, i), d)]++
		}
	}
	t.Log(counts)
	if counts["swap: refused"] == 0 || counts["zero: refused"] == 0 || counts["old: carries nothing"]+counts["old: refused"] == 0 {
		t.Fatal("the attacks tested nothing")
	}
}

func TestNothingReadableReachesTheDevice(t *testing.T) {
	h := newHostileRig(t)
	for lba := range device.LBA(hostileBlocks) {
		for _, old := range h.rig.dev.History(lba) {
			if strings.Contains(string(old), "secret-") || strings.Contains(string(old), "ssssssss") {
				t.Fatalf("block %d held plaintext", lba)
			}
		}
	}
}
