// Package devicetest checks that a device.Device keeps the contract of its interface. Each implementation runs it from its
// own tests.
package devicetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"cvmstore/ioengine/device"
)

// Blocks is the size that the devices under test start with, and BlocksMax what they can be grown to.
const (
	Blocks    device.BlockCount = 256
	BlocksMax device.BlockCount = 1024
)

// patience bounds every wait, so that a lost completion fails a test rather than hanging it.
const patience = 20 * time.Second

// check is one statement about devices.
type check struct {
	name string
	run  func(*testing.T, device.Device)
}

var checks = []check{
	{"what is written is read", writtenIsRead},
	{"each request completes once with its token", tokensOnce},
	{"a full queue accepts a prefix", fullQueue},
	{"what lies outside or is no whole block is an error", outside},
	{"buffers are zero and aligned", buffers},
	{"Wait returns at once when idle", idleWait},
	{"queues work side by side", sideBySide},
	{"trim and flush complete", trimAndFlush},
	{"a closed queue is broken", closedQueue},
	{"the largest transfer works and a larger one does not", largest},
}

// Run checks the devices that open returns: new, all zero, Blocks long, and able to grow to BlocksMax. Run closes them.
func Run(t *testing.T, open func(t *testing.T) device.Device) {
	run(t, open, append(slices.Clone(checks), check{"Reserve grows the device", reserve}))
}

// RunFixed is Run for devices that cannot grow: new, all zero, BlocksMax long.
func RunFixed(t *testing.T, open func(t *testing.T) device.Device) {
	run(t, open, append(slices.Clone(checks), check{"Reserve knows the size", reserveFixed}))
}

func run(t *testing.T, open func(t *testing.T) device.Device, checks []check) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			d := open(t)
			c.run(t, d)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func reserveFixed(t *testing.T, d device.Device) {
	if info := d.Info(); info.Blocks != BlocksMax || info.BlocksMax != BlocksMax || info.TransferBlocks == 0 {
		t.Fatalf("info: %+v", info)
	}
	if done, err := d.Reserve(BlocksMax); !done || err != nil {
		t.Fatalf("Reserve of what is there: %v, %v", done, err)
	}
	if _, err := d.Reserve(BlocksMax + 1); !errors.Is(err, device.ErrFull) {
		t.Fatalf("Reserve above BlocksMax: %v", err)
	}
}

// queue opens a queue that is closed before the device is.
func queue(t *testing.T, d device.Device, depth int) (device.Queue, func()) {
	t.Helper()
	q, err := d.NewQueue(depth)
	if err != nil {
		t.Fatal(err)
	}
	return q, func() {
		t.Helper()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Do submits requests to an idle queue and waits for all of them. It returns the errors by their place in reqs, whose
// tokens it overwrites.
func Do(t testing.TB, q device.Queue, reqs ...device.Request) []error {
	t.Helper()
	for i := range reqs {
		reqs[i].Token = uint64(i)
	}
	errs := make([]error, len(reqs))
	out := make([]device.Completion, 16)
	deadline := time.Now().Add(patience)
	for left := reqs; len(left) > 0 || q.Outstanding() > 0; {
		n, err := q.Submit(left)
		if err != nil {
			t.Fatal(err)
		}
		left = left[n:]
		if n, err = q.Wait(out, time.Second); err != nil {
			t.Fatal(err)
		}
		for _, c := range out[:n] {
			errs[c.Token] = c.Err
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests did not complete", q.Outstanding())
		}
	}
	return errs
}

func mustDo(t testing.TB, q device.Queue, reqs ...device.Request) {
	t.Helper()
	for i, err := range Do(t, q, reqs...) {
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
}

func alloc(t testing.TB, d device.Device, n device.BlockCount) []byte {
	t.Helper()
	buf, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return buf
}

// stamp fills a buffer with words that name their place and a version.
func stamp(buf []byte, lba device.LBA, version uint64) {
	for at := 0; at < len(buf); at += 16 {
		binary.LittleEndian.PutUint64(buf[at:], uint64(lba)*device.BlockSize+uint64(at))
		binary.LittleEndian.PutUint64(buf[at+8:], version)
	}
}

func writtenIsRead(t *testing.T, d device.Device) {
	q, done := queue(t, d, 8)
	defer done()
	for version := range uint64(20) {
		n := 1 + device.BlockCount(version%7)
		lba := device.LBA(version * 5)
		w, r := alloc(t, d, n), alloc(t, d, n)
		stamp(w, lba, version)
		mustDo(t, q, device.Request{Op: device.OpWrite, LBA: lba, Buf: w, Through: version%2 == 0})
		mustDo(t, q, device.Request{Op: device.OpRead, LBA: lba, Buf: r})
		if !bytes.Equal(w, r) {
			t.Fatalf("version %d of block %d was not read back", version, lba)
		}
		d.Free(w)
		d.Free(r)
	}
}

func tokensOnce(t *testing.T, d device.Device) {
	const depth = 32
	q, done := queue(t, d, depth)
	defer done()
	if q.Outstanding() != 0 {
		t.Fatal("a new queue has something outstanding")
	}
	buf := alloc(t, d, depth)
	defer d.Free(buf)
	var reqs []device.Request
	for i := range depth {
		reqs = append(reqs, device.Request{
			Op: device.OpWrite, LBA: device.LBA(i), Token: uint64(i) << 40, Through: i%3 == 0,
			Buf: buf[i*device.BlockSize : (i+1)*device.BlockSize],
		})
	}
	if n, err := q.Submit(reqs); n != depth || err != nil {
		t.Fatalf("submitted %d of %d: %v", n, depth, err)
	}
	seen := map[uint64]int{}
	out := make([]device.Completion, 3)
	for deadline := time.Now().Add(patience); q.Outstanding() > 0; {
		before := q.Outstanding()
		n, err := q.Wait(out, time.Second)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("outstanding %d: %v", before, err)
		}
		if q.Outstanding() != before-n {
			t.Fatalf("%d outstanding, %d returned, then %d outstanding", before, n, q.Outstanding())
		}
		for _, c := range out[:n] {
			if c.Err != nil {
				t.Error(c.Err)
			}
			seen[c.Token]++
		}
	}
	for i := range uint64(depth) {
		if seen[i<<40] != 1 {
			t.Errorf("token %d came back %d times", i, seen[i<<40])
		}
	}
}

func fullQueue(t *testing.T, d device.Device) {
	q, done := queue(t, d, 4)
	defer done()
	const count = 300 // more than any implementation rounds 4 up to
	buf := alloc(t, d, 1)
	defer d.Free(buf)
	var reqs []device.Request
	for i := range count {
		reqs = append(reqs, device.Request{Op: device.OpWrite, LBA: device.LBA(i % int(Blocks)), Buf: buf})
	}
	n, err := q.Submit(reqs)
	if err != nil || n < 4 || n == count {
		t.Fatalf("a queue of depth 4 accepted %d of %d: %v", n, count, err)
	}
	if again, err := q.Submit(reqs[n:]); err != nil || q.Outstanding() != n+again {
		t.Fatalf("accepted %d and %d, outstanding %d: %v", n, again, q.Outstanding(), err)
	}
	out := make([]device.Completion, count)
	for deadline := time.Now().Add(patience); q.Outstanding() > 0; {
		if _, err := q.Wait(out, time.Second); err != nil || time.Now().After(deadline) {
			t.Fatalf("outstanding %d: %v", q.Outstanding(), err)
		}
	}
	mustDo(t, q, reqs...)
}

func outside(t *testing.T, d device.Device) {
	q, done := queue(t, d, 16)
	defer done()
	buf := alloc(t, d, 4)
	defer d.Free(buf)
	last := device.LBA(d.Info().Blocks)
	bounds := []device.Request{
		{Op: device.OpRead, LBA: last, Buf: buf},
		{Op: device.OpWrite, LBA: last - 3, Buf: buf},
		{Op: device.OpWrite, LBA: 1 << 63, Buf: buf, Through: true},
		{Op: device.OpRead, LBA: ^device.LBA(0), Buf: buf},
		{Op: device.OpTrim, LBA: last, Count: 1},
		{Op: device.OpTrim, LBA: 1, Count: ^device.BlockCount(0)},
	}
	for i, err := range Do(t, q, bounds...) {
		if !errors.Is(err, device.ErrBounds) {
			t.Errorf("request %d outside the device: %v", i, err)
		}
	}
	for i, err := range Do(t, q,
		device.Request{Op: device.OpRead, Buf: buf[:100]},
		device.Request{Op: device.OpWrite, Buf: nil},
		device.Request{Op: device.OpWrite, Buf: buf[512 : 512+device.BlockSize]},
		device.Request{Op: 99, Buf: buf},
		device.Request{Buf: buf},
	) {
		if err == nil {
			t.Errorf("wrong request %d was served", i)
		}
	}
	mustDo(t, q, device.Request{Op: device.OpWrite, LBA: last - 4, Buf: buf}, device.Request{Op: device.OpFlush})
}

func buffers(t *testing.T, d device.Device) {
	for round := range 3 {
		for _, n := range []device.BlockCount{1, 2, 3, 17, 256} {
			buf := alloc(t, d, n)
			if len(buf) != n.Bytes() || !aligned(buf) {
				t.Fatalf("buffer of %d blocks: %d bytes, aligned %v", n, len(buf), aligned(buf))
			}
			for i, b := range buf {
				if b != 0 {
					t.Fatalf("round %d: byte %d of a new buffer is %#x", round, i, b)
				}
			}
			stamp(buf, 1, 1)
			d.Free(buf)
		}
	}
}

func idleWait(t *testing.T, d device.Device) {
	q, done := queue(t, d, 4)
	defer done()
	out := make([]device.Completion, 4)
	start := time.Now()
	n, err := q.Wait(out, time.Hour)
	if n != 0 || err != nil || time.Since(start) > patience {
		t.Fatalf("idle wait: %d, %v", n, err)
	}
	if n, err := q.Poll(out); n != 0 || err != nil {
		t.Fatalf("idle poll: %d, %v", n, err)
	}
}

func sideBySide(t *testing.T, d device.Device) {
	const queues = 4
	var group sync.WaitGroup
	for k := range queues {
		q, done := queue(t, d, 4)
		group.Go(func() {
			defer done()
			w, r := alloc(t, d, 2), alloc(t, d, 2)
			defer d.Free(w)
			defer d.Free(r)
			for version := range uint64(30) {
				lba := device.LBA(k*32) + device.LBA(version%16)
				stamp(w, lba, version)
				for _, req := range []device.Request{
					{Op: device.OpWrite, LBA: lba, Buf: w, Through: version%2 == 0},
					{Op: device.OpRead, LBA: lba, Buf: r},
				} {
					if err := one(q, req); err != nil {
						t.Error(err)
						return
					}
				}
				if !bytes.Equal(w, r) {
					t.Errorf("queue %d: version %d was not read back", k, version)
				}
			}
		})
	}
	group.Wait()
}

// one is Do for goroutines that must not call Fatal.
func one(q device.Queue, r device.Request) error {
	if _, err := q.Submit([]device.Request{r}); err != nil {
		return err
	}
	out := make([]device.Completion, 1)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if n, err := q.Wait(out, time.Second); n > 0 || err != nil {
			return errors.Join(err, out[0].Err)
		}
	}
	return errors.New("request did not complete")
}

// Reserve asks until the device has n blocks.
func Reserve(t testing.TB, d device.Device, n device.BlockCount) error {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if done, err := d.Reserve(n); done || err != nil {
			return err
		}
	}
	t.Fatal("Reserve did not get done")
	return nil
}

func reserve(t *testing.T, d device.Device) {
	q, done := queue(t, d, 4)
	defer done()
	if info := d.Info(); info.Blocks != Blocks || info.BlocksMax != BlocksMax || info.TransferBlocks == 0 {
		t.Fatalf("info: %+v", info)
	}
	if done, err := d.Reserve(Blocks); !done || err != nil {
		t.Fatalf("Reserve of what is there: %v, %v", done, err)
	}
	w, r := alloc(t, d, 1), alloc(t, d, 1)
	defer d.Free(w)
	defer d.Free(r)
	stamp(w, device.LBA(Blocks-1), 7)
	mustDo(t, q, device.Request{Op: device.OpWrite, LBA: device.LBA(Blocks - 1), Buf: w})
	if err := Reserve(t, d, Blocks+10); err != nil {
		t.Fatal(err)
	}
	if have := d.Info().Blocks; have < Blocks+10 || have > BlocksMax {
		t.Fatalf("reserved %d blocks, have %d", Blocks+10, have)
	}
	mustDo(t, q, device.Request{Op: device.OpRead, LBA: device.LBA(Blocks + 9), Buf: r})
	if !bytes.Equal(r, make([]byte, device.BlockSize)) {
		t.Error("a reserved block is not zero")
	}
	mustDo(t, q, device.Request{Op: device.OpRead, LBA: device.LBA(Blocks - 1), Buf: r})
	if !bytes.Equal(r, w) {
		t.Error("growing changed a block")
	}
	if err := Reserve(t, d, BlocksMax); err != nil {
		t.Fatal(err)
	}
	if err := Reserve(t, d, BlocksMax+1); !errors.Is(err, device.ErrFull) {
		t.Fatalf("Reserve above BlocksMax: %v", err)
	}
	mustDo(t, q, device.Request{Op: device.OpWrite, LBA: device.LBA(BlocksMax - 1), Buf: w, Through: true})
}

func trimAndFlush(t *testing.T, d device.Device) {
	q, done := queue(t, d, 8)
	defer done()
	w, r := alloc(t, d, 2), alloc(t, d, 2)
	defer d.Free(w)
	defer d.Free(r)
	stamp(w, 3, 1)
	mustDo(t, q, device.Request{Op: device.OpWrite, LBA: 3, Buf: w})
	mustDo(t, q, device.Request{Op: device.OpFlush}, device.Request{Op: device.OpFlush})
	mustDo(t, q, device.Request{Op: device.OpTrim, LBA: 5, Count: 3}, device.Request{Op: device.OpTrim, LBA: 5})
	mustDo(t, q, device.Request{Op: device.OpRead, LBA: 3, Buf: r})
	if !bytes.Equal(w, r) {
		t.Error("a trim changed other blocks")
	}
	mustDo(t, q, device.Request{Op: device.OpWrite, LBA: 5, Buf: w})
	mustDo(t, q, device.Request{Op: device.OpRead, LBA: 5, Buf: r})
	if !bytes.Equal(w, r) {
		t.Error("a trimmed block does not hold what was written later")
	}
}

func closedQueue(t *testing.T, d device.Device) {
	q, done := queue(t, d, 8)
	buf := alloc(t, d, 1)
	stamp(buf, 9, 9)
	if n, err := q.Submit([]device.Request{{Op: device.OpWrite, LBA: 9, Buf: buf}}); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	done()
	if n, err := q.Submit([]device.Request{{Op: device.OpFlush}}); n != 0 || err == nil {
		t.Errorf("a closed queue accepted %d requests", n)
	}
	out := make([]device.Completion, 1)
	if n, err := q.Poll(out); n != 0 || err == nil {
		t.Errorf("a closed queue polled %d, %v", n, err)
	}
	if n, err := q.Wait(out, time.Hour); n != 0 || err == nil {
		t.Errorf("a closed queue waited for %d, %v", n, err)
	}
	if err := q.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	d.Free(buf)

	q, done = queue(t, d, 8)
	defer done()
	r, want := alloc(t, d, 1), alloc(t, d, 1)
	stamp(want, 9, 9)
	mustDo(t, q, device.Request{Op: device.OpRead, LBA: 9, Buf: r})
	if !bytes.Equal(r, want) {
		t.Error("Close did not wait for the write")
	}
	d.Free(r)
	d.Free(want)
}

func largest(t *testing.T, d device.Device) {
	q, done := queue(t, d, 4)
	defer done()
	if err := Reserve(t, d, BlocksMax); err != nil {
		t.Fatal(err)
	}
	most := d.Info().TransferBlocks
	buf := alloc(t, d, most+1)
	defer d.Free(buf)
	if err := Do(t, q, device.Request{Op: device.OpRead, Buf: buf})[0]; !errors.Is(err, device.ErrBounds) {
		t.Errorf("a transfer of %d blocks, one too many: %v", most+1, err)
	}
	mustDo(t, q, device.Request{Op: device.OpWrite, Buf: buf[:min(most, BlocksMax).Bytes()]})
}
