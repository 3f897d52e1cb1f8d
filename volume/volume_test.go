package volume_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

func isBusy(err error) bool { return errors.Is(err, volume.ErrBusy) }

func TestWhatWasWrittenIsThereAfterRestarts(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 4096}, epochtest.Options{})
	want := map[uint32]string{}
	for run := range 4 {
		r.open()
		r.wantState(want)
		r.readBack()
		for i := range 200 {
			k := uint32(i*7+run) % 97
			o := op{k, fmt.Sprintf("run %d value %d %s", run, i, strings.Repeat("x", i))}
			if i%5 == 4 {
				o.value = ""
			}
			r.put(volume.LevelFresh, o)
			if o.value == "" {
				delete(want, k)
			} else {
				want[k] = o.value
			}
		}
		r.readBack()
		r.close()
	}
	r.open()
	r.wantState(want)
	r.readBack()
}

func TestAKillLosesNothingThatWasDurable(t *testing.T) {
	for _, l := range []volume.Level{volume.LevelDurable, volume.LevelFresh} {
		t.Run(l.String(), func(t *testing.T) {
			r := newRig(t, memdev.Options{Blocks: 1024}, epochtest.Options{})
			want := map[uint32]string{}
			for range 5 {
				r.open()
				r.wantState(want)
				for i := range 50 {
					o := op{uint32(i), fmt.Sprint(len(want), i)}
					r.put(l, o)
					want[o.key] = o.value
				}
				r.dev.Kill()
				r.counter.Kill()
			}
		})
	}
}

func TestABatchLargerThanASegmentIsAtomic(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 4096}, epochtest.Options{})
	r.opts.SegmentBlocks = 32
	r.opts.FrameBytes = 16 << 10
	r.open()
	want := map[uint32]string{}
	var ops []op
	for i := range 300 {
		o := op{uint32(i), strings.Repeat(fmt.Sprint(i, " "), 400)}
		ops = append(ops, o)
		want[o.key] = o.value
	}
	r.put(volume.LevelFresh, ops...)
	before := maps.Clone(want)
	r.readBack()
	r.close()
	r.open()
	r.wantState(want)
	r.readBack()
	// The next one is cut in the middle: it must vanish as a whole.
	for i := range ops {
		ops[i].value = "new" + ops[i].value
	}
	var err error
	for _, err = r.store.write(ops...); isBusy(err); _, err = r.store.write(ops...) {
		r.v.Step()
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.v.Step() // some of its frames, not all
	}
	r.dev.Kill()
	r.open()
	r.wantState(before)
}

func TestAFullVolumeSaysSoAndStartsAgain(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 64}, epochtest.Options{})
	r.open()
	want := map[uint32]string{}
	var err error
	for i := uint32(0); ; i++ {
		if i > 1000 {
			t.Fatal("a volume of 256 KiB took a thousand blocks")
		}
		o := op{i % 7, strings.Repeat("f", 2000)}
		if _, err = r.tryPut(volume.LevelFresh, o); err != nil {
			break
		}
		want[o.key] = o.value
	}
	if !errors.Is(err, volume.ErrFull) {
		t.Fatalf("full volume: %v", err)
	}
	if n := r.v.Status().Segments; n < 5 {
		t.Fatalf("full after %d segments", n)
	}
	r.close()
	for range 2 {
		r.open()
		r.wantState(want)
		r.close()
	}
}

func TestARestoredDiskIsRefused(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 512}, epochtest.Options{})
	r.open()
	r.put(volume.LevelFresh, op{1, "old"})
	old := r.dev.Snapshot()
	r.put(volume.LevelFresh, op{1, "new"})
	r.close()
	now := r.dev.Snapshot()
	r.dev.Restore(old)
	err := r.tryOpen()
	if !errors.Is(err, volume.ErrRollback) || !strings.Contains(err.Error(), "trusted counter is at") {
		t.Fatalf("restored disk: %v", err)
	}
	r.dev.Restore(memdev.New(memdev.Options{Blocks: 512}).Snapshot())
	if err := r.tryOpen(); !errors.Is(err, volume.ErrRollback) {
		t.Fatalf("blank disk: %v", err)
	}
	r.dev.Restore(now)
	r.open()
	r.wantState(map[uint32]string{1: "new"})
}
