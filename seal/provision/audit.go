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
	"math"
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

// Audit is the log of a provisioner's decisions. Its methods may be called from any goroutine, and other processes may append to the
// same file: the service runs while an operator gives commands.
type Audit struct {
	mu  sync.Mutex
	f   *os.File
	end auditEnd
}

// auditEnd is how far a log has been checked.
type auditEnd struct {
	seq    uint64
	head   [sha256.Size]byte
	offset int64
}

// OpenAudit opens the log at path, or makes it, and checks its chain.
func OpenAudit(path string) (*Audit, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	a := &Audit{f: f}
	if err = lockFile(f); err == nil {
		err = a.end.check(f, nil)
		unlockFile(f)
	}
	if err != nil {
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
	defer f.Close()                     //nolint:errcheck // only read
	if err := lockFile(f); err != nil { // so that no line is read in half
		return head, err
	}
	defer unlockFile(f)
	var end auditEnd
	err = end.check(f, visit)
	return end.head, err
}

// check goes on to the end of the file.
func (a *auditEnd) check(f io.ReaderAt, visit func(Entry)) error {
	lines := bufio.NewScanner(io.NewSectionReader(f, a.offset, math.MaxInt64-a.offset))
	lines.Buffer(nil, auditLineMax)
	for lines.Scan() {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %d: %w", a.seq+1, err)
		}
		if e.Seq != a.seq+1 || e.Previous != hex.EncodeToString(a.head[:]) {
			return fmt.Errorf("line %d does not follow the one before it: the log was altered", a.seq+1)
		}
		a.seq, a.head, a.offset = e.Seq, sha256.Sum256(lines.Bytes()), a.offset+int64(len(lines.Bytes()))+1
		if visit != nil {
			visit(e)
		}
	}
	return lines.Err()
}

// Append writes an entry durably. A decision counts only once this returns.
func (a *Audit) Append(e Entry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := lockFile(a.f); err != nil {
		return err
	}
	defer unlockFile(a.f)
	if err := a.end.check(a.f, nil); err != nil { // what others appended
		return fmt.Errorf("audit log: %w", err)
	}
	e.Seq, e.Time, e.Previous = a.end.seq+1, time.Now().UTC(), hex.EncodeToString(a.end.head[:])
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
	a.end.seq, a.end.head, a.end.offset = e.Seq, sha256.Sum256(line), a.end.offset+int64(len(line))+1
	return nil
}

// Head returns the number and the hash of the last entry.
func (a *Audit) Head() (uint64, [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end.seq, a.end.head
}

// Close closes the file.
func (a *Audit) Close() error { return a.f.Close() }
