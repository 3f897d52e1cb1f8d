package cli

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/remote"
	"cvmstore/epoch/service"
	"cvmstore/internal/archive"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/filedev"
	"cvmstore/ioengine/overlay"
	"cvmstore/seal"
)

// unsealCommand is "cvmstore unseal": the owner, who has the key, reads a volume. Nothing of it is changed, and no server is fenced.
type unsealCommand struct {
	sealedDir
	To        string `arg:"" help:"Where to write: a file, a directory with --format files, or - for standard output."`
	Format    string `default:"resp" enum:"resp,jsonl,files" help:"resp: commands, as redis-cli --pipe takes them; jsonl: JSON lines, as cvmstore seal takes them; files: files, and strings of database 0, by their names."`
	State     string `placeholder:"FILE" help:"Which state the volume must have: a sealed.json; empty: what the counter says."`
	Counter   string `placeholder:"URL" help:"Counter service that knows the state, https://HOST:PORT; empty: the counter in dir, else its sealed.json."`
	Operator  string `placeholder:"FILE" help:"Operator's key and certificate at the service: its operator.pem."`
	Pin       string `placeholder:"FILE" help:"The service's file service.pin."`
	LogFormat string `default:"auto" enum:"auto,console,json" help:"auto: console on a terminal, json otherwise."`
}

// Run writes everything.
func (c *unsealCommand) Run(s *streams) error {
	ctx, log, stop := s.begin(c.LogFormat)
	defer stop()
	_ = forbidDumps(log) // it has warned
	keys, err := c.keys(false, "unseal", log)
	if err != nil {
		return err
	}
	defer keys.Wipe()
	gen, state, err := c.state(ctx, keys.StoreID())
	if err != nil {
		return err
	}
	sink, closeSink, err := c.sink(s)
	if err != nil {
		return err
	}
	store, err := c.open(ctx, keys, gen, state, log)
	if err != nil {
		return err
	}
	err = export(ctx, s, store, sink)
	return errors.Join(err, store.close(), closeSink(err))
}

// state is what the volume must end with.
func (c *unsealCommand) state(ctx context.Context, store epoch.StoreID) (epoch.Generation, epoch.State, error) {
	if c.Counter != "" {
		return c.stateAtService(ctx, store)
	}
	var s sealedState
	path := c.State
	if path == "" {
		r, err := readRecord(ctx, c.at(counterFileName), store)
		if err == nil {
			return r.Gen, r.Current, nil
		}
		if !errors.Is(err, epoch.ErrNoRecord) {
			return 0, epoch.State{}, err
		}
		path = c.at(sealedName)
	}
	err := readJSON(path, &s)
	if errors.Is(err, fs.ErrNotExist) && c.State == "" {
		return 0, epoch.State{}, usageErrorf("which state must the volume have? There is no counter in %s, nor %s: name one with --state or --counter", c.Dir, path)
	}
	if err != nil {
		return 0, epoch.State{}, err
	}
	state, err := s.state(store)
	return epoch.Generation(s.Generation), state, err
}

// stateAtService asks the service, as its operator.
func (c *unsealCommand) stateAtService(ctx context.Context, store epoch.StoreID) (gen epoch.Generation, state epoch.State, err error) {
	if c.Operator == "" || c.Pin == "" {
		return 0, state, usageErrorf("--counter needs --operator and --pin")
	}
	at := counterAt{URL: c.Counter, Operator: c.Operator, Pin: c.Pin}
	info, err := at.storeInfo(ctx, store)
	if err != nil {
		return 0, state, err
	}
	s := sealedState{Store: info.Store, Generation: info.Generation, Value: info.Value, Tag: info.Tag}
	state, err = s.state(store)
	return epoch.Generation(info.Generation), state, err
}

// storeInfo reads what the service holds of one store.
func (a *counterAt) storeInfo(ctx context.Context, store epoch.StoreID) (info service.StoreInfo, err error) {
	id := hex.EncodeToString(store[:])
	// The listing begins after a name: one that is just below this store's.
	before := store
	for i := len(before) - 1; i >= 0; i-- {
		if before[i]--; before[i] != 0xff {
			break
		}
	}
	err = a.do(func(_ context.Context, c *remote.Client) error {
		var page []service.StoreInfo
		if err := c.Get(ctx, "stores", url.Values{"after": {hex.EncodeToString(before[:])}, "limit": {"1"}}, &page); err != nil {
			return err
		}
		if len(page) == 0 || page[0].Store != id {
			return fmt.Errorf("store %s: %w", id, errRecordMissing)
		}
		info = page[0]
		return nil
	})
	return info, err
}

// sink opens what is written to. What closes it is told whether all of it is there.
func (c *unsealCommand) sink(s *streams) (archive.Sink, func(error) error, error) {
	if c.Format == "files" {
		sink, err := archive.NewFiles(c.To)
		return sink, func(error) error { return nil }, err
	}
	out, finish := s.out, func(error) error { return nil }
	if c.To != "-" {
		draft := c.To + ".part"
		f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, nil, err
		}
		out, finish = f, func(failed error) error {
			if err := errors.Join(f.Sync(), f.Close()); failed != nil || err != nil {
				return errors.Join(err, os.Remove(draft))
			}
			return os.Rename(draft, c.To)
		}
	}
	w := bufio.NewWriterSize(out, 1<<20)
	if c.Format == "jsonl" {
		return &archive.Lines{W: w}, finish, nil
	}
	return &archive.RESP{W: w}, finish, nil
}

// open opens the volume with a counter that says what it must be, over memory that takes what an open writes.
func (c *unsealCommand) open(ctx context.Context, keys *seal.Keys, gen epoch.Generation, state epoch.State, log zerolog.Logger) (*offline, error) {
	return openReadOnly(ctx, c.volume(), keys, gen, state, log)
}

func openReadOnly(ctx context.Context, path string, keys *seal.Keys, gen epoch.Generation, state epoch.State, log zerolog.Logger) (*offline, error) {
	dir, err := os.MkdirTemp("", "cvmstore-counter-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the counter's file stays open, and nobody needs its name
	counter, err := epoch.NewEmbedded(filepath.Join(dir, counterFileName))
	if err != nil {
		return nil, err
	}
	err = counter.Recreate(ctx, keys.StoreID(), max(gen, 1), state)
	var below device.Device
	if err == nil {
		below, err = openDevice(ctx, func() (device.Device, error) { return filedev.Open(path, filedev.Options{}) })
	}
	if err != nil {
		return nil, errors.Join(err, counter.Close())
	}
	dev, err := overlay.New(below)
	if err != nil {
		return nil, errors.Join(err, below.Close(), counter.Close())
	}
	return openOffline(ctx, offlineOptions{dev: dev, counter: counter, keys: keys, log: log.Level(zerolog.WarnLevel)})
}

// export writes everything that a store holds.
func export(ctx context.Context, s *streams, store *offline, sink archive.Sink) error {
	conn, err := store.dial()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	e := &archive.Exporter{Databases: int(defaultOptions().server.Databases)}
	p := &progress{w: s.err, what: "unsealing", items: &e.Items, bytes: &e.Bytes}
	stop := p.start()
	err = e.Export(conn, sink)
	stop()
	if ctx.Err() != nil {
		return errors.New("interrupted: what was written is not all")
	}
	if err != nil && errors.Is(err, io.EOF) {
		return fmt.Errorf("the volume could not be read to its end: %w", err)
	}
	if err == nil {
		fmt.Fprintf(s.err, "unsealed %d items, %s\n", e.Items.Load(), inBytes(e.Bytes.Load()))
	}
	return err
}
