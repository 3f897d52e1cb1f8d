//go:build linux

package filedev

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
)

// laidOut says whether the file has no holes, allocated or not, before end. It skips the test if the file system cannot tell.
func laidOut(t *testing.T, path string, end device.BlockCount) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	hole, err := f.Seek(0, unix.SEEK_HOLE)
	if err != nil {
		t.Skip(err)
	}
	return hole >= int64(end.Bytes())
}

func TestReserveLaysOutWholeSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	d := mustOpen(t, path, Options{Create: true, Initial: 10, BlocksMax: 100, GrowBlocks: 32})
	if !laidOut(t, path, 10) {
		t.Error("Initial was not laid out")
	}
	// One step more may be there already, or be on its way.
	for _, c := range []struct{ ask, have device.BlockCount }{{5, 10}, {11, 32}, {65, 96}, {97, 100}} {
		if err := devicetest.Reserve(t, d, c.ask); err != nil {
			t.Fatal(err)
		}
		if have := d.Info().Blocks; have < c.have || have > c.have+64 {
			t.Errorf("asked for %d blocks, have %d, want %d and at most two steps more", c.ask, have, c.have)
		}
		if !laidOut(t, path, c.have) {
			t.Errorf("%d blocks were not laid out", c.have)
		}
	}
	if _, err := d.Reserve(101); !errors.Is(err, device.ErrFull) {
		t.Errorf("above the limit: %v", err)
	}
	mustClose(t, d)
}

func TestOpenFillsHolesAndKeepsData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	data := bytes.Repeat([]byte{7}, device.BlockSize)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, lba := range []int64{3, 4, 50} {
		if _, err := f.WriteAt(data, lba*device.BlockSize); err != nil {
			t.Fatal(err)
		}
	}
	// What a crash leaves in the middle of a step: allocated, never written. And a last block that is not whole.
	if err := unix.Fallocate(int(f.Fd()), 0, 60*device.BlockSize, 40*device.BlockSize); err != nil {
		t.Skip(err)
	}
	if err := f.Truncate(100*device.BlockSize + 17); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	warned := ""
	o := Options{GrowBlocks: 2, Warn: func(msg string) { warned += msg }}
	mustClose(t, mustOpen(t, path, o))
	if laidOut(t, path, 100) || warned == "" {
		t.Error("more holes were filled than Open may take the time for")
	}
	o.GrowBlocks, warned = 64, ""
	d := mustOpen(t, path, o)
	if d.Info().Blocks != 100 || warned != "" {
		t.Errorf("%d blocks, warned %q", d.Info().Blocks, warned)
	}
	mustClose(t, d)
	if !laidOut(t, path, 100) {
		t.Error("holes are left")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for lba := range 100 {
		want := make([]byte, device.BlockSize)
		if lba == 3 || lba == 4 || lba == 50 {
			want = data
		}
		if !bytes.Equal(content[lba*device.BlockSize:(lba+1)*device.BlockSize], want) {
			t.Errorf("block %d changed", lba)
		}
	}
}

func TestAFullFileSystemIsAnErrorAndNothingElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "volume")
	if _, err := Open(path, Options{Create: true, Initial: 4096}); !errors.Is(err, device.ErrFull) {
		t.Fatalf("Initial without room: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, path, Options{Create: true, Initial: 16, BlocksMax: 4096, GrowBlocks: 16})
	if err := devicetest.Reserve(t, d, 4096); !errors.Is(err, device.ErrFull) {
		t.Fatalf("Reserve without room: %v", err)
	}
	have := d.Info().Blocks
	q := mustQueue(t, d, 4)
	buf := mustAlloc(t, d, 1, 1)
	if err := devicetest.Do(t, q, device.Request{Op: device.OpWrite, LBA: device.LBA(have - 1), Buf: buf, Through: true})[0]; err != nil {
		t.Fatalf("the file is not usable any more: %v", err)
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Skip(err)
	}
	if err := devicetest.Reserve(t, d, 4096); err != nil {
		t.Fatalf("Reserve after room was made: %v", err)
	}
	mustClose(t, q)
	mustClose(t, d)
}

func TestCloseStopsLayingOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	d := mustOpen(t, path, Options{Create: true, Initial: 1, BlocksMax: 1 << 18, GrowBlocks: 256})
	if done, err := d.Reserve(1 << 18); done || err != nil {
		t.Fatal(done, err)
	}
	mustClose(t, d)
	mustClose(t, mustOpen(t, path, Options{GrowBlocks: 256}))
}
