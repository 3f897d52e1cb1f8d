package volume_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

func TestABatchThatDoesNotFitLeavesRoomForOthers(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 64 * 12}, epochtest.Options{})
	r.opts.SegmentBlocks, r.opts.FrameBytes = 64, 64<<10
	r.open()
	var ops []op
	for i := range uint32(400) {
		ops = append(ops, op{i, strings.Repeat("h", 10000)})
	}
	if _, err := r.tryPut(volume.LevelFresh, ops...); !errors.Is(err, volume.ErrFull) {
		t.Fatalf("a batch of 4 MB in a volume of 3: %v", err)
	}
	n := 0
	for ; n < 1000; n++ {
		if _, err := r.tryPut(volume.LevelDurable, op{1, strings.Repeat("v", 10000)}); err != nil {
			break
		}
	}
	if n < 150 {
		t.Fatalf("%d small batches fit after it, with %d KiB free", n, r.v.Status().FreeBytes>>10)
	}
}

// A device queue in memory that can also write in the calling thread.
type (
	throughDevice struct{ *memdev.Device }
	throughQueue  struct {
		device.Queue
		side device.Queue
	}
)

func (d throughDevice) NewQueue(n int) (device.Queue, error) {
	q, err := d.Device.NewQueue(n)
	if err != nil {
		return nil, err
	}
	s, err := d.Device.NewQueue(1)
	return throughQueue{q, s}, err
}

func (q throughQueue) WriteThrough(lba device.LBA, buf []byte) error {
	if _, err := q.side.Submit([]device.Request{{Op: device.OpWrite, Through: true, LBA: lba, Buf: buf}}); err != nil {
		return err
	}
	var out [1]device.Completion
	_, err := q.side.Wait(out[:], time.Second)
	return errors.Join(err, out[0].Err)
}

func TestNoFrameIsLeftBehindAfterAWriteThrough(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 4096}, epochtest.Options{})
	store := &toyStore{items: map[uint32]toyItem{}}
	o := r.opts
	o.SegmentBlocks, o.FrameBytes = 256, 64<<10
	o.Device, o.Counter, o.Keys = throughDevice{r.dev}, r.counter, r.keys
	o.Stores = map[volume.Store]volume.Replayer{volume.StoreKeys: store}
	v, err := volume.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	store.v = v
	for range 20 {
		v.Step()
	}
	if _, err := store.write(op{1, "small"}); err != nil {
		t.Fatal(err)
	}
	c, err := store.write(op{2, strings.Repeat("L", 65400)}) // does not fit the first one's frame
	if err != nil {
		t.Fatal(err)
	}
	v.Want(c, volume.LevelFresh)
	v.Step()
	d, ok := v.Deadline()
	if !v.Reached(c, volume.LevelFresh) && (!ok || d > 0) {
		t.Fatalf("nothing in flight, a reply waits, and the loop may sleep for %v", d)
	}
}
