package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/seal"
	"cvmstore/volume"
)

// Errors of a directory whose parts do not fit together.
var (
	errKeyMissing     = errors.New("the key file is missing")
	errCounterMissing = errors.New("the counter file is missing")
	errRecordMissing  = errors.New("the counter service has no record")
	errExposed        = errors.New("refused: plaintext connections beyond loopback")
)

// parts is what a store consists of, besides the volume.
type parts struct {
	keys    *seal.Keys
	counter epoch.Service
	record  epoch.Record
	remote  *remoteCounter // nil: the counter is embedded

	provisioned *provisioned // nil: the keys are a file of this machine
}

func (p *parts) close() error {
	p.keys.Wipe()
	return p.counter.Close()
}

// prepare makes or opens the directory, the key file and the counter, in this order, and volume.Open makes the volume after
// them (DESIGN.md 6.5). Each is there whole or not at all, so a crash in between leaves a directory that starts: what is
// missing then is everything after some point of this order. Anything else that is missing was taken away, and is refused.
func prepare(ctx context.Context, o *options, log zerolog.Logger) (*parts, error) {
	if err := prepareDir(o.server.Dir, log); err != nil {
		return nil, err
	}
	p := new(parts)
	var err error
	if o.provision != "" {
		p.provisioned, err = provisionKeys(ctx, o, log)
		if err == nil {
			p.keys = p.provisioned.keys
			took := &p.provisioned.took
			o.startup.end("identity", phase{"challenge", took.Challenge}, phase{"attest", took.Attest}, phase{"release", took.Release})
		}
	} else {
		p.keys, err = prepareKeys(o, log)
	}
	if err != nil {
		return nil, err
	}
	o.startup.end("keys")
	if err := p.openCounter(o, log); err != nil {
		p.keys.Wipe()
		return nil, err
	}
	if err := p.prepareRecord(ctx, o, log); err != nil {
		return nil, errors.Join(err, p.close())
	}
	o.startup.end("counter")
	return p, nil
}

func prepareDir(dir string, log zerolog.Logger) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the directory: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("--dir %s is not a directory", dir)
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		log.Warn().Str("dir", dir).Stringer("mode", info.Mode().Perm()).
			Msg("others on this machine can replace the files in this directory; consider: chmod 700")
	}
	return nil
}

// prepareKeys reads the key file, or makes it if nothing else of a store is there.
func prepareKeys(o *options, log zerolog.Logger) (*seal.Keys, error) {
	keys, err := seal.ReadKeyFile(o.keyPath())
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	if _, err := os.Lstat(o.counterPath()); o.counterURL == "" && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s, but there is a counter file %s", errKeyMissing, o.keyPath(), o.counterPath())
	}
	if blank, err := o.volumeIsBlank(); err != nil {
		return nil, err
	} else if !blank && o.formatOver != o.volumePath() {
		return nil, fmt.Errorf("%w: %s, but there is a volume %s", errKeyMissing, o.keyPath(), o.volumePath())
	}
	keys, err = seal.CreateKeyFile(o.keyPath(), o.cipher)
	if errors.Is(err, fs.ErrExist) { // another server was faster; its lock on the counter decides who goes on
		return seal.ReadKeyFile(o.keyPath())
	}
	if err != nil {
		return nil, err
	}
	log.Info().Str("file", o.keyPath()).Str("cipher", keys.Suite()).Msg("made a new key: without this file the data cannot be read, keep a copy in a safe place")
	return keys, nil
}

// prepareRecord reads the counter's record of the store, or makes it if there is no volume yet.
func (p *parts) prepareRecord(ctx context.Context, o *options, log zerolog.Logger) error {
	store := epoch.StoreID(p.keys.StoreID())
	blank, err := o.volumeIsBlank()
	if err != nil {
		return err
	}
	r, err := p.counter.Read(ctx, store)
	if err == nil {
		p.record = r.Record
		if r.Current.Value > 0 && blank {
			return fmt.Errorf("the volume %s is missing or blank (its counter: 0), but the trusted counter is at %d: %w",
				o.volumePath(), r.Current.Value, volume.ErrRollback)
		}
		return nil
	}
	if !errors.Is(err, epoch.ErrNoRecord) {
		return err
	}
	if _, statErr := os.Lstat(o.counterPath()); p.remote == nil && !errors.Is(statErr, fs.ErrNotExist) {
		return err // the file is there, and is another store's
	}
	if !blank && o.formatOver != o.volumePath() {
		if p.remote != nil {
			return fmt.Errorf("%w: of store %x, but there is a volume %s", errRecordMissing, store, o.volumePath())
		}
		return fmt.Errorf("%w: %s, but there is a volume %s", errCounterMissing, o.counterPath(), o.volumePath())
	}
	if err := p.counter.Create(ctx, store); err != nil {
		return err
	}
	p.record = epoch.Record{Store: store}
	log.Info().Str("at", p.counterName(o)).Msg("made a new counter")
	return nil
}

// blankBytes is how much of the front of a volume isBlank looks at; the superblocks lie there.
const blankBytes = 64 << 10

// isBlank says whether nothing was ever written at the front of the file or block device at path; a missing one is blank.
func isBlank(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("volume: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	front := make([]byte, blankBytes)
	n, err := io.ReadFull(f, front)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, fmt.Errorf("volume: %w", err)
	}
	for _, b := range front[:n] {
		if b != 0 {
			return false, nil
		}
	}
	return true, nil
}
