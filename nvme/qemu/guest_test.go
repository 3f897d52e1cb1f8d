//go:build linux

package qemu

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
	"cvmstore/nvme"
	"cvmstore/nvme/vfio"
)

// The guest's tests take these from the kernel's command line (scripts/vfio.sh).
var (
	addresses = flag.String("vfio.devices", "", "PCI addresses of controllers that are bound to vfio-pci, with commas; empty: skip all tests")
	pairs     = flag.Int("vfio.pairs", 0, "how many queue pairs the controller must grant; 0: any")
	blockSize = flag.Int("vfio.lbs", 4096, "the controller's block size")
	errorsAt  = flag.Int("vfio.errors", 0, "a block of namespace 2 whose reads and writes fail; 0: none")
)

// Namespace 1 has the size that devicetest wants, namespace 2 is where everything else happens.
const (
	contractSpace = 1
	workSpace     = 2
)

func controllers(t *testing.T) []string {
	t.Helper()
	if *addresses == "" {
		t.Skip("runs in a guest: make test-vfio")
	}
	return strings.Split(*addresses, ",")
}

func openAt(t *testing.T, address string, namespace uint32) *vfio.Device {
	t.Helper()
	a, err := vfio.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	a.Namespace = namespace
	d, err := vfio.OpenDevice(a, vfio.Options{Log: func(s string) { t.Log(s) }}, nvme.Options{Log: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustClose(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestGuestContract(t *testing.T) {
	for _, a := range controllers(t) {
		devicetest.RunFixed(t, func(t *testing.T) device.Device { return openAt(t, a, contractSpace) })
	}
}

func TestGuestGeometry(t *testing.T) {
	for _, a := range controllers(t) {
		d := openAt(t, a, workSpace)
		if g := d.Geometry(); g.LogicalBytes != *blockSize || g.Namespace != workSpace {
			t.Errorf("%+v", g)
		}
		if *pairs > 0 && d.Pairs() != *pairs {
			t.Errorf("%d queue pairs, want %d", d.Pairs(), *pairs)
		}
		t.Logf("%s; %s; %+v; %d queue pairs; memory for DMA: %s", d.Info().Name, d.How(), d.Geometry(), d.Pairs(), d.MemoryKind())
		address, _ := vfio.ParseAddress(a)
		if again, err := vfio.Open(address, vfio.Options{}); !errors.Is(err, device.ErrLocked) {
			t.Errorf("opened twice: %v, %v", again, err)
		}
		mustClose(t, d)
		f, err := vfio.Open(address, vfio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		id, all, err := nvme.Inspect(f, f.DMA(), nvme.Options{})
		if err != nil || len(all) != 2 || all[0].Err != nil || all[1].Err != nil {
			t.Errorf("%+v, %+v, %v", id, all, err)
		}
		mustClose(t, f)
	}
}

// stamp fills a block so that it says where it belongs, which version it is, and whether it is whole.
func stamp(b []byte, lba device.LBA, version uint64) {
	rng := rand.NewPCG(uint64(lba), version)
	for at := 16; at < len(b)-8; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], rng.Uint64())
	}
	binary.LittleEndian.PutUint64(b, uint64(lba))
	binary.LittleEndian.PutUint64(b[8:], version)
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
}

func check(b []byte, lba device.LBA, version uint64) error {
	want := make([]byte, len(b))
	stamp(want, lba, version)
	if !bytes.Equal(b, want) {
		return fmt.Errorf("block %d of version %d holds block %d of version %d", lba, version,
			binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]))
	}
	return nil
}

// All controllers, several queues each, at once: random transfers of all sizes, each block checked.
func TestGuestQueuesAtOnce(t *testing.T) {
	const queues, space, rounds = 3, 512, 25
	var all sync.WaitGroup
	for c, a := range controllers(t) {
		d := openAt(t, a, workSpace)
		most := min(int(d.Info().TransferBlocks), space/2)
		for q := range queues {
			all.Go(func() {
				if err := exercise(d, device.LBA(64+q*space), space, most, rounds, uint64(c*queues+q)); err != nil {
					t.Error(err)
				}
			})
		}
		t.Cleanup(func() { mustClose(t, d) })
	}
	all.Wait()
}

func exercise(d device.Device, first device.LBA, space, most, rounds int, seed uint64) error {
	q, err := d.NewQueue(8)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 5))
	w, err := d.Alloc(device.BlockCount(most))
	if err != nil {
		return err
	}
	r, err := d.Alloc(device.BlockCount(most))
	if err != nil {
		return err
	}
	versions := make([]uint64, space)
	for version := uint64(1); version <= uint64(rounds); version++ {
		n := 1 + rng.IntN(most)
		if version%3 > 0 {
			n = 1 + rng.IntN(min(most, 8))
		}
		at := rng.IntN(space - n + 1)
		for i := range n {
			stamp(w[i*device.BlockSize:(i+1)*device.BlockSize], first+device.LBA(at+i), version)
			versions[at+i] = version
		}
		err := do(q, device.Request{Op: device.OpWrite, LBA: first + device.LBA(at), Buf: w[:n*device.BlockSize], Through: rng.IntN(2) == 0})
		if err != nil {
			return err
		}
		n = 1 + rng.IntN(min(most, 16))
		at = rng.IntN(space - n + 1)
		if err := do(q, device.Request{Op: device.OpRead, LBA: first + device.LBA(at), Buf: r[:n*device.BlockSize]}); err != nil {
			return err
		}
		for i := range n {
			if versions[at+i] > 0 {
				if err := check(r[i*device.BlockSize:(i+1)*device.BlockSize], first+device.LBA(at+i), versions[at+i]); err != nil {
					return err
				}
			}
		}
	}
	if err := do(q, device.Request{Op: device.OpFlush}); err != nil {
		return err
	}
	d.Free(w)
	d.Free(r)
	return q.Close()
}

func do(q device.Queue, r device.Request) error {
	if n, err := q.Submit([]device.Request{r}); n != 1 {
		return fmt.Errorf("submitted %d: %w", n, err)
	}
	var out [1]device.Completion
	for range 60 {
		if n, err := q.Wait(out[:], time.Second); err != nil || n > 0 {
			return errors.Join(err, out[0].Err)
		}
	}
	return errors.New("no completion after a minute")
}

// A process that is killed in the middle of I/O leaves the controller to whoever comes next, and what it acknowledged is there.
func TestGuestKill(t *testing.T) {
	a := controllers(t)[0]
	const first, space = 4096, 256
	for round := range 3 {
		last := killed(t, a, round)
		d := openAt(t, a, workSpace)
		q, err := d.NewQueue(4)
		if err != nil {
			t.Fatal(err)
		}
		buf, err := d.Alloc(1)
		if err != nil {
			t.Fatal(err)
		}
		for i := max(0, last-space+1); i <= last; i++ {
			lba := device.LBA(first + i%space)
			if err := do(q, device.Request{Op: device.OpRead, LBA: lba, Buf: buf}); err != nil {
				t.Fatal(err)
			}
			// The write after the last acknowledged one may have landed, too.
			if err := check(buf, lba, uint64(round)<<32|uint64(i)); err != nil && check(buf, lba, uint64(round)<<32|uint64(i+space)) != nil {
				t.Fatal(err)
			}
		}
		t.Logf("round %d: %d writes were acknowledged before the kill", round, last+1)
		mustClose(t, q)
		mustClose(t, d)
	}
}

// killed runs TestGuestWriter in a process of its own, kills it after some writes, and returns the number of the last one.
func killed(t *testing.T, address string, round int) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=TestGuestWriter$", "-vfio.devices="+address)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GUEST_WRITER=%d", round))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := -1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &last); n == 1 && err == nil && last == 100+50*round {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if last < 100+50*round {
		t.Fatalf("the writer ended after %d writes", last)
	}
	return last
}

// TestGuestWriter is the process that is killed: durable writes, several in flight beside them.
func TestGuestWriter(t *testing.T) {
	round := 0
	if n, _ := fmt.Sscanf(os.Getenv("GUEST_WRITER"), "%d", &round); n != 1 {
		t.Skip("started by TestGuestKill")
	}
	d := openAt(t, controllers(t)[0], workSpace)
	q, err := d.NewQueue(16)
	if err != nil {
		t.Fatal(err)
	}
	noise, err := d.Alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := d.Alloc(1)
	if err != nil {
		t.Fatal(err)
	}
	side, err := d.NewQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	var out [16]device.Completion
	for i := range 100000 {
		_, _ = q.Submit([]device.Request{{Op: device.OpWrite, LBA: 5000, Buf: noise}, {Op: device.OpRead, LBA: 5000, Buf: noise}})
		_, _ = q.Poll(out[:])
		lba := device.LBA(4096 + i%256)
		stamp(buf, lba, uint64(round)<<32|uint64(i))
		if err := do(side, device.Request{Op: device.OpWrite, LBA: lba, Buf: buf, Through: true}); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("acknowledged %d\n", i)
	}
}

// The disk below the controller fails at one block: the error arrives, other blocks go on.
func TestGuestErrors(t *testing.T) {
	if *errorsAt == 0 {
		t.Skip("no errors are injected")
	}
	d := openAt(t, controllers(t)[0], workSpace)
	q, err := d.NewQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := d.Alloc(1)
	if err != nil {
		t.Fatal(err)
	}
	bad := device.LBA(*errorsAt)
	for range 3 {
		for _, op := range []device.Op{device.OpRead, device.OpWrite} {
			if err := do(q, device.Request{Op: op, LBA: bad, Buf: buf}); !errors.Is(err, nvme.ErrRefused) {
				t.Errorf("operation %d at the bad block: %v", op, err)
			}
			if err := do(q, device.Request{Op: op, LBA: bad + 1, Buf: buf}); err != nil {
				t.Errorf("operation %d at its neighbour: %v", op, err)
			}
		}
	}
	mustClose(t, q)
	mustClose(t, d)
}
