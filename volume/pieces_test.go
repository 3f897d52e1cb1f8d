package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// A device refuses requests that are longer than what it says it takes. So whatever the volume does with one that takes little would
// fail here if it were not split: frames, large records, summaries, manifests, what recovery and compaction read.
func TestADeviceThatTakesLittleInOneRequest(t *testing.T) {
	for _, most := range []device.BlockCount{1, 3, 32} {
		t.Run(fmt.Sprint(most, " blocks"), func(t *testing.T) {
			longest := device.BlockCount(0)
			r := newRig(t, memdev.Options{Blocks: 64 * 24, TransferBlocks: most}, epochtest.Options{})
			r.dev.SetFault(func(q memdev.Request) memdev.Fault {
				if q.Op == device.OpRead || q.Op == device.OpWrite {
					longest = max(longest, q.Count)
				}
				return memdev.Fault{}
			})
			r.opts.SegmentBlocks, r.opts.FrameBytes = 64, 256<<10
			want := map[uint32]string{}
			for run := range 3 {
				r.open()
				r.wantState(want)
				r.readBack()
				for i := range 60 { // each record takes up to 13 blocks, a batch more
					var ops []op
					for k := range 3 {
						o := op{uint32((7*i + k + run) % 23), fmt.Sprint(run, i, k, strings.Repeat("x", 300+i*850))}
						want[o.key] = o.value
						ops = append(ops, o)
					}
					r.put(volume.LevelFresh, ops...)
					for range 20 {
						if _, err := r.v.Compact(); err != nil && !isBusy(err) {
							t.Fatal(err)
						}
						r.v.Step()
					}
				}
				r.readBack()
				if s := r.v.Status(); s.SegmentsCleaned == 0 || s.SegmentsRefused != 0 || s.SegmentsListed == 0 {
					t.Fatalf("compaction has cleaned %d segments and refused %d, %d have summaries", s.SegmentsCleaned, s.SegmentsRefused, s.SegmentsListed)
				}
				r.close()
			}
			r.open()
			r.wantState(want)
			if longest != most {
				t.Fatalf("the longest request had %d blocks: the test meant to reach %d", longest, most)
			}
		})
	}
}
