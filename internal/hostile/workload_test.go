package hostile_test

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cvmstore/internal/hostile"
	"cvmstore/ioengine/aegis"
	"cvmstore/ioengine/device"
	"cvmstore/nvme"
)

// workload writes, flushes and reads sealed blocks and knows what each must hold. A block is sealed as volume seals: the tag
// covers all of it, and the associated data binds its place and its version.
type workload struct {
	t     testing.TB
	c     *hostile.Controller
	d     *nvme.Device
	q     device.Queue
	rng   *rand.Rand
	aead  cipher.AEAD
	w, r  []byte // buffers of transferMax blocks
	pause bool   // let time pass between a completion and the look at the data

	next     uint64
	versions map[device.LBA][]uint64 // of a block, those that it may have; the newest that was acknowledged is first

	verified, refused int     // blocks whose tag was right, and was not
	failed            []error // requests that ended with an error
	broken            error   // the queue's end
}

const (
	space       = 64 // blocks that are used
	transferMax = 6
	nonceBytes  = 16
	tagBytes    = 16
	never       = 0 // the version of a block that was never written: zeros
	plainBytes  = device.BlockSize - nonceBytes - tagBytes
)

func newWorkload(t testing.TB, c *hostile.Controller, d *nvme.Device, seed uint64) *workload {
	t.Helper()
	aead, err := aegis.NewAEAD(aegis.AEGIS128L, []byte("0123456789abcdef"), tagBytes)
	if err != nil {
		t.Fatal(err)
	}
	w := &workload{t: t, c: c, d: d, rng: rand.New(rand.NewPCG(seed, 1)), aead: aead, versions: map[device.LBA][]uint64{}}
	for _, b := range []*[]byte{&w.w, &w.r} {
		if *b, err = d.Alloc(transferMax); err != nil {
			t.Fatal(err)
		}
	}
	w.open()
	return w
}

func (w *workload) open() {
	w.t.Helper()
	q, err := w.d.NewQueue(8)
	if err != nil {
		w.t.Fatalf("%v (%s)", err, w.c.Replay())
	}
	w.q, w.broken = q, nil
}

func plainOf(lba device.LBA, version uint64) []byte {
	b := make([]byte, plainBytes)
	for at := 0; at < len(b); at += 32 {
		binary.LittleEndian.PutUint64(b[at:], uint64(lba)<<32|uint64(at))
		binary.LittleEndian.PutUint64(b[at+8:], version)
	}
	return b
}

func associated(lba device.LBA, version uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(lba)), version)
}

// write writes n new versions and notes them.
func (w *workload) write(lba device.LBA, n int, through bool) {
	for i := range n {
		w.next++
		at := lba + device.LBA(i)
		block := w.w[i*device.BlockSize : (i+1)*device.BlockSize]
		clear(block[:nonceBytes])
		binary.LittleEndian.PutUint64(block, w.next)
		w.aead.Seal(block[nonceBytes:nonceBytes], block[:nonceBytes], plainOf(at, w.next), associated(at, w.next))
		if len(w.versions[at]) == 0 {
			w.versions[at] = []uint64{never}
		}
		w.versions[at] = append([]uint64{w.next}, w.versions[at]...)
	}
	err := w.do(device.Request{Op: device.OpWrite, LBA: lba, Buf: w.w[:n*device.BlockSize], Through: through})
	for i := range n {
		at := lba + device.LBA(i)
		if err == nil {
			w.versions[at] = w.versions[at][:1] // acknowledged: nothing older may come back
		}
	}
}

// read reads and verifies n blocks. A version may be served if it was the newest acknowledged or one whose write ended with an error.
func (w *workload) read(lba device.LBA, n int) {
	w.t.Helper()
	if w.do(device.Request{Op: device.OpRead, LBA: lba, Buf: w.r[:n*device.BlockSize]}) != nil {
		return
	}
	if w.pause {
		w.c.Clock().Pause()
	}
	for i := range n {
		at := lba + device.LBA(i)
		if len(w.versions[at]) == 0 {
			continue // never written: nothing to verify
		}
		w.verify(at, bytes.Clone(w.r[i*device.BlockSize:(i+1)*device.BlockSize])) // one copy into private memory
	}
}

func (w *workload) verify(at device.LBA, block []byte) {
	w.t.Helper()
	for _, version := range w.versions[at] {
		plain, err := w.aead.Open(nil, block[:nonceBytes], block[nonceBytes:], associated(at, version))
		if err != nil {
			continue
		}
		if !bytes.Equal(plain, plainOf(at, version)) {
			w.t.Fatalf("block %d: wrong bytes were accepted (%s)", at, w.c.Replay())
		}
		w.verified++
		return
	}
	if slices.Contains(w.versions[at], never) && bytes.Equal(block, make([]byte, len(block))) {
		return // no write of it was acknowledged
	}
	w.refused++
}

// do runs one request. No wait is endless: the clock is the controller's, and the driver's own timeouts end each command.
func (w *workload) do(r device.Request) error {
	w.t.Helper()
	r.Token = w.rng.Uint64()
	end := func(err error) error {
		w.broken = err
		return err
	}
	if w.broken != nil {
		return w.broken
	}
	if n, err := w.q.Submit([]device.Request{r}); err != nil {
		return end(err)
	} else if n != 1 {
		w.t.Fatalf("an idle queue accepted nothing (%s)", w.c.Replay())
	}
	var out [2]device.Completion
	for range 1000 {
		n, err := w.q.Wait(out[:], time.Second)
		switch {
		case err != nil:
			return end(err)
		case n == 0:
			continue
		case n > 1 || out[0].Token != r.Token:
			w.t.Fatalf("%d completions, token %#x for %#x (%s)", n, out[0].Token, r.Token, w.c.Replay())
		}
		if out[0].Err != nil {
			w.failed = append(w.failed, out[0].Err)
		}
		return out[0].Err
	}
	w.t.Fatalf("a request took more than 1000 s of the controller's time (%s)", w.c.Replay())
	return nil
}

// run does so many random steps, or fewer if the queue breaks.
func (w *workload) run(steps int) {
	w.t.Helper()
	for range steps {
		if w.broken != nil {
			return
		}
		n := 1 + w.rng.IntN(transferMax)
		lba := device.LBA(w.rng.IntN(space - n))
		switch w.rng.IntN(8) {
		case 0, 1, 2:
			w.write(lba, n, w.rng.IntN(2) == 0)
		case 3:
			_ = w.do(device.Request{Op: device.OpFlush})
		default:
			w.read(lba, n)
		}
	}
}

// readAll reads every block that was written.
func (w *workload) readAll() {
	w.t.Helper()
	for at := range device.LBA(space) {
		if len(w.versions[at]) > 0 {
			w.read(at, 1)
		}
	}
}

func (w *workload) close() {
	_ = w.q.Close()
	w.d.Free(w.w)
	w.d.Free(w.r)
}

// outcome is what a failed test prints.
func (w *workload) outcome() string {
	return fmt.Sprintf("%d verified, %d refused, %d failed (%v), broken: %v; %s",
		w.verified, w.refused, len(w.failed), errors.Join(w.failed[:min(len(w.failed), 3)]...), w.broken, w.c.Replay())
}
