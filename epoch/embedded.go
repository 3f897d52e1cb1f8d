package epoch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Errors of the embedded counter's file.
var (
	ErrLocked  = errors.New("in use by another process")
	ErrDamaged = errors.New("damaged")
)

// Embedded is a trusted counter in a file beside the volume, for development and for storage that is trusted anyway. It runs
// the same rules as a real service on every boot, but it protects against nothing that can write its file: who restores an
// old volume can restore an old counter with it.
//
// A commit costs no flush: it is a write into the page cache, made after the frame's own flush. So after a power cut the
// counter may lag behind the volume, which recovery follows forward, and it can never lead. After a kill it does neither.
// Slots make that safe: the one known to be durable is never overwritten, and neither is one that a flush is under way for
// (which is why there are three: a commit during Sync finds a free one and waits for nothing).
type Embedded struct {
	path string
	now  func() Stamp

	syncing sync.Mutex // serialises flushes; taken before mu

	mu       sync.Mutex
	file     slotFile // nil until the file exists
	newest   slot
	at       int // the slot that holds newest
	durable  int // the slot that is known to be durable
	flushing int // the slot that a flush under way was begun for, or -1
	failed   error
	closed   bool
	buf      [slotBytes]byte
}

// slotFile is a file with a page cache: WriteAt may be lost by a power cut until Datasync returned nil. It holds the lock
// until Close. Implemented by osFile, and by the tests' file that tears and forgets.
type slotFile interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Datasync() error
	Close() error
}

// NewEmbedded returns the counter kept in the file at path, and locks it if it exists: ErrLocked. A file that does not exist
// is a record that does not exist, until Create. It makes all that an earlier process wrote durable, then takes the newest
// intact slot as the state.
func NewEmbedded(path string) (*Embedded, error) {
	e := &Embedded{path: path, flushing: -1, now: wallClock}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.attachLocked(); err != nil && !errors.Is(err, ErrNoRecord) {
		return nil, err
	}
	return e, nil
}

// wallClock rounds up, so that what counts on from it in whole milliseconds is not behind the clock that clients read.
func wallClock() Stamp { return Stamp((time.Now().UnixMicro() + 999) / 1000) }

// attachLocked opens the file if that has not happened yet.
func (e *Embedded) attachLocked() error {
	switch {
	case e.closed:
		return e.errorf("closed")
	case e.failed != nil:
		return e.failed
	case e.file != nil:
		return nil
	}
	f, err := openLocked(e.path)
	if errors.Is(err, os.ErrNotExist) {
		return e.errorf("%w", ErrNoRecord)
	}
	if err != nil {
		return err
	}
	if err := e.loadLocked(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// loadLocked flushes f before it believes a slot: what it takes for the newest must not be lost by a later power cut while an
// older one is overwritten.
func (e *Embedded) loadLocked(f slotFile) error {
	if err := f.Datasync(); err != nil {
		return e.errorf("flush: %w", err)
	}
	var found [slotCount]string
	newest, at := slot{}, -1
	for i := range slotCount {
		if _, err := f.ReadAt(e.buf[:], int64(i)*slotStride); errors.Is(err, io.EOF) {
			found[i] = "cut off"
			continue
		} else if err != nil {
			return e.errorf("read slot %d: %w", i, err)
		}
		s, err := decodeSlot(e.buf[:])
		switch {
		case errors.Is(err, errSlotVersion):
			return e.errorf("slot %d is %w", i, err)
		case err != nil:
			found[i] = err.Error()
		case s.seq > newest.seq:
			newest, at = s, i
		}
	}
	if at < 0 {
		return e.errorf("%w: none of its slots is intact (%s; %s; %s). Without it a rollback of the volume cannot be told "+
			"from a crash, so the server does not start; restore the whole directory from one backup, or move it away",
			ErrDamaged, found[0], found[1], found[2])
	}
	e.file, e.newest, e.at, e.durable, e.flushing = f, newest, at, at, -1
	return nil
}

// Create implements Service. The record is durable, file and name, before it answers; a crash before that leaves no record.
func (e *Embedded) Create(ctx context.Context, store StoreID) error {
	return e.create(ctx, Record{Store: store})
}

// Recreate makes the record of a store that was prepared elsewhere, or whose record was lost: what opens it next must find exactly
// that state, and no frame after it is accepted. gen is above all that were ever opened. ErrExists.
func (e *Embedded) Recreate(ctx context.Context, store StoreID, gen Generation, state State) error {
	if state.Value == 0 || state.Tag == (Tag{}) || gen == 0 {
		return e.errorf("recreate from an empty state: %w", ErrConflict)
	}
	return e.create(ctx, Record{Store: store, Gen: gen, Current: State{Value: state.Value, Tag: state.Tag}, Floor: state.Value})
}

// RollBack carries out a rollback that the owner of this file decided on: from the state that replaced names, of a generation, to target. ErrConflict.
func (e *Embedded) RollBack(ctx context.Context, store StoreID, gen Generation, replaced Tag, target State) error {
	e.mu.Lock()
	err := e.readyLocked(ctx, store)
	if err == nil {
		var next Record
		if next, err = e.newest.rec.RolledBack(gen, replaced, target); err == nil {
			err = e.writeLocked(next)
		}
	}
	e.mu.Unlock()
	if err != nil {
		return e.errorf("%w", err)
	}
	return e.Sync(ctx)
}

func (e *Embedded) create(ctx context.Context, rec Record) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	switch err := e.attachLocked(); {
	case err == nil:
		return e.errorf("%w", ErrExists)
	case !errors.Is(err, ErrNoRecord):
		return err
	}
	first := slot{seq: 1, rec: rec}
	f, err := createLocked(e.path, func(f slotFile) error {
		image := make([]byte, fileBytes)
		encodeSlot(image[:slotBytes], first)
		if _, err := f.WriteAt(image, 0); err != nil {
			return err
		}
		return f.Datasync()
	})
	if errors.Is(err, os.ErrExist) {
		return e.errorf("%w", ErrExists)
	}
	if err != nil {
		return err
	}
	e.file, e.newest, e.at, e.durable = f, first, 0, 0
	return nil
}

// Open implements Service: the new generation is durable before it is answered.
func (e *Embedded) Open(ctx context.Context, store StoreID) (OpenReply, error) {
	var reply OpenReply
	if _, err := rand.Read(reply.Random[:]); err != nil {
		return OpenReply{}, e.errorf("random bytes: %w", err)
	}
	e.mu.Lock()
	err := e.readyLocked(ctx, store)
	if err == nil {
		reply.Record = e.newest.rec.Opened()
		err = e.writeLocked(reply.Record)
	}
	e.mu.Unlock()
	if err == nil {
		err = e.Sync(ctx)
	}
	if err != nil {
		return OpenReply{}, err
	}
	reply.Stamp = e.now()
	return reply, nil
}

// Read implements Service.
func (e *Embedded) Read(ctx context.Context, store StoreID) (ReadReply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readyLocked(ctx, store); err != nil {
		return ReadReply{}, err
	}
	return ReadReply{Record: e.newest.rec, Stamp: e.now()}, nil
}

// Commit implements Service. It writes into the page cache and calls done before it returns.
func (e *Embedded) Commit(req CommitRequest, done func(Stamp, error)) {
	if err := e.commit(req); err != nil {
		done(0, err)
		return
	}
	done(e.now(), nil)
}

func (e *Embedded) commit(req CommitRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readyLocked(context.Background(), req.Store); err != nil {
		return err
	}
	next, err := e.newest.rec.Apply(req)
	if err != nil {
		return e.errorf("%w", err)
	}
	if next == e.newest.rec {
		return nil
	}
	return e.writeLocked(next)
}

// Sync implements Service: one flush, during which commits go on.
func (e *Embedded) Sync(ctx context.Context) error {
	e.syncing.Lock()
	defer e.syncing.Unlock()
	e.mu.Lock()
	if err := ctx.Err(); err != nil {
		e.mu.Unlock()
		return err
	}
	if e.failed != nil || e.closed || e.file == nil || e.at == e.durable {
		defer e.mu.Unlock()
		if e.closed {
			return e.errorf("closed")
		}
		return e.failed
	}
	e.flushing = e.at
	e.mu.Unlock()

	err := e.file.Datasync()

	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		// The kernel may have dropped the pages that it could not write: never flush again and call it durable.
		e.failed = e.errorf("flush: %w", err)
		return e.failed
	}
	e.durable, e.flushing = e.flushing, -1
	return nil
}

// TimeBounded implements Service: the clock is the machine's, which bounds nothing.
func (e *Embedded) TimeBounded() bool { return false }

// Close flushes what was committed and frees the lock.
func (e *Embedded) Close() error {
	err := e.Sync(context.Background())
	e.syncing.Lock()
	defer e.syncing.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.file == nil {
		return err
	}
	return errors.Join(err, e.file.Close())
}

// readyLocked returns nil if the file is open and holds the record of store.
func (e *Embedded) readyLocked(ctx context.Context, store StoreID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.attachLocked(); err != nil {
		return err
	}
	if e.newest.rec.Store != store {
		return e.errorf("holds store %x, not %x: %w", e.newest.rec.Store, store, ErrNoRecord)
	}
	return nil
}

// writeLocked makes rec the newest state, in the page cache. It picks the slot that already holds an unflushed state, or else
// the first that is neither durable nor being flushed; one is always left.
func (e *Embedded) writeLocked(rec Record) error {
	next := slot{seq: e.newest.seq + 1, rec: rec}
	at := e.at
	for at == e.durable || at == e.flushing {
		at = (at + 1) % slotCount
	}
	encodeSlot(e.buf[:], next)
	if _, err := e.file.WriteAt(e.buf[:], int64(at)*slotStride); err != nil {
		e.failed = e.errorf("write slot %d: %w", at, err)
		return e.failed
	}
	e.newest, e.at = next, at
	return nil
}

func (e *Embedded) errorf(format string, args ...any) error {
	return fmt.Errorf("counter file %s: "+format, append([]any{filepath.Base(e.path)}, args...)...)
}
