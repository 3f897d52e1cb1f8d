package volume_test

import (
	"bytes"
	"testing"
	"time"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// While a volume is held, nothing that was written is written over, but for the superblocks; afterwards blocks are used again.
func TestAHeldVolumeWritesOverNothing(t *testing.T) {
	const blocks = 1 << 13
	r := newBlobRig(t, memdev.Options{Blocks: blocks}, epochtest.Options{})
	r.open()
	value := content(1, 400_000)
	round := func(n int) {
		for i := range n {
			value[0] = byte(i)
			r.blob(volume.LevelFresh, uint32(i%3), value)
		}
	}
	image := func() (image [][]byte) {
		for i := range blocks {
			image = append(image, r.dev.Peek(device.LBA(i)))
		}
		return image
	}
	changed := func(before [][]byte) (n int) {
		for i := 2; i < blocks; i++ { // behind the superblocks
			if !bytes.Equal(before[i], make([]byte, device.BlockSize)) && !bytes.Equal(before[i], r.dev.Peek(device.LBA(i))) {
				n++
			}
		}
		return n
	}
	round(6)
	first := r.v.Hold(time.Minute)
	if again := r.v.Hold(time.Hour); again != first {
		t.Errorf("a hold that is renewed has number %d, was %d", again, first)
	}
	before := image()
	round(12)
	if n := changed(before); n > 1 { // one: the manifest before the last was free already
		t.Errorf("%d blocks were written over while they were held", n)
	}
	r.v.Unhold()
	if next := r.v.Hold(time.Second); next == first {
		t.Error("a hold that had ended goes on")
	}
	r.v.Unhold()
	before = image()
	round(12)
	if changed(before) < 10 {
		t.Error("nothing is used again after the hold: the test shows nothing")
	}
	r.close()
}
