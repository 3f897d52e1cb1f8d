//go:build linux

package filedev

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
)

func TestBlockDevice(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	loop := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", loop).Run() })

	d := mustOpen(t, loop, Options{Initial: 1 << 30, BlocksMax: 1 << 40})
	if info := d.Info(); info.Blocks != 2048 || info.BlocksMax != 2048 || info.Exclusive {
		t.Errorf("info: %+v", info)
	}
	if _, err := Open(loop, Options{}); !errors.Is(err, device.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := d.Reserve(2049); !errors.Is(err, device.ErrFull) {
		t.Errorf("grown: %v", err)
	}
	q := mustQueue(t, d, 4)
	w, r := mustAlloc(t, d, 4, 7), mustAlloc(t, d, 4, 0)
	for _, err := range devicetest.Do(t, q,
		device.Request{Op: device.OpWrite, LBA: 2044, Buf: w, Through: true},
		device.Request{Op: device.OpTrim, LBA: 1, Count: 5}, device.Request{Op: device.OpFlush},
	) {
		if err != nil {
			t.Error(err)
		}
	}
	if err := devicetest.Do(t, q, device.Request{Op: device.OpRead, LBA: 2044, Buf: r})[0]; err != nil || !bytes.Equal(r, w) {
		t.Errorf("read: %v", err)
	}
	mustClose(t, q)
	mustClose(t, d)
	mustClose(t, mustOpen(t, loop, Options{}))
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a\nb")
	if _, err := Open(path, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Open(dir, Options{Create: true}); err == nil {
		t.Error("opened a directory")
	}
	if _, err := Open(os.DevNull, Options{}); err == nil {
		t.Error("opened /dev/null")
	}
	d := mustOpen(t, path, Options{Create: true, Initial: 4})
	_, err := Open(path, Options{})
	if !errors.Is(err, device.ErrLocked) || !strings.Contains(err.Error(), `a\nb`) {
		t.Errorf("opened twice: %v", err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 || st.Size() != 4*device.BlockSize {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if info := d.Info(); !info.Exclusive || info.BlocksMax != 4 || !strings.HasPrefix(info.Name, `"`) {
		t.Errorf("info: %+v", info)
	}
	mustClose(t, d)
	d = mustOpen(t, path, Options{Initial: 2})
	if d.Info().Blocks != 4 {
		t.Error("the file shrank")
	}
	mustClose(t, d)
}
