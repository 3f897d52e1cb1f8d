package provision

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Entry is one decision in the audit log, one line of JSON. Each names the SHA-256 of the line before it, so that none can be
// changed, dropped or put in between without the end of the log showing it.
type Entry struct {
	Seq      uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Event    string    `json:"event"` // what was asked: release, create, backup, ...
	Granted  bool      `json:"granted"`
	Store    string    `json:"store,omitempty"`
	Identity string    `json:"identity,omitempty"` // of the VM's TLS key
	Check    string    `json:"check,omitempty"`    // that refused
	Reason   string    `json:"reason,omitempty"`
	Measured string    `json:"measurement,omitempty"`
	KeyStore uint64    `json:"key_store"` // the key store's number: an older one is refused
	Previous string    `json:"previous"`
}

// auditLineMax bounds one line, in bytes.
const auditLineMax = 16 << 10

// Audit is the log of a provisioner's decisions. Its methods may be called from any goroutine.
type Audit struct {
	mu   sync.Mutex
	f    *os.File
	seq  uint64
	head [sha256.Size]byte
}

// OpenAudit opens the log at path, or makes it, and checks its chain.
func OpenAudit(path string) (*Audit, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	a := &Audit{f: f}
	if a.seq, a.head, err = checkAudit(f, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log %s: %w", path, err), f.Close())
	}
	return a, nil
}

// ReadAudit checks the log at path and hands each entry to visit. It returns the hash of the last line, which whoever wants to
// know that nothing was cut off compares with one written down elsewhere.
func ReadAudit(path string, visit func(Entry)) (head [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return head, err
	}
	defer f.Close() //nolint:errcheck // only read
	_, head, err = checkAudit(f, visit)
	return head, err
}

func checkAudit(r io.Reader, visit func(Entry)) (seq uint64, head [sha256.Size]byte, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, auditLineMax)
	for lines.Scan() {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return seq, head, fmt.Errorf("line %d: %w", seq+1, err)
		}
		if e.Seq != seq+1 || e.Previous != hex.EncodeToString(head[:]) {
			return seq, head, fmt.Errorf("line %d does not follow the one before it: the log was altered", seq+1)
		}
		seq, head = e.Seq, sha256.Sum256(lines.Bytes())
		if visit != nil {
			visit(e)
		}
	}
	return seq, head, lines.Err()
}

// Append writes an entry durably. A decision counts only once this returns.
func (a *Audit) Append(e Entry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Seq, e.Time, e.Previous = a.seq+1, time.Now().UTC(), hex.EncodeToString(a.head[:])
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if len(line) >= auditLineMax {
		return fmt.Errorf("audit entry of %d bytes", len(line))
	}
	if _, err := a.f.Write(append(bytes.Clone(line), '\n')); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	if err := a.f.Sync(); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	a.seq, a.head = e.Seq, sha256.Sum256(line)
	return nil
}

// Head returns the number and the hash of the last entry.
func (a *Audit) Head() (uint64, [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seq, a.head
}

// Close closes the file.
func (a *Audit) Close() error { return a.f.Close() }
