package memdev

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
)

var errInjected = errors.New("injected")

func TestFaultsOfWrites(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    Fault
		err      error
		now, cut []byte // sector values that may be there after the completion, and after losing the cache
	}{
		{"none", Fault{}, nil, []byte{2}, []byte{2}},
		{"error", Fault{Err: errInjected}, errInjected, []byte{1}, []byte{1}},
		{"error, yet it landed", Fault{Err: errInjected, Land: LandAll}, errInjected, []byte{2}, []byte{2}},
		{"dropped", Fault{Land: LandNone}, nil, []byte{1}, []byte{1}},
		{"torn", Fault{Land: LandTorn}, nil, []byte{1, 2}, []byte{1, 2}},
		{"through is a lie", Fault{Land: LandCached}, nil, []byte{2}, []byte{1, 2}},
		{"delayed", Fault{Delay: 3}, nil, []byte{2}, []byte{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lost := false
			for seed := range uint64(40) {
				r := newRig(t, Options{Blocks: 4, Seed: seed, Manual: seed%2 == 0})
				_ = r.write(0, 1, true)
				r.SetFault(Nth(device.OpWrite, 2, c.fault))
				if err := r.write(0, 2, true); !errors.Is(err, c.err) {
					t.Fatalf("completion: %v", err)
				}
				if got := r.sectors(0); !subset(got, c.now) {
					t.Fatalf("sectors %v, want %v", got, c.now)
				}
				r.PowerCut(nil)
				if got := r.sectors(0); !subset(got, c.cut) {
					t.Fatalf("sectors after the cut %v, want %v", got, c.cut)
				} else if slices.Contains(got, 1) {
					lost = true
				}
				n := r.Counters()
				if c.fault != (Fault{}) && n.Errors+n.Dropped+n.Torn+n.Delayed != 1 {
					t.Fatalf("faults counted: %+v", n)
				}
			}
			if want := slices.Contains(c.cut, 1); lost != want {
				t.Errorf("lost %v, want %v", lost, want)
			}
		})
	}
}

func subset(got, of []byte) bool {
	return !slices.ContainsFunc(got, func(v byte) bool { return !slices.Contains(of, v) })
}

func TestFlushThatLies(t *testing.T) {
	lost := 0
	for seed := range uint64(40) {
		r := newRig(t, Options{Blocks: 4, Seed: seed, Fault: From(device.OpFlush, 1, Fault{Land: LandNone})})
		_ = r.write(0, 1, false)
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		r.PowerCut(nil)
		if slices.Contains(r.sectors(0), 0) {
			lost++
		}
	}
	if lost == 0 {
		t.Error("nothing was ever lost")
	}
}

func TestFaultsOfReads(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  []byte // the values that the buffer may hold; 9 is what it held before, 1 is on the disk
	}{
		{Fault{Err: errInjected}, []byte{9}},
		{Fault{Land: LandNone}, []byte{9}},
		{Fault{Land: LandTorn}, []byte{1, 9}},
	} {
		r := newRig(t, Options{Blocks: 4, Seed: 1, Fault: Nth(device.OpRead, 1, c.fault)})
		_ = r.write(0, 1, false)
		buf := r.block(9)
		if err := devicetest.Do(t, r.q, device.Request{Op: device.OpRead, Buf: buf})[0]; !errors.Is(err, c.fault.Err) {
			t.Fatal(err)
		}
		if !subset(buf, c.want) {
			t.Errorf("%+v: buffer %d %d", c.fault, buf[0], buf[4095])
		}
	}
}

func TestARequestThatHangs(t *testing.T) {
	r := newRig(t, Options{Blocks: 4, Seed: 1, Manual: true, Fault: Nth(device.OpWrite, 1, Fault{Hang: true})})
	r.submit(device.Request{Op: device.OpWrite, Buf: r.block(1), Token: 1}, device.Request{Op: device.OpFlush, Token: 2})
	out := make([]device.Completion, 4)
	if n, err := r.q.Wait(out, time.Hour); n != 1 || out[0].Token != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err := r.q.Wait(out, time.Hour); n != 0 || err != nil || r.q.Outstanding() != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if err := r.q.Close(); err == nil {
		t.Error("Close did not report what hangs")
	}
}

func TestTheCallerIsChecked(t *testing.T) {
	mustPanic := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		f()
	}
	r := newRig(t, Options{Blocks: 4, Seed: 1, Manual: true})
	buf := r.block(1)
	r.submit(device.Request{Op: device.OpWrite, Buf: buf})
	mustPanic("freed in flight", func() { r.Free(buf[:10]) })
	buf[77]++
	mustPanic("changed in flight", func() { _, _ = r.q.Wait(make([]device.Completion, 1), 0) })
	r.PowerCut(nil)
	r.Free(buf)
	if buf[0] != poisonFreed {
		t.Error("a freed buffer is not poisoned")
	}
	r.reopen()
	buf = r.block(1)
	r.submit(device.Request{Op: device.OpRead, Buf: buf})
	if buf[0] != poisonRead {
		t.Error("a read buffer is not poisoned")
	}
}

func TestAFullDisk(t *testing.T) {
	r := newRig(t, Options{Blocks: 4, BlocksMax: 64})
	r.SetRoom(8)
	if done, err := r.Reserve(8); !done || err != nil {
		t.Fatal(done, err)
	}
	if done, err := r.Reserve(9); done || !errors.Is(err, device.ErrFull) {
		t.Fatal(done, err)
	}
	r.SetRoom(64)
	if done, err := r.Reserve(9); !done || err != nil {
		t.Fatal(done, err)
	}
}

func TestCloseAndReopenKeepWhatIsStored(t *testing.T) {
	r := newRig(t, Options{Blocks: 4})
	_ = r.write(0, 1, false)
	if err := r.Close(); err == nil {
		t.Error("closed under an open queue")
	}
	if err := r.q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewQueue(1); !errors.Is(err, ErrGone) {
		t.Error("a closed device makes queues")
	}
	r.Reopen()
	r.reopen()
	if !slices.Equal(r.sectors(0), []byte{1}) {
		t.Error("content lost")
	}
}

func TestTheAdversary(t *testing.T) {
	r := newRig(t, Options{Blocks: 4, BlocksMax: 8, History: true})
	for v := byte(1); v <= 3; v++ {
		_ = r.write(1, v, false)
	}
	old := r.Snapshot()
	_ = r.write(1, 4, true)
	_ = r.write(2, 5, true)
	if _, err := r.Reserve(6); err != nil {
		t.Fatal(err)
	}
	if h := r.History(1); len(h) != 4 || h[0][0] != 1 || h[3][4095] != 4 {
		t.Fatalf("history of %d versions", len(h))
	}
	check := func(what string, lba device.LBA, first byte) {
		t.Helper()
		if got := r.Peek(lba)[0]; got != first {
			t.Errorf("%s: block %d starts with %d, want %d", what, lba, got, first)
		}
	}
	r.Rewind(1, 1)
	check("rewind", 1, 2)
	r.Rewind(1, -1)
	check("rewind to the start", 1, 0)
	r.Rewind(1, 3)
	r.Swap(1, 2)
	check("swap", 1, 5)
	check("swap", 2, 4)
	r.FlipBit(2, 7)
	check("flip", 2, 4|0x80)
	if h := r.History(1); h[3][0] != 4 {
		t.Error("a flip changed the history")
	}
	r.Poke(0, bytes.Repeat([]byte{8}, device.BlockSize))
	check("poke", 0, 8)
	fork := Fork(r.Snapshot(), Options{})
	r.Restore(old)
	check("restore", 0, 0)
	check("restore", 1, 3)
	check("restore", 2, 0)
	r.PowerCut(nil)
	check("restored is durable", 1, 3)
	if fork.Peek(2)[0] != 4|0x80 || fork.Info().Blocks != 6 {
		t.Error("the fork is no copy")
	}
	if n := r.Counters().Tampered; n != 8 {
		t.Errorf("%d blocks tampered with", n)
	}
}
