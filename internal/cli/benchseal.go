package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/internal/archive"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
	"cvmstore/kvs/rdb"
	"cvmstore/resp"
)

// benchSeal is "cvmstore bench seal": what offline sealing costs beside the device alone.
type benchSeal struct {
	Dir   string `default:"." type:"existingdir" help:"Where to work, on the device that is meant; it needs twice the largest size."`
	Sizes string `default:"1gb,2gb,4gb,8gb" help:"How much is sealed and unsealed, in files of at most 1 GiB; several with commas."`
}

// Run prints a line a size.
func (c *benchSeal) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(s.out, "raw: the same device, engine and queue depth, plain sequential requests of 1 MiB, one flush; seal and unseal: all of it, with "+
		"opening and closing the volume\n     size  raw write       seal  ratio   raw read     unseal  ratio   seal/GB unseal/GB")
	for _, text := range strings.Split(c.Sizes, ",") {
		size, err := resp.ParseMemory(text)
		if err != nil || size < rawChunk.Bytes64() {
			return usageErrorf("--sizes %s: sizes of at least 1mb", c.Sizes)
		}
		if err := c.measure(ctx, s, size); err != nil {
			return err
		}
	}
	return nil
}

// measure takes one size.
func (c *benchSeal) measure(ctx context.Context, s *streams, size int64) (err error) {
	dir, err := os.MkdirTemp(c.Dir, "cvmstore-bench-seal-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	in := filepath.Join(dir, "in")
	if err := sparseFiles(in, size); err != nil {
		return err
	}
	raw := filepath.Join(dir, "raw")
	rawWrite, err := rawTransfer(raw, device.OpWrite, size)
	if err != nil {
		return err
	}
	seal := sealCommand{sealedDir: sealedDir{Dir: filepath.Join(dir, "sealed")}, From: in, Format: "files", As: "files"}
	if err := os.Mkdir(seal.Dir, 0o700); err != nil {
		return err
	}
	quiet := zerolog.New(s.err).Level(zerolog.WarnLevel)
	keys, err := seal.keys(true, "bench", quiet)
	if err != nil {
		return err
	}
	defer keys.Wipe()
	began := time.Now()
	state, err := seal.seal(ctx, s, keys, quiet)
	if err != nil {
		return err
	}
	sealed := time.Since(began)
	rawRead, err := rawTransfer(raw, device.OpRead, size)
	if err != nil {
		return err
	}
	want, err := state.state(epoch.StoreID(keys.StoreID()))
	if err != nil {
		return err
	}
	began = time.Now()
	store, err := openReadOnly(ctx, seal.volume(), keys, epoch.Generation(state.Generation), want, quiet)
	if err != nil {
		return err
	}
	e := &archive.Exporter{Databases: 1}
	conn, err := store.dial()
	if err == nil {
		err = e.Export(conn, discard{})
	}
	if err = errors.Join(err, store.close()); err != nil {
		return err
	}
	unsealed := time.Since(began)
	if e.Bytes.Load() != size {
		return fmt.Errorf("%d of %d bytes came back", e.Bytes.Load(), size)
	}
	gb := float64(size) / (1 << 30)
	fmt.Fprintf(s.out, "%9s %9.2fs %9.2fs %6.2f %9.2fs %9.2fs %6.2f %8.2fs %8.2fs\n", inBytes(size), rawWrite.Seconds(), sealed.Seconds(),
		rawWrite.Seconds()/sealed.Seconds(), rawRead.Seconds(), unsealed.Seconds(), rawRead.Seconds()/unsealed.Seconds(), sealed.Seconds()/gb, unsealed.Seconds()/gb)
	return nil
}

// sparseFiles makes files without blocks: reading them costs copies, and nothing of the device.
func sparseFiles(dir string, size int64) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for i := 0; size > 0; i++ {
		path := filepath.Join(dir, fmt.Sprintf("file%03d", i))
		n := min(size, 1<<30)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, n)); err != nil {
			return err
		}
		size -= n
	}
	return nil
}

// rawChunk is what one plain request moves, rawDepth how many are under way: what the engine's pipelines use.
const (
	rawChunk rawBlocks = 256
	rawDepth           = 8
	rawWait            = 30 * time.Second
)

type rawBlocks device.BlockCount

// Bytes64 is the size in bytes.
func (n rawBlocks) Bytes64() int64 { return int64(n) * device.BlockSize }

// rawTransfer moves so many bytes to or from a file, with the same device and the same growth as sealing, and nothing done to them.
func rawTransfer(path string, op device.Op, size int64) (took time.Duration, err error) {
	began := time.Now()
	dev, err := filedev.Open(path, filedev.Options{Create: true, BlocksMax: blocksUnlimited, Bulk: true, GrowBlocks: sealGrowth})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	q, err := dev.NewQueue(rawDepth + 1)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	buffers := make([][]byte, rawDepth)
	for i := range buffers {
		if buffers[i], err = dev.Alloc(device.BlockCount(rawChunk)); err != nil {
			return 0, err
		}
		defer dev.Free(buffers[i])
	}
	idle := []int{0, 1, 2, 3, 4, 5, 6, 7}[:rawDepth]
	for at := int64(0); at < size || q.Outstanding() > 0; {
		for at < size && len(idle) > 0 {
			lba := device.LBA(at / device.BlockSize)
			if done, err := dev.Reserve(device.BlockCount(lba) + device.BlockCount(rawChunk)); err != nil {
				return 0, err
			} else if !done {
				if q.Outstanding() == 0 {
					time.Sleep(time.Millisecond)
				}
				break
			}
			i := idle[len(idle)-1]
			n, err := q.Submit([]device.Request{{Op: op, LBA: lba, Buf: buffers[i], Token: uint64(i)}})
			if err != nil || n == 0 {
				return 0, errors.Join(err, errors.New("a request was not accepted"))
			}
			idle = idle[:len(idle)-1]
			at += rawChunk.Bytes64()
		}
		var done [rawDepth]device.Completion
		n, err := q.Wait(done[:], rawWait)
		if err != nil {
			return 0, err
		}
		for _, c := range done[:n] {
			if c.Err != nil {
				return 0, c.Err
			}
			idle = append(idle, int(c.Token))
		}
	}
	if op == device.OpWrite {
		if _, err := q.Submit([]device.Request{{Op: device.OpFlush}}); err != nil {
			return 0, err
		}
		var done [1]device.Completion
		if n, err := q.Wait(done[:], rawWait); err != nil || n == 0 || done[0].Err != nil {
			return 0, errors.Join(err, done[0].Err, errors.New("no flush"))
		}
	}
	return time.Since(began), nil
}

// discard takes everything and keeps nothing.
type discard struct{}

func (discard) String(_ *rdb.Part, r io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
func (discard) Command(*rdb.Part, [][]byte) error { return nil }
func (discard) Part(*rdb.Part) error              { return nil }
func (discard) File(_ []byte, _ [][]byte, r io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
func (discard) Close() error { return nil }
