package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Store is the filesystem for programs that embed it: it blocks where the server's event loop would go on with something else. Use it
// from any goroutine.
type Store struct {
	v     *volume.Volume
	space *keyspace.Space
	txs   sync.Pool
}

// NewStore returns the files of a space, which New was called with, and which is attached to v. It owns neither.
func NewStore(v *volume.Volume, space *keyspace.Space) *Store {
	return &Store{v: v, space: space, txs: sync.Pool{New: func() any { return new(keyspace.Tx) }}}
}

// Do runs functions of this package on names as one transaction: it fetches what they miss, tries again when the volume is busy,
// and waits until what they saw has reached level. f may be run several times; what it returns from the transaction it copies.
func (s *Store) Do(ctx context.Context, names [][]byte, level volume.Level, f func(t *keyspace.Tx) error) error {
	t := s.txs.Get().(*keyspace.Tx)
	defer s.txs.Put(t)
	defer t.Forget()
	for {
		s.space.Begin(t, s.space.Private(keyspace.PrivateFiles), names)
		err := f(t)
		t.End()
		switch {
		case errors.Is(err, keyspace.ErrMiss):
			err = s.supply(ctx, t)
		case errors.Is(err, volume.ErrBusy):
			err = s.v.WaitMove(ctx)
		default:
			if wait := s.v.Wait(ctx, t.Seen(), level); wait != nil {
				return wait
			}
			return err
		}
		if err != nil {
			return err
		}
	}
}

// supply reads and writes what a function asked for.
func (s *Store) supply(ctx context.Context, t *keyspace.Tx) error {
	for _, m := range t.Misses() {
		payload, err := s.v.Read(ctx, m)
		if errors.Is(err, volume.ErrMoved) { // by compaction, since it looked: it finds the new place
			continue
		}
		if err != nil {
			return err
		}
		t.Supply(m.At, payload)
	}
	for _, job := range t.Jobs() {
		if err := s.v.DoTransfer(ctx, job); err != nil && ctx.Err() != nil {
			return err
		} // any other error it finds when it runs again
	}
	return nil
}

// Put makes a file of bytes in memory, and returns when that has reached level; done is false if a condition did not hold. An error
// of the context, or of a wait, leaves open whether it did.
func (s *Store) Put(ctx context.Context, name, data []byte, o PutOptions, level volume.Level) (done bool, err error) {
	err = s.Do(ctx, [][]byte{name}, level, func(t *keyspace.Tx) error {
		done, err = Put(t, name, data, o)
		return err
	})
	return done, err
}

// Delete deletes a file, and says whether it existed.
func (s *Store) Delete(ctx context.Context, name []byte, level volume.Level) (existed bool, err error) {
	err = s.Do(ctx, [][]byte{name}, level, func(t *keyspace.Tx) error {
		n, err := Delete(t, [][]byte{name})
		existed = n > 0
		return err
	})
	return existed, err
}

// Verify reads all of a file from the device and checks it.
func (s *Store) Verify(ctx context.Context, name []byte) error {
	return s.Do(ctx, [][]byte{name}, volume.LevelFresh, func(t *keyspace.Tx) error {
		_, err := Verify(t, name)
		return err
	})
}

// Writer writes one file of known size, in order, in memory that does not depend on it. One goroutine uses it.
type Writer struct {
	s    *Store
	name []byte
	io   *volume.BlobIO
	w    *volume.BlobWriter
}

// CreateOptions of a Writer.
type CreateOptions struct {
	Chunk int // bytes; 0: by the size
}

// Create begins a file of size bytes, at least 1. Nobody sees it before Commit. Close it in any case.
func (s *Store) Create(ctx context.Context, name []byte, size int64, o CreateOptions) (*Writer, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	bio, err := s.v.NewBlobIO()
	if err != nil {
		return nil, err
	}
	w := &Writer{s: s, name: append([]byte(nil), name...), io: bio}
	for {
		w.w, err = bio.NewFileWriter(size, o.Chunk)
		if err == nil {
			return w, nil
		}
		if !errors.Is(err, volume.ErrBusy) {
			break
		}
		if err = s.v.WaitMove(ctx); err != nil {
			break
		}
	}
	return nil, errors.Join(err, bio.Close())
}

// Write writes the next bytes.
func (w *Writer) Write(ctx context.Context, p []byte) error {
	if int64(len(p)) > w.w.Left() {
		return fmt.Errorf("file %q: %d bytes more than it was to have", w.name, int64(len(p))-w.w.Left())
	}
	for len(p) > 0 {
		n := w.w.Write(p)
		p = p[n:]
		if n == 0 {
			if _, err := w.w.Done(); err != nil {
				return err
			}
			if err := w.pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !w.io.Wait(time.Millisecond) {
		w.s.v.Step()
	}
	return nil
}

// Commit makes the file that of its name, once all bytes were written, over what the name had, and returns when that has reached
// level.
func (w *Writer) Commit(ctx context.Context, o PutOptions, level volume.Level) (done bool, err error) {
	for {
		ready, err := w.w.Done()
		if err != nil {
			return false, err
		}
		if ready {
			break
		}
		if w.w.Left() > 0 {
			return false, fmt.Errorf("file %q: %d bytes are missing", w.name, w.w.Left())
		}
		if err := w.pause(ctx); err != nil {
			return false, err
		}
		w.s.v.Step() // the flush
	}
	o.Body = w.w.Blob()
	defer func() {
		o.Body.Release(0)
		w.w = nil
	}()
	return w.s.Put(ctx, w.name, nil, o, level)
}

// Close ends the writer. What was not committed never was.
func (w *Writer) Close() error {
	if w.w != nil {
		w.w.Abandon()
		w.w = nil
	}
	return w.io.Close()
}

// File is an open file: it stays what it was, whatever becomes of its name, until Close. One goroutine uses it.
type File struct {
	name []byte
	size int64
	data []byte // of a small one
	blob *volume.Blob
	io   *volume.BlobIO
	ctx  context.Context
	r    *volume.BlobReader
	at   int64
}

// Open opens a file for reading; the context bounds all reads of it.
func (s *Store) Open(ctx context.Context, name []byte) (*File, error) {
	f := &File{name: append([]byte(nil), name...), ctx: ctx}
	err := s.Do(ctx, [][]byte{name}, volume.LevelFresh, func(t *keyspace.Tx) error {
		f.drop()
		r, err := View(t, name, 0, -1)
		if err == nil && !r.OK {
			err = ErrNoFile
		}
		if err != nil {
			return err
		}
		f.size, f.data, f.blob = r.Size(), r.Bytes, r.Blob
		if f.blob != nil {
			f.blob.Retain()
		}
		return nil
	})
	if err == nil && f.blob != nil {
		f.io, err = s.v.NewBlobIO()
	}
	if err != nil {
		f.drop()
		return nil, err
	}
	return f, nil
}

func (f *File) drop() {
	if f.blob != nil {
		f.blob.Release(0)
		f.blob = nil
	}
}

// Size returns the length in bytes.
func (f *File) Size() int64 { return f.size }

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, ErrOffset
	}
	if f.r != nil && offset != f.at {
		f.r.Close()
		f.r = nil
	}
	f.at = offset
	return offset, nil
}

// Read implements io.Reader: it reads ahead, and returns only what has verified.
func (f *File) Read(p []byte) (int, error) {
	if f.at >= f.size {
		return 0, io.EOF
	}
	if f.blob == nil {
		n := copy(p, f.data[f.at:])
		f.at += int64(n)
		return n, nil
	}
	got, err := f.Next(f.size)
	if err != nil {
		return 0, err
	}
	n := copy(p, got)
	f.Consume(n)
	return n, nil
}

// Next returns verified bytes that come next, at least one, without copying them; to is where the caller will stop. Only of a file
// that is more than one record.
func (f *File) Next(to int64) ([]byte, error) {
	if f.r == nil {
		r, err := f.io.NewReader(f.blob, f.at, min(to, f.size))
		if err != nil {
			return nil, err
		}
		f.r = r
	}
	for {
		got, err := f.r.Next()
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", f.name, err)
		}
		if len(got) > 0 {
			return got, nil
		}
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		f.io.Wait(time.Millisecond)
	}
}

// Consume says that n bytes of what Next returned are done with.
func (f *File) Consume(n int) {
	f.r.Consume(n)
	f.at += int64(n)
	if f.r.Left() == 0 {
		f.r.Close()
		f.r = nil
	}
}

// ReadAt reads len(p) bytes from off on, only the chunks that they lie in, or as many as there are and io.EOF.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	if f.blob == nil {
		return io.ReadFull(f, p)
	}
	end := min(off+int64(len(p)), f.size)
	for f.at < end {
		got, err := f.Next(end)
		if err != nil {
			return n, err
		}
		k := copy(p[n:], got)
		f.Consume(k)
		n += k
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close ends the reads of the file.
func (f *File) Close() error {
	if f.r != nil {
		f.r.Close()
		f.r = nil
	}
	f.drop()
	if f.io == nil {
		return nil
	}
	return f.io.Close()
}
