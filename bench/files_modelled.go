package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"cvmstore/files"
	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/volume"
)

const randomChunk = 128 << 10

// filesOnModel is a volume of files on one modelled drive, and the raw engine on another of the same rates.
type filesOnModel struct {
	o           FilesOptions
	io          IOOptions
	f           *filesVolume
	bio         *volume.BlobIO // of the streams, which one goroutine moves, as the server's loop does
	raw         *modelled
	read, write float64
}

// filesModelled compares files with the engine without any protection on modelled drives.
func filesModelled(ctx context.Context, o FilesOptions) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := &filesOnModel{o: o, io: IOOptions{SizesMiB: o.SizesMiB, ChunkKiB: 256, Rounds: o.Rounds, Out: o.Out}}
	m.io.setDefaults()
	fmt.Fprintf(o.Out, "== Files on the modelled drive: full protection, tree and commit included, beside the raw engine; medians of %d interleaved rounds [95 %%]\n", o.Rounds)
	if m.read, m.write, err = m.io.rates(); err != nil {
		return err
	}
	span := m.io.largest()
	if m.raw, err = newModelled(m.io, m.read, m.write, span, ioengine.Raw); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.raw.close()) }()
	paced, err := memdev.NewPaced(memdev.PacedOptions{Blocks: ioengine.BlocksFor(4*span + mib(512)), ReadRate: m.read, WriteRate: m.write, Seed: 1})
	if err != nil {
		return err
	}
	m.f, err = newFilesVolume(ctx, paced, volume.BlobOptions{Buffers: 64, Depth: 32, Ahead: 16, Spin: time.Millisecond})
	if err != nil {
		return errors.Join(err, paced.Close())
	}
	defer func() { err = errors.Join(err, m.f.close(ctx)) }()
	if m.bio, err = m.f.v.NewBlobIO(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.bio.Close()) }()
	fmt.Fprintf(o.Out, "\n%-6s %-8s %-10s %8s %8s  %-25s %s\n", "", "files", "at once", "GB/s", "raw", "files / raw [95 %]", "floor  repeated")
	for _, size := range o.SizesMiB {
		for _, op := range []device.Op{device.OpWrite, device.OpRead} {
			for _, n := range []int{1, 8} {
				if err := m.row(ctx, op, mib(size), n); err != nil {
					return err
				}
			}
		}
	}
	return m.random(ctx)
}

// row compares n readers or writers, who together move as much as the raw side.
func (m *filesOnModel) row(ctx context.Context, op device.Op, size int64, n int) error {
	total := max(size, mib(256))
	if int64(n)*size > total {
		if total = int64(n) * size; total > 2*m.io.largest() {
			return nil // more than the drive holds beside the versions that are not free yet
		}
	}
	window := pattern(1 << 20)
	work := func() (time.Duration, error) {
		start := time.Now()
		err := error(nil)
		if op == device.OpWrite {
			err = m.writeFiles(ctx, size, int(total/size), n, window)
		} else {
			err = m.readFiles(ctx, int(min(8, total/size)), int(total/size), n)
		}
		return time.Since(start), err
	}
	side := m.raw.sides[0]
	if err := side.fill(size); err != nil {
		return err
	}
	if op == device.OpRead {
		for i := range min(8, total/size) {
			if err := m.f.write(ctx, fmt.Sprint("f", i), size, 0, window, volume.LevelFresh); err != nil {
				return err
			}
		}
	}
	var ours, raws, ratios []float64
	repeated, err := undisturbed(m.o.Rounds, func(round int) (func(), error) {
		var took [2]time.Duration
		for k := range 2 {
			var err error
			if (k+round)%2 == 0 {
				took[0], err = work()
			} else {
				var t turn
				t, err = side.turnOf(op, size, total, false)
				took[1] = t.took
			}
			if err != nil {
				return nil, err
			}
		}
		return func() {
			a, b := float64(total)/took[0].Seconds(), float64(total)/took[1].Seconds()
			ours, raws, ratios = append(ours, a), append(raws, b), append(ratios, a/b)
		}, nil
	})
	if err != nil {
		return err
	}
	record(m.o.Out, Figure{
		Experiment: "files", Name: fmt.Sprintf("%s of %s, %d at once, modelled drive", opName[op], sizeName(size), n), Unit: "x", Against: "the raw engine",
		Samples: ratios, Rate: []float64{medianOf(ours) / 1e9, medianOf(raws) / 1e9}, RateUnit: "GB/s", Goal: floorOf[op], Paper: "0.96 to 0.99",
	})
	fmt.Fprintf(m.o.Out, "%-6s %-8s %-10d %8.2f %8.2f  %-25s %.2f   %d\n", opName[op], sizeName(size), n, medianOf(ours)/1e9, medianOf(raws)/1e9, bootstrap(ratios), floorOf[op], repeated)
	return nil
}

// soon is how much of a file is left when the next one begins, so that the device has something to do meanwhile.
const soon = 8 << 20

// writeFiles writes count files of size bytes, n at once, each of which is committed like any other; the last is fresh in the end.
func (m *filesOnModel) writeFiles(ctx context.Context, size int64, count, n int, window []byte) error {
	var active []*volume.BlobWriter
	begun, done := 0, 0
	for done < count {
		streaming, moved := 0, false
		for i := 0; i < len(active); i++ {
			w := active[i]
			if w.Left() > 0 {
				streaming++
				k := w.Write(window[:min(w.Left(), int64(len(window)))])
				moved = moved || k > 0
			}
			ready, err := w.Done()
			if err != nil {
				return err
			}
			if !ready {
				continue
			}
			body := w.Blob()
			_, err = m.f.s.Put(ctx, []byte(fmt.Sprint("f", done%8)), nil, files.PutOptions{Body: body}, volume.LevelEverySec)
			body.Release(0)
			if err != nil {
				return err
			}
			done++
			moved = true
			active = append(active[:i], active[i+1:]...)
			i--
		}
		if streaming < n && begun < count {
			w, err := m.bio.NewFileWriter(size, 0)
			switch {
			case err == nil:
				active = append(active, w)
				begun++
				moved = true
			case !errors.Is(err, volume.ErrBusy):
				return err
			}
		}
		if streaming < len(active) || begun > done {
			m.f.v.Step()
		}
		if !moved {
			m.bio.Wait(time.Millisecond)
		}
	}
	applied, _, _ := m.f.v.Watermarks()
	return m.f.v.Wait(ctx, applied, volume.LevelFresh)
}

// readFiles reads count files, of those that there are, n at once.
func (m *filesOnModel) readFiles(ctx context.Context, there, count, n int) error {
	var active []*volume.BlobReader
	begun, done := 0, 0
	for done < count {
		streaming, moved := 0, false
		for _, r := range active {
			if r.Left() > soon {
				streaming++
			}
		}
		for ; streaming < n && begun < count; streaming++ {
			blob, err := m.open(ctx, fmt.Sprint("f", begun%there))
			if err != nil {
				return err
			}
			r, err := m.bio.NewReader(blob, 0, blob.Size())
			blob.Release(0)
			if err != nil {
				return err
			}
			active = append(active, r)
			begun++
		}
		for i := 0; i < len(active); i++ {
			r := active[i]
			for {
				got, err := r.Next()
				if err == io.EOF {
					r.Close()
					done++
					active = append(active[:i], active[i+1:]...)
					i--
					break
				}
				if err != nil {
					return err
				}
				if len(got) == 0 {
					break
				}
				r.Consume(len(got))
				moved = true
			}
		}
		if !moved {
			m.bio.Wait(time.Millisecond)
		}
	}
	return nil
}

// open returns a file's blob, with a reference.
func (m *filesOnModel) open(ctx context.Context, name string) (blob *volume.Blob, err error) {
	err = m.f.s.Do(ctx, [][]byte{[]byte(name)}, volume.LevelFresh, func(t *keyspace.Tx) error {
		r, err := files.View(t, []byte(name), 0, -1)
		if err == nil {
			blob = r.Blob
			blob.Retain()
		}
		return err
	})
	return blob, err
}

// random compares reads of chunks of 128 KiB at random, 32 in flight.
func (m *filesOnModel) random(ctx context.Context) (err error) {
	const flight, reads = 32, 4096
	size := min(mib(512), m.io.largest())
	if err := m.f.write(ctx, "random", size, randomChunk, pattern(1<<20), volume.LevelFresh); err != nil {
		return err
	}
	blob, err := m.open(ctx, "random")
	if err != nil {
		return err
	}
	defer blob.Release(0)
	o := m.io
	o.ChunkKiB = randomChunk >> 10
	raw, err := newModelled(o, m.read, m.write, size, ioengine.Raw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.close()) }()
	if err := raw.sides[0].fill(size); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var ours, raws, ratios []float64
	if _, err := m.randomFile(blob, flight, reads, rng); err != nil { // the tree comes into memory
		return err
	}
	repeated, err := undisturbed(m.o.Rounds, func(int) (func(), error) {
		a, err := m.randomFile(blob, flight, reads, rng)
		if err != nil {
			return nil, err
		}
		b, err := raw.sides[0].random(reads, rng)
		return func() {
			ours, raws, ratios = append(ours, reads/a.Seconds()), append(raws, reads/b.Seconds()), append(ratios, b.Seconds()/a.Seconds())
		}, err
	})
	if err != nil {
		return err
	}
	record(m.o.Out, Figure{
		Experiment: "files", Name: "random reads of 128 KiB, 32 in flight, modelled drive", Unit: "x", Against: "the raw engine", Samples: ratios, Goal: 0.95,
	})
	fmt.Fprintf(m.o.Out, "random reads of 128 KiB, %d in flight: %.0f a second, raw %.0f; files / raw %s, floor 0.95; %d rounds repeated\n", flight, medianOf(ours), medianOf(raws), bootstrap(ratios), repeated)
	return nil
}

// randomFile reads chunks of a file, flight at once, from one goroutine.
func (m *filesOnModel) randomFile(blob *volume.Blob, flight, reads int, rng *rand.Rand) (took time.Duration, err error) {
	bio, err := m.f.v.NewBlobIO()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, bio.Close()) }()
	start := time.Now()
	open := make([]*volume.BlobReader, flight)
	begun, done := 0, 0
	for done < reads {
		moved := false
		for i := range open {
			if open[i] == nil && begun < reads {
				at := rng.Int64N(blob.Size()/randomChunk) * randomChunk
				if open[i], err = bio.NewReader(blob, at, at+randomChunk); err != nil {
					return 0, err
				}
				begun++
			}
			if open[i] == nil {
				continue
			}
			got, err := open[i].Next()
			if err != nil {
				return 0, err
			}
			if len(got) > 0 {
				open[i].Close()
				open[i] = nil
				done++
				moved = true
			}
		}
		if !moved {
			bio.Wait(time.Millisecond)
		}
	}
	return time.Since(start), nil
}

// random reads chunks of the side's first object at random.
func (s *ioSide) random(reads int, rng *rand.Rand) (time.Duration, error) {
	o := s.objects[0]
	r, err := s.engine.NewReader(o.key, s.chunk, o.place)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	start := time.Now()
	for asked, done := 0, 0; done < reads; {
		moved := false
		for asked < reads {
			n := rng.Uint64N(uint64(o.size) / uint64(s.chunk))
			ok, err := r.TryRead(n, o.tags[n], s.slot(s.chunk))
			if err != nil {
				return 0, err
			}
			if !ok {
				break
			}
			s.slots++
			asked++
			moved = true
		}
		for {
			got, err := r.Next()
			if err != nil {
				return 0, err
			}
			if got == nil {
				break
			}
			done++
			moved = true
		}
		if !moved {
			if _, err := s.engine.Wait(time.Millisecond); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(start), s.engine.Err()
}

// undisturbed runs rounds, and repeats those in which other processes took a processor for more than a little; what is left after the
// last attempt counts as it is. do returns what keeps the round's result.
func undisturbed(rounds int, do func(round int) (keep func(), err error)) (repeated int, err error) {
	for kept, attempt := 0, 0; kept < rounds; attempt++ {
		before, start := waited(), time.Now()
		keep, err := do(attempt)
		if err != nil {
			return repeated, err
		}
		lost := (waited() - before).Seconds() / time.Since(start).Seconds()
		if left := attemptsFactor*rounds - attempt; lost > disturbedMax && left > rounds-kept {
			repeated++
			continue
		}
		keep()
		kept++
	}
	return repeated, nil
}
