package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/seal"
	"cvmstore/volume"
)

// ScaleOptions say how many keys to load, and what holds the volume.
type ScaleOptions struct {
	Keys  []int  // each is a volume of its own; default 1, 3 and 10 million
	Value int    // bytes of a value; default 100
	Dir   string // default: a temporary directory here
	Self  string // this program, which the bench runs as the process that it kills
	Out   io.Writer
}

const (
	scaleKeyBytes = 16
	scaleBatch    = 64 // keys that one transaction of the load sets
)

// Scale loads volumes of several sizes and restarts each after a clean stop and after kill -9. It prints how long that took, by
// phase, what was read from the device, and the memory that the index takes.
func Scale(ctx context.Context, o ScaleOptions) error {
	if len(o.Keys) == 0 {
		o.Keys = []int{1_000_000, 3_000_000, 10_000_000}
	}
	o.Value = orDefault(o.Value, 100)
	fmt.Fprintf(o.Out, "keys of %d bytes, values of %d; read: from the device, at start; memory: beyond the key, no value cached\n", scaleKeyBytes, o.Value)
	fmt.Fprintf(o.Out, "%10s %-10s %8s %8s %9s %8s %8s %12s %14s\n", "keys", "after", "start", "chain", "summaries", "settle", "opening", "read/key", "memory/key")
	for _, n := range o.Keys {
		if err := scaleOne(ctx, &o, n); err != nil {
			return fmt.Errorf("%d keys: %w", n, err)
		}
	}
	return nil
}

func scaleOne(ctx context.Context, o *ScaleOptions, keys int) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "cvmstore-scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := makeStore(ctx, dir); err != nil {
		return err
	}
	began := time.Now()
	load, err := startLoader(ctx, o, dir, keys, false)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := load.finish(); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%10d loaded in %.1f s: %.0f keys a second\n", keys, took.Seconds(), float64(keys)/took.Seconds())
	if err := scaleStart(ctx, o, dir, keys, "clean stop"); err != nil {
		return err
	}
	if load, err = startLoader(ctx, o, dir, keys, true); err != nil {
		return err
	}
	if err := load.kill(); err != nil {
		return err
	}
	return scaleStart(ctx, o, dir, keys, "kill -9")
}

// scaleStart opens the volume, prints what that cost, and closes it.
func scaleStart(ctx context.Context, o *ScaleOptions, dir string, keys int, after string) error {
	before := heap()
	began := time.Now()
	s, err := openStore(ctx, dir, -1)
	if err != nil {
		return err
	}
	took := time.Since(began)
	st := s.v.Status()
	var t keyspace.Tx
	s.space.BeginAll(&t, 0)
	have := t.DBSize()
	t.End()
	if have != keys {
		return fmt.Errorf("%d keys after the start, want %d", have, keys)
	}
	memory := float64(heap()-before)/float64(keys) - scaleKeyBytes
	r := st.Recovery
	fmt.Fprintf(o.Out, "%10d %-10s %7.2fs %7.2fs %8.2fs %7.2fs %7.2fs %9.1f B %11.1f B\n", keys, after, took.Seconds(),
		r.Chain.Seconds(), r.Summaries.Seconds(), r.Settle.Seconds(), r.Opening.Seconds(), float64(r.BytesRead)/float64(keys), memory)
	name := fmt.Sprintf("%d million keys, %s", keys/1_000_000, after)
	if keys < 1_000_000 {
		name = fmt.Sprintf("%d keys, %s", keys, after)
	}
	bound := 10.0 // seconds, of ten million keys
	if keys != 10_000_000 {
		bound = 0
	}
	record(o.Out, Figure{Experiment: "scale", Name: "restart, " + name, Unit: "s", Value: took.Seconds(), Goal: bound, AtMost: true, Paper: "reads all entries"})
	record(o.Out, Figure{Experiment: "scale", Name: "read at restart, " + name, Unit: "B a key", Value: float64(r.BytesRead) / float64(keys), Goal: 100, AtMost: true})
	record(o.Out, Figure{Experiment: "scale", Name: "memory, " + name, Unit: "B a key", Value: memory, Goal: 100, AtMost: true})
	return s.close(ctx)
}

// store is a volume in a directory, opened in this process.
type store struct {
	dev     device.Device
	counter epoch.Service
	space   *keyspace.Space
	v       *volume.Volume
}

func makeStore(ctx context.Context, dir string) error {
	keys, err := seal.CreateKeyFile(filepath.Join(dir, "key"), seal.SuiteAEGIS)
	if err != nil {
		return err
	}
	counter, err := epoch.NewEmbedded(filepath.Join(dir, "counter"))
	if err != nil {
		return err
	}
	return errors.Join(counter.Create(ctx, epoch.StoreID(keys.StoreID())), counter.Close())
}

// openStore opens it with so many bytes of values cached, in a file that may grow.
func openStore(ctx context.Context, dir string, cache int64) (*store, error) {
	return openStoreSized(ctx, dir, cache, 1<<30, 0)
}

func openStoreSized(ctx context.Context, dir string, cache int64, blocks, segment device.BlockCount) (*store, error) {
	keys, err := seal.ReadKeyFile(filepath.Join(dir, "key"))
	if err != nil {
		return nil, err
	}
	s := &store{}
	if s.counter, err = epoch.NewEmbedded(filepath.Join(dir, "counter")); err != nil {
		return nil, err
	}
	if s.dev, err = openFree(filepath.Join(dir, "volume"), blocks); err != nil {
		return nil, errors.Join(err, s.counter.Close())
	}
	s.space = keyspace.New(keyspace.Options{CacheBytes: cache})
	s.v, err = volume.Open(ctx, volume.Options{
		Device: s.dev, Counter: s.counter, Keys: keys, Log: zerolog.Nop(), SegmentBlocks: segment,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: s.space},
	})
	if err != nil {
		return nil, errors.Join(err, s.dev.Close(), s.counter.Close())
	}
	s.space.Attach(s.v)
	return s, nil
}

// openFree opens a volume's file, whose lock the kernel holds until the last write of a process before has ended.
func openFree(path string, blocks device.BlockCount) (device.Device, error) {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		dev, err := filedev.Open(path, filedev.Options{Create: true, BlocksMax: blocks})
		if !errors.Is(err, device.ErrLocked) || time.Since(began) > 5*time.Second {
			return dev, err
		}
	}
}

func (s *store) close(ctx context.Context) error {
	return errors.Join(s.v.Close(ctx), s.dev.Close(), s.counter.Close())
}

// setMany sets keys to values in one transaction, and waits only where the volume does not take it yet.
func (s *store) setMany(ctx context.Context, t *keyspace.Tx, keys, pairs [][]byte) error {
	for {
		s.space.Begin(t, 0, keys)
		err := kvs.MSet(t, pairs)
		t.End()
		if !errors.Is(err, volume.ErrBusy) {
			return err
		}
		if err := s.v.WaitMove(ctx); err != nil {
			return err
		}
	}
}

// scaleKey writes the 16 bytes of key i.
func scaleKey(key []byte, i int) { copy(key, fmt.Sprintf("key:%012d", i)) }

// ScaleLoad is the process that Scale starts: it loads the keys, or with again writes a hundredth of them anew, says so, and closes
// the volume when its standard input ends. Until then it can be killed.
func ScaleLoad(ctx context.Context, dir string, keys, value int, again bool, in io.Reader, out io.Writer) error {
	s, err := openStore(ctx, dir, -1)
	if err != nil {
		return err
	}
	n := keys
	if again {
		n = keys / 100
	}
	var t keyspace.Tx
	names, pairs := make([][]byte, scaleBatch), make([][]byte, 2*scaleBatch)
	for i := range names {
		names[i] = make([]byte, scaleKeyBytes)
		pairs[2*i], pairs[2*i+1] = names[i], make([]byte, value)
	}
	for i := 0; i < n; i += scaleBatch {
		m := min(scaleBatch, n-i)
		for j := range m {
			k := i + j
			if again {
				k = int(uint64(k) * 0x9e3779b1 % uint64(keys))
			}
			scaleKey(names[j], k)
			copy(pairs[2*j+1], names[j])
		}
		if err := s.setMany(ctx, &t, names[:m], pairs[:2*m]); err != nil {
			return err
		}
	}
	applied, _, _ := s.v.Watermarks()
	if err := s.v.Wait(ctx, applied, volume.LevelFresh); err != nil {
		return err
	}
	fmt.Fprintln(out, "loaded")
	_, _ = io.Copy(io.Discard, in)
	return s.close(ctx)
}

// loader is a running ScaleLoad.
type loader struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startLoader(ctx context.Context, o *ScaleOptions, dir string, keys int, again bool) (*loader, error) {
	args := []string{"bench", "scale-load", "--dir", dir, "--keys", strconv.Itoa(keys), "--value", strconv.Itoa(o.Value)}
	if again {
		args = append(args, "--again")
	}
	cmd := exec.CommandContext(ctx, o.Self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "loaded\n" {
		return nil, errors.Join(fmt.Errorf("the loading process said %q", line), err, cmd.Process.Kill(), cmd.Wait())
	}
	return &loader{cmd, in}, nil
}

// finish lets it close the volume.
func (l *loader) finish() error {
	if err := l.in.Close(); err != nil {
		return err
	}
	return l.cmd.Wait()
}

// kill is kill -9.
func (l *loader) kill() error {
	if err := l.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = l.cmd.Wait() // "signal: killed" is what we asked for
	return nil
}
