package ioengine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

const chunkTest = ChunkMin

// rig is a device in memory with a pool and an engine.
type rig struct {
	t    testing.TB
	dev  *memdev.Device
	pool *Pool
	e    *Engine
	rng  *rand.Rand
}

func newRig(t testing.TB, dev memdev.Options, buffers int, o Options) *rig {
	t.Helper()
	if dev.Blocks == 0 {
		dev.Blocks = 4096
	}
	r := &rig{t: t, dev: memdev.New(dev), rng: rand.New(rand.NewPCG(dev.Seed, 1))}
	var err error
	if r.pool, err = NewPool(r.dev, PoolOptions{Buffers: buffers, Chunk: chunkTest}); err != nil {
		t.Fatal(err)
	}
	r.e = r.engine(o)
	return r
}

func (r *rig) engine(o Options) *Engine {
	r.t.Helper()
	e, err := New(r.dev, r.pool, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// close checks that all buffers came home.
func (r *rig) close() {
	r.t.Helper()
	if err := errors.Join(r.e.Close(), r.pool.Close(), r.dev.Close()); err != nil {
		r.t.Error(err)
	}
}

// key returns a new Key for the blob that n names. The same n gives an equal key: what a reader after a restart has.
func (r *rig) key(suite string, n byte) *Key {
	r.t.Helper()
	k, err := NewKey(suite, bytes.Repeat([]byte{n}, KeySize(suite)), Identity{Blob: [32]byte{n}, Kind: 'T', Version: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

func (r *rig) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return b
}

// scatter cuts n blocks into extents of random sizes in random order, each in its own place.
func (r *rig) scatter(n device.BlockCount) []Extent {
	var list []Extent
	lba := device.LBA(3)
	for n > 0 {
		run := min(n, 1+device.BlockCount(r.rng.IntN(60)))
		list = append(list, Extent{lba, run})
		lba += device.LBA(run) + device.LBA(r.rng.IntN(3))
		n -= run
	}
	r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (r *rig) write(key *Key, data []byte, x ...Extent) []Tag {
	r.t.Helper()
	w, err := r.e.NewWriter(key, chunkTest, x...)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := w.WriteAll(context.Background(), data); err != nil {
		r.t.Fatal(err)
	}
	w.Close()
	return w.Tags()
}

func (r *rig) read(key *Key, tags []Tag, size int, x ...Extent) ([]byte, error) {
	r.t.Helper()
	rd, err := r.e.NewReader(key, chunkTest, x...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rd.Close()
	dst := make([]byte, size)
	err = rd.ReadAll(context.Background(), 0, tags, dst)
	return dst, err
}

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

// hostile are what a device can do to a blob of three chunks at block 0, and a second blob, older, at block 500.
var hostile = map[string]func(*memdev.Device){
	"a bit of a chunk":          func(d *memdev.Device) { d.FlipBit(33, 12345) },
	"the last bit":              func(d *memdev.Device) { d.FlipBit(64, 8*100-1) },
	"two chunks swapped":        func(d *memdev.Device) { swap(d, 0, 32) },
	"another blob's chunk":      func(d *memdev.Device) { swap(d, 32, 532) },
	"half a chunk from another": func(d *memdev.Device) { d.Poke(40, d.Peek(540)) },
	"zeros":                     func(d *memdev.Device) { d.Poke(33, make([]byte, device.BlockSize)) },
}

func swap(d *memdev.Device, a, b device.LBA) {
	for i := range device.LBA(32) {
		d.Swap(a+i, b+i)
	}
}

func TestTamperedChunksAreFoundAndNothingOfThemIsReleased(t *testing.T) {
	for name, attack := range hostile {
		for _, suite := range []string{SuiteAEGIS, SuiteAESGCM} {
			t.Run(suite+"/"+name, func(t *testing.T) {
				r := newRig(t, memdev.Options{}, 5, Options{})
				defer r.close()
				data := r.bytes(2*chunkTest + 100)
				r.write(r.key(suite, 2), r.bytes(len(data)), Extent{500, 65})
				tags := r.write(r.key(suite, 1), data, Extent{0, 65})
				attack(r.dev)
				got, err := r.read(r.key(suite, 1), tags, len(data), Extent{0, 65})
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("read: %v", err)
				}
				for at := 0; at < len(data); at += chunkTest {
					end := min(at+chunkTest, len(data))
					if !bytes.Equal(got[at:end], data[at:end]) && !bytes.Equal(got[at:end], make([]byte, end-at)) {
						t.Errorf("chunk at byte %d was released unverified", at)
					}
				}
			})
		}
	}
}

func TestAWrongKeyTagLengthOrIdentityIsFound(t *testing.T) {
	r := newRig(t, memdev.Options{}, 5, Options{})
	defer r.close()
	data := r.bytes(5000)
	tags := r.write(r.key(SuiteAEGIS, 1), data, Extent{0, 2})
	other, err := NewKey(SuiteAEGIS, bytes.Repeat([]byte{1}, KeySize(SuiteAEGIS)), Identity{Blob: [32]byte{1}, Kind: 'U', Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	wrong := []Tag{tags[0]}
	wrong[0][7] ^= 1
	for name, read := range map[string]func() error{
		"key":      func() error { _, err := r.read(r.key(SuiteAEGIS, 2), tags, len(data), Extent{0, 2}); return err },
		"identity": func() error { _, err := r.read(other, tags, len(data), Extent{0, 2}); return err },
		"tag":      func() error { _, err := r.read(r.key(SuiteAEGIS, 1), wrong, len(data), Extent{0, 2}); return err },
		"length":   func() error { _, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data)-1, Extent{0, 2}); return err },
	} {
		if err := read(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("wrong %s: %v", name, err)
		}
	}
	if _, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data), Extent{0, 2}); err != nil {
		t.Error(err)
	}
}

func TestAReadThatNeverHappenedIsNotServedFromTheBuffer(t *testing.T) {
	r := newRig(t, memdev.Options{}, guarantee, Options{Depth: 1})
	defer r.close()
	data := r.bytes(chunkTest)
	x := Extent{0, 32}
	tags := r.write(r.key(SuiteAEGIS, 1), data, x) // the buffer still holds the chunk
	r.dev.SetFault(memdev.Nth(device.OpRead, 1, memdev.Fault{Land: memdev.LandNone}))
	if _, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data), x); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a read that was reported and never done: %v", err)
	}
	if got, err := r.read(r.key(SuiteAEGIS, 1), tags, len(data), x); err != nil || !bytes.Equal(got, data) {
		t.Fatal(err)
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
