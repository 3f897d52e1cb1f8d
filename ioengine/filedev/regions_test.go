//go:build linux

package filedev

import (
	"bytes"
	"path/filepath"
	"testing"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
)

// TestRegionsAreReadAndWritten also covers buffers that were freed while a ring still has them registered: the memory that
// comes to lie at the same address is not the registered one.
func TestRegionsAreReadAndWritten(t *testing.T) {
	const blocks = 2 * regionBlocks
	d := mustOpen(t, filepath.Join(t.TempDir(), "volume"), Options{Create: true, Initial: 4 * blocks})
	first, second := mustAlloc(t, d, blocks, 1), mustAlloc(t, d, blocks, 2)
	q := mustQueue(t, d, 8)
	do := func(op device.Op, lba device.LBA, buf []byte) {
		t.Helper()
		if err := devicetest.Do(t, q, device.Request{Op: op, LBA: lba, Buf: buf})[0]; err != nil {
			t.Fatal(err)
		}
	}
	if len(q.regions) == 0 {
		t.Log("this kernel registers no buffers: only the plain path is tested")
	} else if q.regionOf(first[4096:8192]) != 0 || q.regionOf(second) != 1 || q.regionOf(make([]byte, 8192)) != -1 {
		t.Fatal("buffers are not found in their regions")
	}
	do(device.OpWrite, 0, first[:100*device.BlockSize])
	do(device.OpWrite, 100, second[50*device.BlockSize:][:100*device.BlockSize])
	for _, at := range []struct {
		lba device.LBA
		v   byte
	}{{0, 1}, {100, 2}} {
		do(device.OpRead, at.lba, first[:100*device.BlockSize])
		if !bytes.Equal(first[:100*device.BlockSize], bytes.Repeat([]byte{at.v}, 100*device.BlockSize)) {
			t.Fatalf("block %d was not read", at.lba)
		}
	}
	for v := byte(3); v < 9; v++ { // the kernel hands out the same addresses again
		d.Free(first)
		first = mustAlloc(t, d, blocks, v)
		do(device.OpWrite, 300, first[:device.BlockSize])
		clear(first)
		do(device.OpRead, 300, first[:device.BlockSize])
		if first[0] != v || q.regionOf(first) >= 0 {
			t.Fatalf("buffer %d went out as the one that lay there before", v)
		}
	}
	d.Free(first)
	d.Free(second)
	mustClose(t, q)
	mustClose(t, d)
}
