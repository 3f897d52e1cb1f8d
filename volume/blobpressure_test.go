package volume_test

import (
	"testing"
	"time"

	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/volume"
)

// While small commits follow one another closely, a transfer has few chunks at the device; one commit, such as a transfer makes
// at its end, does not count, and when the commits end it has all again.
func TestTransfersGiveWayToCommits(t *testing.T) {
	r := newBlobRig(t, memdev.Options{Blocks: 4096}, epochtest.Options{})
	const depth, pressed = 10, 4
	r.opts.Blobs.Depth, r.opts.Blobs.Buffers = depth, 32
	r.opts.SegmentBlocks = 64
	host := &hostClock{mono: time.Hour}
	r.opts.Clock = host
	r.open()
	defer r.close()
	bio, err := r.v.NewBlobIO()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bio.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	value := content(1, 40*blobTestChunk)
	// atDevice is how many chunks the device is given before it has completed any.
	atDevice := func() (n int) {
		bio.Step()
		r.dev.SetFault(func(q memdev.Request) memdev.Fault {
			if q.Op == device.OpWrite {
				n++
			}
			return memdev.Fault{}
		})
		defer r.dev.SetFault(nil)
		w, err := bio.NewWriter(int64(len(value)))
		if err != nil {
			t.Fatal(err)
		}
		w.Write(value)
		got := n
		w.Abandon()
		for bio.Busy() {
			bio.Step()
		}
		return got
	}
	host.mono += time.Second
	if n := atDevice(); n != depth {
		t.Fatalf("%d chunks are at the device while nobody commits, want %d", n, depth)
	}
	r.put(volume.LevelFresh, op{1, "a"})
	if n := atDevice(); n != depth {
		t.Fatalf("%d chunks are at the device after one commit, want %d", n, depth)
	}
	host.mono += 5 * time.Millisecond
	r.put(volume.LevelFresh, op{1, "b"})
	if n := atDevice(); n != pressed || !bio.Pressed() {
		t.Fatalf("%d chunks are at the device after two commits in 5 ms, want %d", n, pressed)
	}
	host.mono += 60 * time.Millisecond
	if n := atDevice(); n != depth || bio.Pressed() {
		t.Fatalf("%d chunks are at the device when the commits have ended, want %d", n, depth)
	}
}
