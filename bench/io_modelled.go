package bench

import (
	"errors"
	"fmt"
	"math"
	"time"

	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
)

// The paper's drive, in GB/s.
const (
	paperRead  = 13.6
	paperWrite = 6.9
)

// headroom is how much faster than the modelled drive this machine must be able to move data, for a measurement to be of the
// engine and not of the model.
const headroom = 1.2

// modelled is a paced device with the sides on it.
type modelled struct {
	o         IOOptions
	paced     *memdev.Paced
	dev       device.Device // paced itself, or the NVMe driver in front of it
	pool      *ioengine.Pool
	sides     []*ioSide
	readRate  float64 // bytes a second
	writeRate float64
}

// newModelled makes a paced device of the options' rates, and for each kind a side of span bytes.
func newModelled(o IOOptions, read, write float64, span int64, kinds ...ioengine.Ablation) (_ *modelled, err error) {
	m := &modelled{o: o, readRate: read, writeRate: write}
	blocks := ioengine.BlocksFor(span)
	m.paced, err = memdev.NewPaced(memdev.PacedOptions{
		Blocks: blocks * device.BlockCount(len(kinds)), ReadRate: read, WriteRate: write, Seed: 1,
	})
	if err != nil {
		return nil, err
	}
	m.dev = m.paced
	if o.NVMe {
		if m.dev, err = onNVMe(m.paced); err != nil {
			return nil, errors.Join(err, m.paced.Close())
		}
	}
	if m.pool, err = o.newPool(m.dev, len(kinds)); err != nil {
		return nil, errors.Join(err, m.dev.Close())
	}
	for i, k := range kinds {
		s, err := newSide(o, time.Millisecond, m.dev, m.pool, k, device.LBA(i)*device.LBA(blocks), blocks)
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.sides = append(m.sides, s)
	}
	return m, nil
}

func (m *modelled) close() error {
	var errs []error
	for _, s := range m.sides {
		errs = append(errs, s.engine.Close())
	}
	return errors.Join(errors.Join(errs...), m.pool.Close(), m.dev.Close())
}

// rates returns the modelled drive's rates in bytes a second, and says in out where they come from. What is not set is the
// paper's, halved until this machine can move it.
func (o IOOptions) rates() (read, write float64, err error) {
	canRead, canWrite := math.Inf(1), math.Inf(1)
	if o.ReadRate == 0 || o.WriteRate == 0 {
		if canRead, canWrite, err = o.capacity(); err != nil {
			return 0, 0, err
		}
		fmt.Fprintf(o.Out, "One thread moves data for the device model: with no pacing and no cipher %.1f GB/s read, %.1f GB/s written.\n",
			canRead/1e9, canWrite/1e9)
	}
	pick := func(set, paper, can float64) float64 {
		if set > 0 {
			return set * 1e9
		}
		for paper*1e9*headroom > can {
			paper /= 2
		}
		return paper * 1e9
	}
	read, write = pick(o.ReadRate, paperRead, canRead), pick(o.WriteRate, paperWrite, canWrite)
	fmt.Fprintf(o.Out, "Modelled drive: %.2f GB/s read, %.2f GB/s write, 15 to 80 µs (the paper's: %.1f and %.1f).\n", read/1e9, write/1e9, paperRead, paperWrite)
	return read, write, nil
}

// capacity measures what the device model could do at best here.
func (o IOOptions) capacity() (read, write float64, err error) {
	m, err := newModelled(o, 1e12, 1e12, mib(256), ioengine.Raw)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	s := m.sides[0]
	if err := s.fill(mib(16)); err != nil {
		return 0, 0, err
	}
	for range 9 { // the best of them: the others met other processes
		took, err := s.write(mib(16), mib(256), false)
		if err != nil {
			return 0, 0, err
		}
		write = max(write, float64(mib(256))/took.Seconds())
		if took, err = s.read(mib(256), false); err != nil {
			return 0, 0, err
		}
		read = max(read, float64(mib(256))/took.Seconds())
	}
	return read, write, nil
}

// turn is one turn of one side.
type turn struct {
	rate   float64 // bytes a second
	took   time.Duration
	crypto time.Duration
	alone  time.Duration
}

// turn lets a side write or read total bytes in objects of size.
func (s *ioSide) turnOf(op device.Op, size, total int64, apart bool) (turn, error) {
	before := s.engine.Stats()
	var took time.Duration
	var err error
	if op == device.OpWrite {
		took, err = s.write(size, total, apart)
	} else {
		took, err = s.read(total, apart)
	}
	after := s.engine.Stats()
	return turn{
		float64(total) / took.Seconds(), took, after.Crypto - before.Crypto, after.CryptoAlone - before.CryptoAlone,
	}, err
}

// interleave gives each side a turn in each round, in an order that changes from round to round. It says how many rounds were
// repeated because another process disturbed them; those that are left after the last attempt count as they are.
func interleave(sides []*ioSide, rounds int, do func(*ioSide) (turn, error)) (got [][]turn, repeated int, err error) {
	got = make([][]turn, len(sides))
	for attempt := 0; len(got[0]) < rounds; attempt++ {
		this := make([]turn, len(sides))
		before, start := waited(), time.Now()
		for k := range sides {
			i := (k + attempt) % len(sides)
			if this[i], err = do(sides[i]); err != nil {
				return nil, 0, fmt.Errorf("%v: %w", sides[i].kind, err)
			}
		}
		lost := (waited() - before).Seconds() / time.Since(start).Seconds()
		if left := attemptsFactor*rounds - attempt; lost > disturbedMax && left > rounds-len(got[0]) {
			repeated++
			continue
		}
		for i := range sides {
			got[i] = append(got[i], this[i])
		}
	}
	return got, repeated, nil
}

func collectOf(runs []turn, f func(turn) float64) []float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, f(r))
	}
	return v
}

// ratios returns f of the rounds of a over those of b, round by round.
func ratiosOf(a, b []turn, f func(turn) float64) []float64 {
	var v []float64
	for i := range a {
		v = append(v, f(a[i])/f(b[i]))
	}
	return v
}

func rateOf(r turn) float64 { return r.rate }
func timeOf(r turn) float64 { return r.took.Seconds() }

// opName and floors of the table.
var (
	opName       = map[device.Op]string{device.OpWrite: "write", device.OpRead: "read"}
	floorOf      = map[device.Op]float64{device.OpWrite: 0.99, device.OpRead: 0.97}
	floorFromMiB = 16
)

// compareModelled prints how near the engine comes to the modelled drive.
func compareModelled(o IOOptions) (err error) {
	fmt.Fprintf(o.Out, "== The modelled drive: one core with full protection, chunks of %d KiB, %d in flight, medians of %d interleaved rounds [95 %%]\n",
		o.ChunkKiB, o.Depth, o.Rounds)
	read, write, err := o.rates()
	if err != nil {
		return err
	}
	m, err := newModelled(o, read, write, o.largest(), ioengine.Whole, ioengine.Raw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	ghz := clockGHz()
	fmt.Fprintf(o.Out, "Cycles are of the %.1f GHz reference clock. Crypto: time spent, and of that with nothing in flight, as parts of the run.\n", ghz)
	fmt.Fprintf(o.Out, "Visible: how much longer the run takes than raw. Apart: each object done before the next begins.\nRepeated: rounds in which other processes took a processor for more than 1 %% of the time.\n\n")
	fmt.Fprintf(o.Out, "%-6s %-8s %7s  %-25s %-5s  %-6s %-6s %8s %8s %8s %10s %10s  %s\n", "", "objects", "GB/s", "of the drive's bandwidth", "floor", "raw", "apart",
		"crypto", "alone", "visible", "cycles/B", "ns/KiB", "repeated")
	for _, size := range o.SizesMiB {
		for _, op := range []device.Op{device.OpWrite, device.OpRead} {
			if err := m.row(op, mib(size), ghz); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *modelled) row(op device.Op, size int64, ghz float64) error {
	drive := m.writeRate
	if op == device.OpRead {
		drive = m.readRate
	}
	for _, s := range m.sides {
		if err := s.fill(size); err != nil {
			return err
		}
	}
	total := max(size, mib(128))
	got, repeated, err := interleave(m.sides, m.o.Rounds, func(s *ioSide) (turn, error) { return s.turnOf(op, size, total, false) })
	if err != nil {
		return err
	}
	apart, _, err := interleave(m.sides[:1], 5, func(s *ioSide) (turn, error) { return s.turnOf(op, size, total, true) })
	if err != nil {
		return err
	}
	whole, raw := got[0], got[1]
	floor := ""
	if size >= mib(floorFromMiB) {
		floor = fmt.Sprintf("%.2f", floorOf[op])
	}
	ofDrive := func(r turn) float64 { return r.rate / drive }
	record(m.o.Out, Figure{
		Experiment: "io", Name: opName[op] + " of " + sizeName(size) + ", modelled drive", Unit: "x", Against: "the drive's bandwidth",
		Samples: collectOf(whole, ofDrive), Rate: []float64{medianOf(collectOf(whole, rateOf)) / 1e9, drive / 1e9}, RateUnit: "GB/s",
		Goal: floorOf[op], Paper: "0.96 to 0.99",
	})
	crypto := medianOf(collectOf(whole, func(r turn) float64 { return r.crypto.Seconds() / float64(total) }))
	fmt.Fprintf(m.o.Out, "%-6s %-8s %7.2f  %-25s %-5s  %.3f  %.3f  %6.1f %% %6.2f %% %6.2f %% %10.3f %10.1f  %d\n", opName[op], sizeName(size),
		medianOf(collectOf(whole, rateOf))/1e9, bootstrap(collectOf(whole, ofDrive)), floor,
		medianOf(collectOf(raw, ofDrive)), medianOf(collectOf(apart[0], ofDrive)),
		100*medianOf(collectOf(whole, func(r turn) float64 { return r.crypto.Seconds() / r.took.Seconds() })),
		100*medianOf(collectOf(whole, func(r turn) float64 { return r.alone.Seconds() / r.took.Seconds() })),
		100*(medianOf(ratiosOf(whole, raw, timeOf))-1), crypto*1e9*ghz, crypto*1e9*1024, repeated)
	return nil
}

// compareAblations prints what each part of the engine is worth on the modelled drive.
func compareAblations(o IOOptions) (err error) {
	kinds := []ioengine.Ablation{
		ioengine.Whole, ioengine.Raw, ioengine.WithoutCipher, ioengine.WithStaging, ioengine.WithGCM, ioengine.WithoutOverlap, ioengine.DiskLayer,
	}
	paper := map[ioengine.Ablation]string{
		ioengine.WithStaging: "+8 to 16 %", ioengine.WithGCM: "+19 to 21 %", ioengine.WithoutOverlap: "+70 to 76 %",
		ioengine.Whole: "+0.4 to 0.9 % over raw", ioengine.DiskLayer: "37 to 56 % slower",
	}
	size := min(64<<20, o.largest())
	total := size
	fmt.Fprintf(o.Out, "== Ablations on the modelled drive: objects of %s, time beside full protection, medians of %d interleaved rounds [95 %%]\n", sizeName(size), o.Rounds)
	read, write, err := o.rates()
	if err != nil {
		return err
	}
	m, err := newModelled(o, read, write, size, kinds...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for _, s := range m.sides {
		if err := s.fill(size); err != nil {
			return fmt.Errorf("%v: %w", s.kind, err)
		}
	}
	fmt.Fprintf(o.Out, "\n%-24s %-26s %8s   %-26s %8s   %s\n", "", "write", "crypto", "read", "crypto", "the paper")
	var got [2][][]turn
	var repeated [2]int
	for i, op := range []device.Op{device.OpWrite, device.OpRead} {
		if got[i], repeated[i], err = interleave(m.sides, o.Rounds, func(s *ioSide) (turn, error) { return s.turnOf(op, size, total, false) }); err != nil {
			return err
		}
	}
	for k, kind := range kinds {
		fmt.Fprintf(o.Out, "%-24s", kind)
		for i, op := range []device.Op{device.OpWrite, device.OpRead} {
			record(o.Out, Figure{
				Experiment: "ablation", Name: fmt.Sprintf("%s, %s", kind, opName[op]), Unit: "x", Against: "the time with full protection",
				Samples: ratiosOf(got[i][k], got[i][0], timeOf), Paper: paper[kind],
			})
			fmt.Fprintf(o.Out, " %-26s %6.1f %%  ", bootstrap(ratiosOf(got[i][k], got[i][0], timeOf)),
				100*medianOf(collectOf(got[i][k], func(r turn) float64 { return r.crypto.Seconds() / r.took.Seconds() })))
		}
		fmt.Fprintf(o.Out, " %s\n", paper[kind])
	}
	fmt.Fprintf(o.Out, "Disturbed rounds that were repeated: %d and %d.\n", repeated[0], repeated[1])
	return nil
}
