package memdev

import (
	"bytes"
	"testing"
	"time"

	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
)

func TestPacedContract(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Device {
		d, err := NewPaced(PacedOptions{Blocks: devicetest.Blocks, BlocksMax: devicetest.BlocksMax, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

// TestPacedTakesItsTime asserts no more than what the model promises: never faster than its bandwidth and latency.
func TestPacedTakesItsTime(t *testing.T) {
	const n, requests = 64, 16
	d, err := NewPaced(PacedOptions{Blocks: 1024, ReadRate: 400e6, WriteRate: 200e6, LatencyMin: time.Millisecond, LatencyMax: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.NewQueue(requests)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	stamp := bytes.Repeat([]byte("0123456789abcdef"), len(buf)/16)
	copy(buf, stamp)
	for _, c := range []struct {
		op   device.Op
		rate float64
	}{{device.OpWrite, 200e6}, {device.OpRead, 400e6}} {
		var reqs []device.Request
		for i := range device.LBA(requests) {
			reqs = append(reqs, device.Request{Op: c.op, LBA: i * n, Buf: buf})
		}
		if c.op == device.OpRead {
			clear(buf)
		}
		start := time.Now()
		for _, err := range devicetest.Do(t, q, reqs...) {
			if err != nil {
				t.Fatal(err)
			}
		}
		least := time.Duration(float64(requests*len(buf))/c.rate*1e9) + time.Millisecond
		if took := time.Since(start); took < least {
			t.Errorf("op %d: %d requests took %v, less than %v", c.op, requests, took, least)
		}
	}
	if !bytes.Equal(buf, stamp) {
		t.Error("the data was not moved")
	}
	c := d.Counted()
	if want := uint64(requests * len(buf)); c.BytesRead != want || c.BytesWritten != want || c.Busy == 0 {
		t.Errorf("counted %+v", c)
	}
	d.Free(buf)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
