package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/epoch/wire"
	"cvmstore/internal/archive"
	"cvmstore/ioengine/filedev"
	"cvmstore/seal"
)

// backupCommand is "cvmstore backup": a copy of a live volume, sealed as it is.
type backupCommand struct {
	To        string `arg:"" help:"Directory for the copy; it must not hold one. cvmstore unseal and cvmstore restore take it."`
	Server    string `required:"" placeholder:"URL" help:"The running server: redis://[user:password@]host:port, rediss://, unix:///path. The user needs CVM.HOLD."`
	Volume    string `required:"" placeholder:"FILE" help:"The file or block device that the server has."`
	KeyFile   string `placeholder:"FILE" help:"With the owner's key the copy is opened, once, to see that it can be."`
	LogFormat string `default:"auto" enum:"auto,console,json" help:"auto: console on a terminal, json otherwise."`
}

// Run copies.
func (c *backupCommand) Run(s *streams) error {
	ctx, log, stop := s.begin(c.LogFormat)
	defer stop()
	if err := prepareDir(c.To, log); err != nil {
		return err
	}
	to := sealedDir{Dir: c.To, KeyFile: c.KeyFile}
	b := &archive.Backup{Server: c.Server, Volume: c.Volume}
	p := &progress{w: s.err, what: "copying", items: &b.Items, bytes: &b.Bytes}
	if info, err := os.Stat(c.Volume); err == nil {
		p.total = info.Size()
	}
	end := p.start()
	state, err := b.Run(ctx, to.volume())
	end()
	if err != nil {
		return err
	}
	sealed := sealedState{Store: state.Store, Generation: state.Generation, Value: state.Value, Tag: state.Tag, Bytes: b.Bytes.Load()}
	if err := writeJSON(to.at(sealedName), &sealed); err != nil {
		return err
	}
	if c.KeyFile != "" {
		if err := verifyCopy(ctx, &to, &sealed, log); err != nil {
			return fmt.Errorf("the copy cannot be opened: %w", err)
		}
	}
	fmt.Fprintf(s.out, "copied %s\nstore %s\ngeneration %d\nvalue %d\ntag %s\n", inBytes(sealed.Bytes), sealed.Store, sealed.Generation, sealed.Value, sealed.Tag)
	return nil
}

// verifyCopy opens a copy: the chain, the multiset hash and the index are checked then; values when they are read.
func verifyCopy(ctx context.Context, d *sealedDir, s *sealedState, log zerolog.Logger) error {
	keys, err := d.keys(false, "verify", log)
	if err != nil {
		return err
	}
	defer keys.Wipe()
	state, err := s.state(keys.StoreID())
	if err != nil {
		return err
	}
	store, err := openReadOnly(ctx, d.volume(), keys, epoch.Generation(s.Generation), state, log)
	if err != nil {
		return err
	}
	return store.close()
}

// restoreCommand is "cvmstore restore": an authorised rollback to a copy.
type restoreCommand struct {
	sealedDir
	registration
	From      string `arg:"" help:"Directory of the copy, as cvmstore backup or cvmstore seal made it."`
	LogFormat string `default:"auto" enum:"auto,console,json" help:"auto: console on a terminal, json otherwise."`
}

// Run puts the copy in the volume's place, and has the counter accept it. Everything that was committed since is given up.
func (c *restoreCommand) Run(s *streams) error {
	ctx, log, stop := s.begin(c.LogFormat)
	defer stop()
	if err := errors.Join(prepareDir(c.Dir, log), c.check(&c.sealedDir)); err != nil {
		return err
	}
	_ = forbidDumps(log) // it has warned
	keys, err := c.keys(false, "restore", log)
	if err != nil {
		return err
	}
	defer keys.Wipe()
	from := sealedDir{Dir: c.From}
	var state sealedState
	if err := readJSON(from.at(sealedName), &state); err != nil {
		return err
	}
	if err := c.place(ctx, &from, &state, keys, log); err != nil {
		return err
	}
	if err := c.rollBack(ctx, keys, &state); err != nil {
		return fmt.Errorf("the copy is in place, but the counter does not accept it yet: %w", err)
	}
	fmt.Fprintf(s.out, "restored: the next start opens value %d, as a new generation; what was committed after it is given up\n", state.Value)
	return nil
}

// place copies the volume beside the old one, opens it to see that it can be, and only then replaces that. A block device is written over.
func (c *restoreCommand) place(ctx context.Context, from *sealedDir, state *sealedState, keys *seal.Keys, log zerolog.Logger) error {
	want, err := state.state(keys.StoreID())
	if err != nil {
		return err
	}
	store, err := openReadOnly(ctx, from.volume(), keys, epoch.Generation(state.Generation), want, log)
	if err != nil {
		return fmt.Errorf("the copy cannot be opened: %w", err)
	}
	if err := store.close(); err != nil {
		return err
	}
	info, err := os.Stat(c.volume())
	if err == nil && info.Mode().IsRegular() { // a server that has it keeps us out
		dev, err := filedev.Open(c.volume(), filedev.Options{})
		if err != nil {
			return err
		}
		defer dev.Close() //nolint:errcheck // nothing was written
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file: copy %s onto it with dd while no server runs, then register with --volume %s", c.volume(), from.volume(), c.volume())
	}
	draft := c.volume() + ".restoring"
	if err := copyFile(ctx, from.volume(), draft); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	if err := os.Rename(draft, c.volume()); err != nil {
		return err
	}
	return syncDir(filepath.Dir(c.volume()))
}

// rollBack has the counter go to the copy's state, if it has a record, else makes one.
func (c *restoreCommand) rollBack(ctx context.Context, keys *seal.Keys, s *sealedState) error {
	store := epoch.StoreID(keys.StoreID())
	state, err := s.state(store)
	if err != nil {
		return err
	}
	switch c.Register {
	case "file":
		counter, err := epoch.NewEmbedded(c.at(counterFileName))
		if err != nil {
			return err
		}
		r, err := counter.Read(ctx, store)
		switch {
		case errors.Is(err, epoch.ErrNoRecord):
			err = counter.Recreate(ctx, store, epoch.Generation(s.Generation), state)
		case err == nil && r.Current.Tag != state.Tag:
			err = counter.RollBack(ctx, store, r.Gen, r.Current.Tag, state)
		}
		return errors.Join(err, counter.Close())
	case "service":
		at := counterAt{URL: c.Counter, Operator: c.Operator, Pin: c.Pin}
		info, err := at.storeInfo(ctx, store)
		if errors.Is(err, errRecordMissing) {
			return c.register(ctx, &c.sealedDir, keys, s)
		}
		if err != nil || info.Tag == s.Tag {
			return err
		}
		o := wire.Order{Kind: wire.OrderRollback, Store: store, Gen: epoch.Generation(info.Generation), Value: state.Value, Target: state.Tag}
		if n, err := hex.Decode(o.Tag[:], []byte(info.Tag)); err != nil || n != len(o.Tag) {
			return fmt.Errorf("the service's tag of the store: %w", err)
		}
		return c.order(ctx, o)
	}
	return nil
}
