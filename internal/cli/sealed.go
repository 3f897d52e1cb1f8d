package cli

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"cvmstore/epoch"
	"cvmstore/seal"
	"cvmstore/seal/provision"
)

// sealedDir says where a volume that is sealed offline lies, and where its keys come from. Without a party it is a directory as "serve
// --dir" takes it.
type sealedDir struct {
	Dir     string `default:"./cvmstore-data" help:"Directory of the volume, the key and the counter; made with mode 0700 if it is missing."`
	Volume  string `placeholder:"FILE" help:"File or block device of the volume; empty: volume.cvm in dir."`
	KeyFile string `placeholder:"FILE" help:"File with the store's master secret; empty: key in dir."`
	Party   string `placeholder:"DIR" help:"Take the keys from the trusted party's directory instead of a key file; needs --store."`
	Wrap    string `placeholder:"FILE" help:"With --party: the key that seals its key store; empty: wrap in its directory."`
	Store   string `placeholder:"HEX" help:"With --party: the store, 32 hexadecimal digits."`
}

// Files beside a volume that is sealed offline.
const (
	sealedName   = "sealed.json"     // what came out
	sealingName  = "sealing.json"    // how far it is
	sealingCount = "sealing.counter" // the simulated counter, until the real one is told
)

func (d *sealedDir) volume() string { return pathOr(d.Volume, filepath.Join(d.Dir, volumeName)) }

func (d *sealedDir) at(name string) string { return filepath.Join(d.Dir, name) }

func pathOr(path, otherwise string) string {
	if path != "" {
		return path
	}
	return otherwise
}

// keys reads the owner's keys; create: the key file is made if there is none. event is what the party's audit log will say.
func (d *sealedDir) keys(create bool, event string, log zerolog.Logger) (*seal.Keys, error) {
	if d.Party != "" {
		return d.partyKeys(event, log)
	}
	path := pathOr(d.KeyFile, d.at(keyFileName))
	keys, err := seal.ReadKeyFile(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		log.Info().Str("file", path).Msg("made a new key: without this file the data cannot be read, keep a copy in a safe place")
		return seal.CreateKeyFile(path, seal.SuiteAEGIS)
	}
	return keys, err
}

func (d *sealedDir) partyKeys(event string, log zerolog.Logger) (*seal.Keys, error) {
	var id provision.StoreID
	if err := id.UnmarshalText([]byte(d.Store)); err != nil {
		return nil, usageErrorf("--party needs --store: %w", err)
	}
	dir := provisionDir{Dir: d.Party, Wrap: d.Wrap}
	p, err := dir.open(log)
	if err != nil {
		return nil, err
	}
	defer p.audit.Close() //nolint:errcheck // each entry is durable
	keys, err := p.keys.Keys(id)
	if err != nil {
		return nil, err
	}
	return keys, p.record(event, hex.EncodeToString(id[:]))
}

// sealedState is the state that a sealed volume ends with: what the counter must be told, and what an open must find.
type sealedState struct {
	Store      string `json:"store"`
	Generation uint64 `json:"generation"`
	Value      uint64 `json:"value"`
	Tag        string `json:"tag"`
	Items      int64  `json:"items,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"`
}

func stateOf(r *epoch.Record) sealedState {
	return sealedState{
		Store: hex.EncodeToString(r.Store[:]), Generation: uint64(r.Gen), Value: uint64(r.Current.Value), Tag: hex.EncodeToString(r.Current.Tag[:]),
	}
}

// state returns what it names; it must be of the store.
func (s *sealedState) state(store epoch.StoreID) (epoch.State, error) {
	tag, err := hex.DecodeString(s.Tag)
	if err != nil || len(tag) != len(epoch.Tag{}) || s.Value == 0 {
		return epoch.State{}, errors.New("not a state: a value above 0 and a tag of 64 hexadecimal digits")
	}
	if s.Store != hex.EncodeToString(store[:]) {
		return epoch.State{}, fmt.Errorf("it is of store %s, the key of store %x", s.Store, store)
	}
	return epoch.State{Value: epoch.Counter(s.Value), Tag: epoch.Tag(tag)}, nil
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file as a whole.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	draft := path + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

// readRecord reads the embedded counter at path, which must not be in use.
func readRecord(ctx context.Context, path string, store epoch.StoreID) (epoch.Record, error) {
	c, err := epoch.NewEmbedded(path)
	if err != nil {
		return epoch.Record{}, err
	}
	r, err := c.Read(ctx, store)
	return r.Record, errors.Join(err, c.Close())
}
