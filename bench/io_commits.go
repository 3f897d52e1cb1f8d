package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
)

// compareCommits prints how long a small durable write takes, on a queue of its own, while a large transfer goes on.
func compareCommits(o IOOptions) (err error) {
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp(".", "cvmstore-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	path := filepath.Join(dir, "volume-io")
	defer func() { _ = os.Remove(path) }()
	span := ioengine.BlocksFor(o.largest())
	dev, err := filedev.Open(path, filedev.Options{Create: true, Initial: span + 1024})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	fmt.Fprintf(o.Out, "== Small commits beside a large transfer: durable writes of 4 KiB one after the other on a queue of their own; %s\n\n", dev.Info().Name)
	fmt.Fprintf(o.Out, "%-24s %10s %10s %12s %14s\n", "", "p50 µs", "p99 µs", "commits/s", "transfer GB/s")
	alone, err := commitsFor(dev, span, time.Duration(o.Rounds)*100*time.Millisecond)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%-24s %10.0f %10.0f %12.0f\n", "alone", alone.p50, alone.p99, alone.rate)
	for _, depth := range []int{4, 8, 16, 32} {
		for _, op := range []device.Op{device.OpWrite, device.OpRead} {
			o := o
			o.Depth = depth
			if err := besideTransfer(o, dev, span, op); err != nil {
				return err
			}
		}
	}
	return nil
}

// commits is what small writes took.
type commits struct{ p50, p99, rate float64 } // µs, a second

// besideTransfer measures commits while an engine of o.Depth writes or reads.
func besideTransfer(o IOOptions, dev device.Device, span device.BlockCount, op device.Op) (err error) {
	pool, err := o.newPool(dev, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	s, err := newSide(o, 0, dev, pool, ioengine.Whole, 0, span)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.engine.Close()) }()
	if err := s.fill(o.largest()); err != nil {
		return err
	}
	var stop atomic.Bool
	type result struct {
		commits
		err error
	}
	measured := make(chan result, 1)
	go func() {
		c, err := commitsFor(dev, span, time.Duration(o.Rounds)*100*time.Millisecond)
		stop.Store(true)
		measured <- result{c, err}
	}()
	moved, start := int64(0), time.Now()
	for !stop.Load() {
		if _, err = s.turnOf(op, o.largest(), mib(16), false); err != nil {
			break
		}
		moved += mib(16)
	}
	took := time.Since(start)
	r := <-measured
	if err = errors.Join(err, r.err); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%-24s %10.0f %10.0f %12.0f %14.2f\n", fmt.Sprintf("%s, %d in flight", opName[op], o.Depth), r.p50, r.p99, r.rate,
		float64(moved)/took.Seconds()/1e9)
	return nil
}

// commitsFor writes 4 KiB durably, again and again, at block number at and the 1023 after it.
func commitsFor(dev device.Device, at device.BlockCount, d time.Duration) (c commits, err error) {
	q, err := dev.NewQueue(1)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	buf, err := dev.Alloc(1)
	if err != nil {
		return c, err
	}
	defer dev.Free(buf)
	var took []float64
	out := make([]device.Completion, 1)
	start := time.Now()
	for n := 0; time.Since(start) < d; n++ {
		from := time.Now()
		lba := device.LBA(at) + device.LBA(n%1024)
		if _, err := q.Submit([]device.Request{{Op: device.OpWrite, Through: true, LBA: lba, Buf: buf}}); err != nil {
			return c, err
		}
		k, err := q.Wait(out, 10*time.Second)
		if err = errors.Join(err, out[0].Err); err != nil || k == 0 {
			return c, errors.Join(err, errors.New("a small write did not complete"))
		}
		took = append(took, time.Since(from).Seconds()*1e6)
	}
	slices.Sort(took)
	return commits{took[len(took)/2], took[len(took)*99/100], float64(len(took)) / time.Since(start).Seconds()}, nil
}
