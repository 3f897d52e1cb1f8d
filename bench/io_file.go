package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
)

// compareFile prints full protection beside the same engine without any, on a file, in alternating slices; and fio on the same
// file.
func compareFile(o IOOptions) (err error) {
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp(".", "cvmstore-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	path := filepath.Join(dir, "volume-io")
	defer func() { _ = os.Remove(path) }()
	span := ioengine.BlocksFor(max(o.largest(), mib(o.SliceMiB)))
	var warned []string
	dev, err := filedev.Open(path, filedev.Options{Create: true, Initial: 2 * span, Warn: func(m string) { warned = append(warned, m) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	pool, err := o.newPool(dev, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	var sides []*ioSide
	for i, kind := range []ioengine.Ablation{ioengine.Whole, ioengine.Raw} {
		s, err := newSide(o, 0, dev, pool, kind, device.LBA(i)*device.LBA(span), span)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.engine.Close()) }()
		sides = append(sides, s)
	}
	fmt.Fprintf(o.Out, "== A file, %s: full protection beside the same engine raw, %d slices of %d MiB a side, alternating; chunks of %d KiB, %d in flight\n",
		dev.Info().Name, o.Slices, o.SliceMiB, o.ChunkKiB, o.Depth)
	for _, w := range warned {
		fmt.Fprintln(o.Out, w)
	}
	fmt.Fprintf(o.Out, "\n%-6s %-8s %10s %10s  %-25s %-12s %10s %10s  %s\n", "", "objects", "full GB/s", "raw GB/s", "full / raw [95 %]", "goal, floor", "fio GB/s", "full / fio", "repeated")
	for _, size := range o.SizesMiB {
		for _, op := range []device.Op{device.OpWrite, device.OpRead} {
			if err := fileRow(o, sides, path, op, mib(size)); err != nil {
				return err
			}
		}
	}
	return nil
}

func fileRow(o IOOptions, sides []*ioSide, path string, op device.Op, size int64) error {
	for _, s := range sides {
		if op == device.OpWrite {
			s.fresh()
			continue
		}
		if err := s.fill(size); err != nil {
			return err
		}
	}
	before := fio(path, op, o)
	got, repeated, err := interleave(sides, o.Slices, func(s *ioSide) (turn, error) { return s.turnOf(op, size, mib(o.SliceMiB), false) })
	if err != nil {
		return err
	}
	beside := (before + fio(path, op, o)) / 2
	full := medianOf(collectOf(got[0], rateOf))
	fioText, ratio := "no fio", ""
	if beside > 0 {
		fioText, ratio = fmt.Sprintf("%.2f", beside/1e9), fmt.Sprintf("%.3f", full/beside)
	}
	record(o.Out, Figure{
		Experiment: "io", Name: opName[op] + " of " + sizeName(size) + ", file", Unit: "x", Against: "the same engine without protection",
		Samples: ratiosOf(got[0], got[1], rateOf), Rate: []float64{full / 1e9, medianOf(collectOf(got[1], rateOf)) / 1e9}, RateUnit: "GB/s",
		Floor: 0.90, Goal: 0.97,
	})
	fmt.Fprintf(o.Out, "%-6s %-8s %10.2f %10.2f  %-25s %-12s %10s %10s  %d\n", opName[op], sizeName(size), full/1e9, medianOf(collectOf(got[1], rateOf))/1e9,
		bootstrap(ratiosOf(got[0], got[1], rateOf)), "0.97, 0.90", fioText, ratio, repeated)
	return nil
}

// fio returns what fio reads or writes a second, in bytes, with the same request size and depth; 0 if there is no fio here.
func fio(path string, op device.Op, o IOOptions) float64 {
	if o.NoFio {
		return 0
	}
	out, err := exec.Command("fio", "--name=beside", "--filename="+path, "--rw="+opName[op], "--direct=1", "--ioengine=io_uring", "--fixedbufs=1",
		"--bs="+strconv.Itoa(o.ChunkKiB)+"k", "--iodepth="+strconv.Itoa(o.Depth), "--size="+strconv.FormatInt(mib(o.SliceMiB)*16, 10),
		"--time_based=1", "--runtime=1", "--output-format=json").Output()
	if err != nil {
		return 0
	}
	var report struct {
		Jobs []struct {
			Read  struct{ BW float64 } `json:"read"` // KiB a second
			Write struct{ BW float64 } `json:"write"`
		} `json:"jobs"`
	}
	if json.Unmarshal(out, &report) != nil || len(report.Jobs) == 0 {
		return 0
	}
	if op == device.OpRead {
		return report.Jobs[0].Read.BW * 1024
	}
	return report.Jobs[0].Write.BW * 1024
}

// countAmplification prints what the device sees for what is stored and returned.
func countAmplification(o IOOptions) (err error) {
	fmt.Fprintf(o.Out, "== Amplification, counted at the device: blocks moved, and the tags beside them, over bytes stored or returned\n\n")
	fmt.Fprintf(o.Out, "%-12s %9s %9s %9s\n", "object bytes", "written", "read", "at most")
	m, err := newModelled(o, 1e12, 1e12, mib(65), ioengine.Whole)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	s := m.sides[0]
	for _, size := range []int64{64<<10 + 1, 1 << 20, 1<<20 + 1, 3<<20 + 12345, 8 << 20, 8<<20 + 1, 64<<20 + 1} {
		s.fresh()
		tags := float64(ioengine.ChunkCount(size, s.chunk) * ioengine.TagSize)
		start := m.paced.Counted()
		if _, err := s.write(size, size, true); err != nil {
			return err
		}
		between := m.paced.Counted()
		if _, err := s.read(size, true); err != nil {
			return err
		}
		end := m.paced.Counted()
		most := ""
		bound := 0.0
		switch {
		case size >= 8<<20:
			most, bound = "1.001", 1.001
		case size >= 1<<20:
			most, bound = "1.005", 1.005
		}
		written := (float64(between.BytesWritten-start.BytesWritten) + tags) / float64(size)
		returned := (float64(end.BytesRead-between.BytesRead) + tags) / float64(size)
		fmt.Fprintf(o.Out, "%-12d %9.5f %9.5f %9s\n", size, written, returned, most)
		for what, v := range map[string]float64{"written": written, "read": returned} {
			record(o.Out, Figure{
				Experiment: "amplification", Name: fmt.Sprintf("bytes %s, object of %d bytes", what, size), Unit: "x",
				Against: "bytes stored and returned", Value: v, Goal: bound, AtMost: true,
			})
		}
	}
	return nil
}
