package ioengine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, suite := range []string{SuiteAEGIS, SuiteAESGCM} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprintf("%s/%d", suite, seed), func(t *testing.T) {
				r := newRig(t, memdev.Options{Seed: seed, Manual: true, TransferBlocks: 1 + device.BlockCount(seed*7)}, 5, Options{Depth: 4})
				defer r.close()
				sizes := []int{1, 4095, 4096, 4097, chunkTest - 1, chunkTest, chunkTest + 1, 3*chunkTest + 5000, 9 * chunkTest}
				data := r.bytes(sizes[r.rng.IntN(len(sizes))])
				x := r.scatter(BlocksFor(int64(len(data))))
				tags := r.write(r.key(suite, 1), data, x...)
				got, err := r.read(r.key(suite, 1), tags, len(data), x...)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes in %d extents were not read back: %v", len(data), len(x), err)
				}
			})
		}
	}
}

func TestAStreamOfUnknownLengthIsWritten(t *testing.T) {
	r := newRig(t, memdev.Options{}, 5, Options{})
	defer r.close()
	data := r.bytes(3*chunkTest + 777)
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{10, 40})
	if err != nil {
		t.Fatal(err)
	}
	w.Extend(Extent{100, 60})
	if w.Room() != 100*device.BlockSize {
		t.Fatalf("room for %d bytes", w.Room())
	}
	if err := w.ReadFrom(context.Background(), iotest.OneByteReader(bytes.NewReader(data))); err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(len(data)) || !w.Idle() {
		t.Fatalf("%d of %d bytes, idle %v", w.Size(), len(data), w.Idle())
	}
	got, err := r.read(r.key(SuiteAEGIS, 1), w.Tags(), len(data), Extent{10, 40}, Extent{100, 60})
	if err != nil || !bytes.Equal(got, data) {
		t.Fatal("not read back", err)
	}
}

func TestFullExtentsAreAnError(t *testing.T) {
	r := newRig(t, memdev.Options{}, 5, Options{})
	defer r.close()
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{0, 33})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteAll(context.Background(), r.bytes(chunkTest+4097)); !errors.Is(err, ErrExtents) {
		t.Fatal(err)
	}
	if err := w.WriteAll(context.Background(), r.bytes(4096)); err != nil {
		t.Fatal("what fits is still accepted:", err)
	}
}

func TestAKeyHasOneWriter(t *testing.T) {
	r := newRig(t, memdev.Options{}, 5, Options{})
	defer r.close()
	k := r.key(SuiteAEGIS, 1)
	if _, err := r.e.NewWriter(k, chunkTest); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second writer under one key was accepted")
		}
	}()
	_, _ = r.e.NewWriter(k, chunkTest)
}

func TestTailsHoldNothingOld(t *testing.T) {
	r := newRig(t, memdev.Options{}, guarantee, Options{})
	defer r.close()
	r.write(r.key(SuiteAEGIS, 1), r.bytes(chunkTest*4), Extent{0, 128})
	r.write(r.key(SuiteAEGIS, 2), r.bytes(4096+100), Extent{200, 2})
	if tail := r.dev.Peek(201)[100:]; !bytes.Equal(tail, make([]byte, len(tail))) {
		t.Error("the last block of a blob holds something behind its bytes")
	}
}

func TestDeviceErrorsSurface(t *testing.T) {
	r := newRig(t, memdev.Options{}, 5, Options{})
	defer r.close()
	data := r.bytes(4 * chunkTest)
	x := Extent{0, 128}
	boom := errors.New("boom")
	r.dev.SetFault(memdev.Nth(device.OpWrite, 3, memdev.Fault{Err: boom}))
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, x)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteAll(context.Background(), data); !errors.Is(err, boom) || !errors.Is(err, ErrDevice) {
		t.Fatalf("a failed write: %v", err)
	}
	tags := r.write(r.key(SuiteAEGIS, 2), data, x)
	r.dev.SetFault(memdev.Nth(device.OpRead, 2, memdev.Fault{Err: boom}))
	if _, err := r.read(r.key(SuiteAEGIS, 2), tags, len(data), x); !errors.Is(err, boom) || !errors.Is(err, ErrDevice) {
		t.Fatalf("a failed read: %v", err)
	}
	if got, err := r.read(r.key(SuiteAEGIS, 2), tags, len(data), x); err != nil || !bytes.Equal(got, data) {
		t.Fatal("the engine goes on after one pipeline's error:", err)
	}
}

func TestChunksComeInOrderUpToTheCorruptOne(t *testing.T) {
	r := newRig(t, memdev.Options{Manual: true, Seed: 3}, 8, Options{Depth: 8})
	defer r.close()
	const chunks = 6
	data := r.bytes(chunks * chunkTest)
	x := Extent{0, 32 * chunks}
	tags := r.write(r.key(SuiteAEGIS, 1), data, x)
	r.dev.FlipBit(32*4, 1)
	rd, err := r.e.NewReader(r.key(SuiteAEGIS, 1), chunkTest, x)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	var dst [chunks][chunkTest]byte
	for n := range uint64(chunks) {
		if ok, err := rd.TryRead(n, tags[n], dst[n][:]); !ok || err != nil {
			t.Fatal(n, ok, err)
		}
	}
	var got []byte
	for {
		chunk, err := rd.Next()
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			break
		}
		if chunk == nil {
			if err := r.e.pause(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		got = append(got, chunk...)
	}
	if !bytes.Equal(got, data[:4*chunkTest]) {
		t.Errorf("%d bytes came before the corrupt chunk", len(got))
	}
	if _, err := rd.Next(); !errors.Is(err, ErrCorrupt) {
		t.Error("the error did not stay:", err)
	}
}

func TestBuffersOfAClosedPipelineComeHomeOnlyWithTheirCompletion(t *testing.T) {
	r := newRig(t, memdev.Options{}, 4, Options{Depth: 4})
	defer r.close()
	r.dev.SetFault(func(memdev.Request) memdev.Fault { return memdev.Fault{Delay: 3} })
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{0, 128})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if ok, err := w.TryWrite(r.bytes(chunkTest)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	w.Close()
	if w.Idle() || r.pool.Free() != 1 {
		t.Fatalf("after Close in flight: idle %v, %d buffers free", w.Idle(), r.pool.Free())
	}
	if _, err := w.TryWrite(r.bytes(1)); !errors.Is(err, ErrClosed) {
		t.Error("a closed writer accepted a chunk:", err)
	}
	for range 10 {
		if _, err := r.e.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if !w.Idle() || r.pool.Free() != 4 {
		t.Fatalf("after the completions: idle %v, %d buffers free", w.Idle(), r.pool.Free())
	}
}

func TestADeviceThatDoesNotAnswerFailsTheEngineAndKeepsTheBuffers(t *testing.T) {
	now := time.Duration(0)
	r := newRig(t, memdev.Options{}, 4, Options{Depth: 4, Clock: func() time.Duration { return now }, Timeout: time.Second})
	r.dev.SetFault(func(memdev.Request) memdev.Fault { return memdev.Fault{Hang: true} })
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{0, 128})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := w.TryWrite(r.bytes(chunkTest)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	now = time.Second
	if _, err := r.e.Step(); err != nil {
		t.Fatal(err)
	}
	now = 3 * time.Second
	if _, err := r.e.Step(); !errors.Is(err, ErrDevice) {
		t.Fatal("a device that hangs:", err)
	}
	if _, err := w.TryWrite(r.bytes(chunkTest)); !errors.Is(err, ErrDevice) {
		t.Error("the failed engine accepted a chunk:", err)
	}
	if w.Idle() || r.pool.Free() != 3 {
		t.Error("the buffer left its quarantine")
	}
	if err := r.e.Close(); err == nil {
		t.Error("Close hid that a request never completed")
	}
	if err := r.pool.Close(); err == nil {
		t.Error("the pool was freed with a buffer at the device")
	}
}

func TestAPowerCutEndsPipelinesWithAnError(t *testing.T) {
	r := newRig(t, memdev.Options{}, 4, Options{Depth: 4})
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{0, 128})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := w.TryWrite(r.bytes(chunkTest)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.dev.PowerCut(r.rng)
	if err := w.Drain(context.Background()); !errors.Is(err, ErrDevice) || !errors.Is(err, memdev.ErrGone) {
		t.Fatal(err)
	}
	r.close()
}

func TestPipelinesShareTheDepthAndThePoolEvenly(t *testing.T) {
	r := newRig(t, memdev.Options{Blocks: 16000}, 32, Options{Depth: 8})
	defer r.close()
	r.dev.SetFault(func(memdev.Request) memdev.Fault { return memdev.Fault{Delay: 1} })
	var writers [4]*Writer
	var sealed [4]int
	chunk := r.bytes(chunkTest)
	for i := range writers {
		var err error
		if writers[i], err = r.e.NewWriter(r.key(SuiteAEGIS, byte(i)), chunkTest, Extent{device.LBA(i) * 4000, 4000}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 24 {
		if round == 4 { // the first one found an idle device and took all of it; now everybody waits for something
			sealed = [4]int{}
		}
		for i, w := range writers { // it always asks first, and for all that there is
			for {
				ok, err := w.TryWrite(chunk)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				sealed[i]++
			}
		}
		for range 2 {
			if _, err := r.e.Step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if most, least := slices.Max(sealed[:]), slices.Min(sealed[:]); least == 0 || most-least > 4 {
		t.Errorf("the pipelines sealed %v chunks", sealed)
	}
}

func TestEachEngineHasItsGuarantee(t *testing.T) {
	r := newRig(t, memdev.Options{}, 2*guarantee+1, Options{Depth: 8})
	defer r.close()
	second := r.engine(Options{Depth: 8})
	if _, err := New(r.dev, r.pool, Options{}); err == nil {
		t.Error("a third engine was promised buffers that are not there")
	}
	take := func(e *Engine) (n int) {
		w, err := e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{0, 512})
		if err != nil {
			t.Fatal(err)
		}
		for {
			ok, err := w.TryWrite(make([]byte, chunkTest))
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return n
			}
			n++
		}
	}
	if a, b := take(r.e), take(second); a != guarantee+1 || b != guarantee {
		t.Errorf("the first took %d buffers, the second %d", a, b)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestAContextEndsAWait(t *testing.T) {
	r := newRig(t, memdev.Options{}, 4, Options{Depth: 4})
	r.dev.SetFault(func(memdev.Request) memdev.Fault { return memdev.Fault{Hang: true} })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{0, 128})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ReadFrom(ctx, io.LimitReader(zeros{}, 3*chunkTest)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	r.dev.Kill()
	r.close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestALimitBoundsWhatIsAtTheDevice(t *testing.T) {
	r := newRig(t, memdev.Options{}, 12, Options{Depth: 8})
	defer r.close()
	w, err := r.e.NewWriter(r.key(SuiteAEGIS, 1), chunkTest, Extent{0, 3200})
	if err != nil {
		t.Fatal(err)
	}
	chunk := r.bytes(chunkTest)
	for _, c := range []struct{ limit, want int }{{3, 3}, {100, 8}, {0, 1}, {8, 8}} {
		if err := w.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.e.Limit(c.limit)
		for range 9 {
			if ok, err := w.TryWrite(chunk); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if n := r.e.queue.Outstanding(); n != c.want {
			t.Errorf("limit %d: %d requests at the device", c.limit, n)
		}
	}
}
