package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/files"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
	"cvmstore/keyspace"
	"cvmstore/seal"
	"cvmstore/volume"
)

// FilesOptions say how to measure files.
type FilesOptions struct {
	Dir        string   // for the data of all sides; default: a temporary directory in the current one
	Server     string   // our program; default: the one that runs
	Only       []string // which parts: modelled, resp, checkpoint, small, mail; none: all
	Rounds     int      // default 7
	SizesMiB   []int    // on the modelled drive; default 16, 256, 1024
	Checkpoint int      // GiB; default 8
	Small      int      // files; default 100,000
	Out        io.Writer
}

// CompareFiles measures the filesystem beside the device, beside redis-server and a socket, and beside the file system below it.
func CompareFiles(ctx context.Context, o FilesOptions) (err error) {
	o.Rounds, o.Checkpoint, o.Small = orDefault(o.Rounds, 7), orDefault(o.Checkpoint, 8), orDefault(o.Small, 100_000)
	if len(o.SizesMiB) == 0 {
		o.SizesMiB = []int{16, 256, 1024}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp(".", "cvmstore-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	parts := []struct {
		name string
		run  func(context.Context, FilesOptions) error
	}{{"modelled", filesModelled}, {"resp", filesRESP}, {"checkpoint", filesCheckpoint}, {"small", filesSmall}, {"mail", filesMail}}
	for _, p := range parts {
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		if err := p.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintln(o.Out)
	}
	return nil
}

// filesVolume is a volume with files on a device.
type filesVolume struct {
	dev device.Device
	v   *volume.Volume
	s   *files.Store
	sp  *keyspace.Space
}

func newFilesVolume(ctx context.Context, dev device.Device, blobs volume.BlobOptions) (*filesVolume, error) {
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		return nil, err
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		return nil, err
	}
	f := &filesVolume{dev: dev, sp: keyspace.New(keyspace.Options{CacheBytes: 16 << 20})}
	files.New(f.sp)
	f.v, err = volume.Open(ctx, volume.Options{
		Device: dev, Counter: counter, Keys: keys, Log: zerolog.Nop(), Blobs: blobs,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: f.sp},
	})
	if err != nil {
		return nil, err
	}
	f.sp.Attach(f.v)
	f.s = files.NewStore(f.v, f.sp)
	return f, nil
}

// filesBlocksMax bounds the volume: more than any part needs.
const filesBlocksMax = 1 << 26

// newFilesOnFile makes one in a file of a directory.
func newFilesOnFile(ctx context.Context, dir string) (*filesVolume, error) {
	dev, err := filedev.Open(filepath.Join(dir, "volume-files"), filedev.Options{Create: true, BlocksMax: filesBlocksMax})
	if err != nil {
		return nil, err
	}
	f, err := newFilesVolume(ctx, dev, volume.BlobOptions{})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return f, nil
}

func (f *filesVolume) close(ctx context.Context) error {
	return errors.Join(f.v.Close(ctx), f.dev.Close())
}

// write writes one file of size bytes from a window of memory.
func (f *filesVolume) write(ctx context.Context, name string, size int64, chunk int, window []byte, level volume.Level) (err error) {
	w, err := f.s.Create(ctx, []byte(name), size, files.CreateOptions{Chunk: chunk})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for left := size; left > 0; {
		n := min(left, int64(len(window)))
		if err := w.Write(ctx, window[:n]); err != nil {
			return err
		}
		left -= n
	}
	_, err = w.Commit(ctx, files.PutOptions{}, level)
	return err
}

// read reads all of a file, verified, and keeps nothing.
func (f *filesVolume) read(ctx context.Context, name string) (err error) {
	r, err := f.s.Open(ctx, []byte(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for left := r.Size(); left > 0; {
		got, err := r.Next(r.Size())
		if err != nil {
			return err
		}
		left -= int64(len(got))
		r.Consume(len(got))
	}
	return nil
}

// each runs f for n workers at once and returns how long all took.
func each(n int, f func(worker int) error) (time.Duration, error) {
	errs := make([]error, n)
	var all sync.WaitGroup
	start := time.Now()
	for i := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			errs[i] = f(i)
		}()
	}
	all.Wait()
	return time.Since(start), errors.Join(errs...)
}

// pattern is memory to write from.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}
