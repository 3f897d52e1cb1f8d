package cli

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/seal"
	"cvmstore/seal/attest/simulated"
	"cvmstore/seal/provision"
)

// provisionCommand is "cvmstore provision": the trusted party.
type provisionCommand struct {
	Serve    provisionServe    `cmd:"" help:"Release keys to VMs that the policy accepts."`
	Create   provisionCreate   `cmd:"" help:"Make the keys of a new store."`
	List     provisionList     `cmd:"" help:"List the stores."`
	Backup   provisionBackup   `cmd:"" help:"Write a copy of the sealed key store; the wrapping key is not in it."`
	Audit    provisionAudit    `cmd:"" help:"Check the audit log's chain and print it."`
	Simulate provisionSimulate `cmd:"" help:"Make a simulated platform, to try things out. It proves nothing."`
}

// provisionDir is where the party's files are.
type provisionDir struct {
	Dir  string `default:"./cvmstore-provision" help:"Directory of the sealed key store, the audit log and the party's identity; made with mode 0700 if it is missing."`
	Wrap string `placeholder:"FILE" help:"File with the key that seals the key store, mode 0600; empty: wrap in the directory. Better on another medium."`
}

const (
	wrapName       = "wrap"
	keyStoreName   = "keys.sealed"
	auditName      = "audit.jsonl"
	provisionIDPEM = "party.pem"
)

// party is the opened directory.
type party struct {
	keys  *provision.KeyStore
	audit *provision.Audit
}

func (d *provisionDir) at(name string) string { return filepath.Join(d.Dir, name) }

func (d *provisionDir) open(log zerolog.Logger) (*party, error) {
	if err := prepareDir(d.Dir, log); err != nil {
		return nil, err
	}
	wrap, err := d.wrappingKey(log)
	if err != nil {
		return nil, err
	}
	audit, err := provision.OpenAudit(d.at(auditName))
	if err != nil {
		return nil, err
	}
	var newest uint64
	if _, err := provision.ReadAudit(d.at(auditName), func(e provision.Entry) { newest = max(newest, e.KeyStore) }); err != nil {
		return nil, errors.Join(err, audit.Close())
	}
	keys, err := provision.OpenKeyStore(d.at(keyStoreName), wrap, newest)
	if err != nil {
		return nil, errors.Join(err, audit.Close())
	}
	return &party{keys, audit}, nil
}

// wrappingKey reads the key that seals the key store, or makes it if there is no key store yet.
func (d *provisionDir) wrappingKey(log zerolog.Logger) (key [32]byte, err error) {
	path := d.Wrap
	if path == "" {
		path = d.at(wrapName)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if _, statErr := os.Lstat(d.at(keyStoreName)); statErr == nil {
			return key, fmt.Errorf("the wrapping key %s is missing, but there is a key store: put it back", path)
		}
		if _, err := rand.Read(key[:]); err != nil {
			return key, err
		}
		log.Info().Str("file", path).Msg("made a new wrapping key: without it the keys of all stores are lost, keep a copy in a safe place")
		return key, writeNew(path, []byte(hex.EncodeToString(key[:])+"\n"))
	}
	if err != nil {
		return key, err
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		return key, fmt.Errorf("%s is open to others: chmod 600: %w", path, errors.Join(err, seal.ErrKeyExposed))
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || copy(key[:], b) != len(key) || len(b) != len(key) {
		return key, fmt.Errorf("%s is not a wrapping key: 64 hexadecimal digits", path)
	}
	return key, nil
}

// record writes down what an operator did.
func (p *party) record(event, store string) error {
	return p.audit.Append(provision.Entry{Event: event, Store: store, Granted: true, KeyStore: p.keys.Seq()})
}

// quietParty opens the directory for a command that says on standard error what there is to say.
func (d *provisionDir) quietParty(s *streams) (*party, error) {
	return d.open(newLog(s.err, "auto").Level(zerologLevels[defaultOptions().logLevel]))
}

type provisionCreate struct {
	provisionDir
	Name       string            `arg:"" help:"The store's name, for people."`
	Cipher     string            `default:"aegis" enum:"aegis,aes-256-gcm" help:"Its cipher; fixed from now on."`
	Counter    string            `placeholder:"URL" help:"Trusted counter service, https://HOST:PORT; several members with commas; empty: the VM's embedded counter."`
	CounterPin string            `placeholder:"FILE" help:"The counter service's file service.pin."`
	Set        map[string]string `placeholder:"NAME=VALUE" help:"Settings of the server, by the names of its flags."`
}

// Run prints the store's id.
func (c *provisionCreate) Run(s *streams) error {
	p, err := c.quietParty(s)
	if err != nil {
		return err
	}
	defer p.audit.Close() //nolint:errcheck // each entry is durable
	counter := provision.Counter{URLs: c.Counter}
	if c.Counter != "" {
		text, err := os.ReadFile(c.CounterPin)
		if err != nil {
			return usageErrorf("--counter needs --counter-pin: %w", err)
		}
		if _, err := parsePin(c.CounterPin, text); err != nil {
			return err
		}
		if _, err := url.Parse(c.Counter); err != nil {
			return usageError{err}
		}
		counter.Pin = string(text)
	}
	o := defaultOptions()
	if err := assign(&o, "--set", c.Set); err != nil {
		return err
	}
	id, err := p.keys.Create(c.Name, c.Cipher, counter, c.Set)
	if err != nil {
		return err
	}
	text := hex.EncodeToString(id[:])
	if err := p.record("create", text); err != nil {
		return err
	}
	fmt.Fprintln(s.out, text)
	return nil
}

type provisionList struct {
	provisionDir
	JSON bool `help:"As JSON."`
}

// Run prints a line a store.
func (c *provisionList) Run(s *streams) error {
	p, err := c.quietParty(s)
	if err != nil {
		return err
	}
	defer p.audit.Close() //nolint:errcheck // each entry is durable
	stores := p.keys.Stores()
	if c.JSON {
		return json.NewEncoder(s.out).Encode(stores)
	}
	var lines []string
	for id, h := range stores {
		lines = append(lines, fmt.Sprintf("%x  %-20s %s  counter %s", id, h.Name, h.Created.Format(time.DateTime), h.Counter.URLs))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintln(s.out, line)
	}
	return nil
}

type provisionBackup struct {
	provisionDir
	To string `arg:"" help:"The copy; it must not exist."`
}

// Run writes the copy.
func (c *provisionBackup) Run(s *streams) error {
	p, err := c.quietParty(s)
	if err != nil {
		return err
	}
	defer p.audit.Close() //nolint:errcheck // each entry is durable
	if err := p.keys.Backup(c.To); err != nil {
		return err
	}
	return p.record("backup", "")
}

type provisionAudit struct {
	provisionDir
}

// Run prints the log and its head.
func (c *provisionAudit) Run(s *streams) error {
	out := json.NewEncoder(s.out)
	head, err := provision.ReadAudit(c.at(auditName), func(e provision.Entry) { _ = out.Encode(e) })
	if err != nil {
		return err
	}
	fmt.Fprintf(s.err, "the chain holds; its head is %x: write it down elsewhere, it shows whether lines were cut off\n", head)
	return nil
}

type provisionSimulate struct {
	To string `arg:"" help:"Directory of the platform."`
}

// Run makes the platform.
func (c *provisionSimulate) Run(s *streams) error {
	if err := simulated.Create(c.To); err != nil {
		return err
	}
	p, err := simulated.Open(c.To)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "roots = { %s = %q }\nmeasurements = [\"%x\"]\n", simulated.Product, filepath.Join(c.To, simulated.RootsFile), p.Measurement)
	return nil
}
