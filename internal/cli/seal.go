package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/internal/archive"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
	"cvmstore/seal"
)

// sealCommand is "cvmstore seal": the owner writes a volume where no counter service and no confidential VM is needed.
type sealCommand struct {
	sealedDir
	registration
	From       string `arg:"" help:"What is sealed: an RDB file, an append-only file or its directory, JSON lines, a directory of files, or a running Redis: redis://[:password@]host:port, rediss://, unix:///path."`
	Format     string `default:"auto" enum:"auto,rdb,aof,jsonl,files" help:"What From is; auto: by its name and its first bytes."`
	As         string `default:"files" enum:"files,strings" help:"What a directory's files become: files of the store, or strings."`
	FormatOver string `placeholder:"FILE" help:"Make the volume over data that is not cvmstore's: must be the volume's path."`
	LogFormat  string `default:"auto" enum:"auto,console,json" help:"auto: console on a terminal, json otherwise."`
}

// sealing is the file that says how far a volume is.
type sealing struct {
	Source string `json:"source"` // with size and time of a file
	Items  int64  `json:"items"`
}

// Run seals, and registers what came out.
func (c *sealCommand) Run(s *streams) error {
	ctx, log, stop := s.begin(c.LogFormat)
	defer stop()
	if err := prepareDir(c.Dir, log); err != nil {
		return err
	}
	if err := c.registration.check(&c.sealedDir); err != nil {
		return err
	}
	_ = forbidDumps(log) // it has warned
	keys, err := c.keys(true, "seal", log)
	if err != nil {
		return err
	}
	defer keys.Wipe()
	state, err := c.seal(ctx, s, keys, log)
	if err != nil {
		return err
	}
	if err := c.register(ctx, &c.sealedDir, keys, state); err != nil {
		return fmt.Errorf("the volume is sealed, but not registered (%s says what to register): %w", c.at(sealedName), err)
	}
	fmt.Fprintf(s.out, "sealed %d items, %s\nstore %s\ngeneration %d\nvalue %d\ntag %s\n",
		state.Items, inBytes(state.Bytes), state.Store, state.Generation, state.Value, state.Tag)
	return nil
}

// seal writes the volume, or goes on with one that was interrupted. When it is complete, its state stands in a file; a later call returns that.
func (c *sealCommand) seal(ctx context.Context, s *streams, keys *seal.Keys, log zerolog.Logger) (*sealedState, error) {
	done := new(sealedState)
	if err := readJSON(c.at(sealedName), done); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			log.Info().Msg("this volume is sealed already: only what is left to register is done")
		}
		return done, err
	}
	source, name, total, err := c.source(func(msg string) { log.Warn().Msg(msg) })
	if err != nil {
		return nil, err
	}
	at, err := c.begin(ctx, keys, name)
	if err != nil {
		return nil, err
	}
	store, err := c.open(ctx, keys, log)
	if err != nil {
		return nil, err
	}
	items, bytes, err := c.load(ctx, s, store, source, at, total)
	if err = errors.Join(err, store.close()); err != nil {
		return nil, err
	}
	record, err := readRecord(ctx, c.at(sealingCount), keys.StoreID())
	if err != nil {
		return nil, err
	}
	*done = stateOf(&record)
	done.Items, done.Bytes = items, bytes
	if err := writeJSON(c.at(sealedName), done); err != nil {
		return nil, err
	}
	return done, errors.Join(os.Remove(c.at(sealingName)), os.Remove(c.at(sealingCount)))
}

// source finds out what From is. total is its size in bytes, 0 if unknown.
func (c *sealCommand) source(warn func(string)) (source archive.Source, name string, total int64, err error) {
	for _, scheme := range []string{"redis://", "rediss://", "unix://"} {
		if strings.HasPrefix(c.From, scheme) {
			return archive.Redis{URL: c.From}, "", 0, nil
		}
	}
	info, err := os.Stat(c.From)
	if err != nil {
		return nil, "", 0, err
	}
	format := c.Format
	if format == "auto" {
		if format, err = guessFormat(c.From, info); err != nil {
			return nil, "", 0, err
		}
	}
	name = fmt.Sprintf("%s %s %d %v", format, absolute(c.From), info.Size(), info.ModTime().UTC())
	switch format {
	case "aof":
		return archive.AOF{Path: c.From, Warn: warn}, "", 0, nil
	case "files":
		err := filepath.WalkDir(c.From, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				total += info.Size()
			}
			return err
		})
		return archive.Dir{Path: c.From, Strings: c.As == "strings", Warn: warn}, fmt.Sprintf("files %s %d as %s", absolute(c.From), total, c.As), total, err
	}
	f, err := os.Open(c.From) // it ends with the process
	if err != nil {
		return nil, "", 0, err
	}
	in := bufio.NewReaderSize(f, 1<<20)
	if format == "rdb" {
		return archive.RDB{In: in}, name, 0, nil
	}
	return archive.JSONLines{In: in}, name, 0, nil
}

func guessFormat(path string, info fs.FileInfo) (string, error) {
	if info.IsDir() {
		if found, err := filepath.Glob(filepath.Join(path, "*.manifest")); err != nil || len(found) > 0 {
			return "aof", err
		}
		return "files", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, 5)
	n, _ := f.Read(head)
	switch ext := filepath.Ext(path); {
	case ext == ".aof" || ext == ".manifest" || n > 0 && head[0] == '*':
		return "aof", nil
	case string(head[:n]) == "REDIS":
		return "rdb", nil
	case ext == ".jsonl" || n > 0 && head[0] == '{':
		return "jsonl", nil
	}
	return "", usageErrorf("%s: what is it? Say so with --format", path)
}

// begin returns how many items an earlier run has loaded. A source that is not repeatable (name is empty), or has changed, begins anew, on
// a volume of its own.
func (c *sealCommand) begin(ctx context.Context, keys *seal.Keys, name string) (int64, error) {
	var s sealing
	err := readJSON(c.at(sealingName), &s)
	if err == nil && (name == "" || s.Source != name) {
		return 0, fmt.Errorf("an earlier run was interrupted, and this source cannot be taken up again where it was, or has changed: "+
			"remove %s, %s and %s, and begin anew", c.volume(), c.at(sealingName), c.at(sealingCount))
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return s.Items, err
	}
	blank, err := isBlank(c.volume())
	if err != nil {
		return 0, err
	}
	if !blank && c.FormatOver != c.volume() {
		return 0, fmt.Errorf("%s is there already: a volume is sealed once; choose another one: %w", c.volume(), fs.ErrExist)
	}
	counter, err := epoch.NewEmbedded(c.at(sealingCount))
	if err != nil {
		return 0, err
	}
	err = counter.Create(ctx, epoch.StoreID(keys.StoreID()))
	if err = errors.Join(err, counter.Close()); err != nil {
		return 0, err
	}
	return 0, writeJSON(c.at(sealingName), sealing{Source: name})
}

// sealGrowth is in what steps a volume grows that is sealed: 256 MiB.
const sealGrowth device.BlockCount = 1 << 16

// open opens the volume with the simulated counter.
func (c *sealCommand) open(ctx context.Context, keys *seal.Keys, log zerolog.Logger) (*offline, error) {
	counter, err := epoch.NewEmbedded(c.at(sealingCount))
	if err != nil {
		return nil, err
	}
	dev, err := openDevice(ctx, func() (device.Device, error) {
		return filedev.Open(c.volume(), filedev.Options{Create: true, BlocksMax: blocksUnlimited, Bulk: true, GrowBlocks: sealGrowth, Warn: func(msg string) { log.Warn().Msg(msg) }})
	})
	if err != nil {
		return nil, errors.Join(err, counter.Close())
	}
	return openOffline(ctx, offlineOptions{
		dev: dev, counter: counter, keys: keys, foreign: c.FormatOver == c.volume(), log: log.Level(zerolog.WarnLevel),
	})
}

// load sends the source's items to the volume.
func (c *sealCommand) load(ctx context.Context, s *streams, store *offline, source archive.Source, at, total int64) (items, bytes int64, err error) {
	conn, err := store.dial()
	if err != nil {
		return 0, 0, err
	}
	l := archive.NewLoader(conn)
	defer l.Abort()
	l.Skip = at
	var was sealing
	if err := readJSON(c.at(sealingName), &was); err != nil {
		return 0, 0, err
	}
	if was.Source != "" {
		l.Checkpoint = func(items int64) error {
			return writeJSON(c.at(sealingName), sealing{Source: was.Source, Items: items})
		}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	p := &progress{w: s.err, what: "sealing", total: total, items: &l.Items, bytes: &l.Bytes}
	defer p.start()()
	if err = source.Load(l); err == nil {
		err = l.Close()
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted; the same command goes on where it was")
	}
	return l.Items.Load(), l.Bytes.Load(), err
}
