package provision

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cvmstore/seal"
)

// KeyStore holds the keys of the stores, in one sealed file:
//
//	0   8  magic "CVMPROV1"
//	8  32  salt, fresh random a write       nonce reuse: the key is derived from it
//	40  8  sequence number of this write    an older file, if the medium below is trusted less than the audit log
//	48 ..  AES-256-GCM of the content, nonce 0, the 48 bytes before as associated data
//
// The key is HKDF-SHA-256 of the wrapping key, which the party keeps elsewhere. Against the rollback of this file: the audit log
// names the newest sequence number, and a file below it is refused. Whoever rolls back both goes unnoticed here; that is
// what an operator writes the log's head down for.
//
// Several processes may use it: the service runs while an operator gives commands. A change locks a file beside it and begins with
// what the file holds then; what is read is read anew when the file has changed.
type KeyStore struct {
	path string
	wrap [32]byte

	mu     sync.Mutex
	seq    uint64
	stores map[StoreID]*Held
}

// Held is one store's entry.
type Held struct {
	Name    string            `json:"name"`
	Key     []byte            `json:"key"` // the key file's text
	Created time.Time         `json:"created"`
	Born    bool              `json:"born"` // the counter has its record
	Counter Counter           `json:"counter"`
	Setting map[string]string `json:"settings,omitempty"`
}

const (
	storeMagic   = "CVMPROV1"
	storeHeader  = 48
	storeFileMax = 64 << 20
	wrapLabel    = "cvmstore provisioner key store v1"
)

// Errors of a key store.
var (
	ErrUnknownStore = errors.New("the provisioner has no keys of this store")
	ErrStoreDamaged = errors.New("the key store does not open with this wrapping key: another key, or it was altered")
	ErrStoreOld     = errors.New("the key store is older than the audit log: it was rolled back")
)

// OpenKeyStore reads the file at path, or starts an empty one. atLeast is the newest sequence number that is known elsewhere.
func OpenKeyStore(path string, wrap [32]byte, atLeast uint64) (*KeyStore, error) {
	k := &KeyStore{path: path, wrap: wrap, stores: map[StoreID]*Held{}, seq: atLeast}
	err := k.load()
	if errors.Is(err, fs.ErrNotExist) && atLeast == 0 {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// load reads the file, which must not be older than what is known.
func (k *KeyStore) load() error {
	path := k.path
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	if len(b) < storeHeader || len(b) > storeFileMax || string(b[:8]) != storeMagic {
		return fmt.Errorf("key store %s: %w", path, ErrStoreDamaged)
	}
	plain, err := k.aead([32]byte(b[8:40])).Open(nil, make([]byte, 12), b[storeHeader:], b[:storeHeader])
	if err != nil {
		return fmt.Errorf("key store %s: %w", path, ErrStoreDamaged)
	}
	defer clear(plain)
	seq := binary.LittleEndian.Uint64(b[40:])
	if seq < k.seq {
		return fmt.Errorf("key store %s: number %d, but %d is known: %w", path, seq, k.seq, ErrStoreOld)
	}
	stores := map[StoreID]*Held{}
	if err := json.Unmarshal(plain, &stores); err != nil {
		return fmt.Errorf("key store %s: %w", path, ErrStoreDamaged) // nothing of it belongs into an error
	}
	k.seq, k.stores = seq, stores
	return nil
}

// refreshLocked reads the file anew if another process has changed it. If that fails, what was read before stays in use.
func (k *KeyStore) refreshLocked() error {
	f, err := os.Open(k.path)
	if errors.Is(err, fs.ErrNotExist) && k.seq == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var head [storeHeader]byte
	if _, err := io.ReadFull(f, head[:]); err == nil && binary.LittleEndian.Uint64(head[40:]) == k.seq {
		return nil
	}
	return k.load()
}

// aead seals one file: its key is used once, so that the nonce may be zero.
func (k *KeyStore) aead(salt [32]byte) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, k.wrap[:], salt[:], wrapLabel, 32)
	if err != nil {
		panic("internal error: HKDF: " + err.Error())
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("internal error: AES: " + err.Error())
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic("internal error: GCM: " + err.Error())
	}
	return gcm
}

// Seq is the number of the newest write.
func (k *KeyStore) Seq() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seq
}

// Change changes the stores and writes the file durably, whole or not at all. If it fails, nothing was changed.
func (k *KeyStore) Change(do func(map[StoreID]*Held) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	lock, err := os.OpenFile(k.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	defer lock.Close() //nolint:errcheck // it holds nothing; closing unlocks it
	if err := lockFile(lock); err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	if err := k.refreshLocked(); err != nil {
		return err
	}
	next := map[StoreID]*Held{}
	for id, h := range k.stores {
		c := *h
		next[id] = &c
	}
	if err := do(next); err != nil {
		return err
	}
	if err := k.write(k.path, next, k.seq+1); err != nil {
		return err
	}
	k.seq, k.stores = k.seq+1, next
	return nil
}

// Backup writes a copy to another path, which must not exist.
func (k *KeyStore) Backup(path string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refreshLocked(); err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return k.write(path, k.stores, k.seq)
}

func (k *KeyStore) write(path string, stores map[StoreID]*Held, seq uint64) error {
	plain, err := json.Marshal(stores)
	if err != nil {
		return err
	}
	defer clear(plain)
	b := make([]byte, storeHeader, storeHeader+len(plain)+16)
	copy(b, storeMagic)
	if _, err := rand.Read(b[8:40]); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b[40:], seq)
	b = k.aead([32]byte(b[8:40])).Seal(b, make([]byte, 12), plain, b[:storeHeader])
	draft := path + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(draft, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Create makes the keys of a new store.
func (k *KeyStore) Create(name, cipher string, counter Counter, settings map[string]string) (StoreID, error) {
	keys, err := seal.GenerateKeys(cipher)
	if err != nil {
		return StoreID{}, err
	}
	defer keys.Wipe()
	id := StoreID(keys.StoreID())
	return id, k.Change(func(stores map[StoreID]*Held) error {
		for _, h := range stores {
			if h.Name == name {
				return fmt.Errorf("there is a store %q already", name)
			}
		}
		stores[id] = &Held{Name: name, Key: keys.Text(), Created: time.Now().UTC(), Counter: counter, Setting: settings}
		return nil
	})
}

// Stores returns what is held, without the keys.
func (k *KeyStore) Stores() map[StoreID]Held {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := map[StoreID]Held{}
	for id, h := range k.stores {
		c := *h
		c.Key = nil
		list[id] = c
	}
	return list
}

// release returns what a VM of the store gets.
func (k *KeyStore) release(id StoreID) (*Release, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refreshLocked(); err != nil {
		return nil, false, err
	}
	h := k.stores[id]
	if h == nil {
		return nil, false, ErrUnknownStore
	}
	return &Release{KeyFile: h.Key, Counter: h.Counter, Setting: h.Setting}, h.Born, nil
}

// Keys returns a store's keys, for the party's own use: to seal and unseal its data offline. The caller wipes them.
func (k *KeyStore) Keys(id StoreID) (*seal.Keys, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refreshLocked(); err != nil {
		return nil, err
	}
	h := k.stores[id]
	if h == nil {
		return nil, ErrUnknownStore
	}
	return seal.ParseKeys(h.Key)
}
