package volume

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"cvmstore/internal/mutant"
)

// Piece is a part of what a Transfer moves: bytes, zeros, or a part of a blob.
type Piece struct {
	Bytes    []byte // stay as they are until the transfer is done, unless Lent
	Lent     bool   // Bytes are valid during NewTransfer only, which copies them
	Zeros    int64  // so many zeros
	Blob     *Blob  // the bytes from From up to To of it
	From, To int64
}

// Size returns the piece's length in bytes.
func (p *Piece) Size() int64 {
	switch {
	case p.Blob != nil:
		return p.To - p.From
	case p.Bytes != nil:
		return int64(len(p.Bytes))
	}
	return p.Zeros
}

// Transfer moves pieces, one after the other, into memory or into a new blob, in memory that does not depend on their size. It is
// what commands ask for that work on blobs: they run under locks and do no I/O.
type Transfer struct {
	Source []Piece
	Into   []byte // private memory as long as all pieces; nil: a new blob is written

	check bool // read, verify, keep nothing
	file  bool // the new blob is a file's
	chunk int  // and has such chunks; 0: by its size

	blob    *Blob // the new blob, once it is done
	err     error
	done    bool
	size    int64
	piece   int
	off     int64 // bytes of the piece that were moved
	r       *BlobReader
	w       *BlobWriter
	started time.Duration
	tell    func(*Transfer)
}

// NewTransfer makes a transfer into memory (load), or into a new blob. It takes a reference to each blob of its source, which
// Free gives back.
func NewTransfer(load bool, source ...Piece) *Transfer {
	t := &Transfer{Source: source}
	for i := range source {
		if source[i].Lent {
			source[i].Bytes, source[i].Lent = bytes.Clone(source[i].Bytes), false
		}
		if b := source[i].Blob; b != nil && !mutant.On(mutant.FreeBlobUnderReader) {
			b.Retain()
		}
		t.size += source[i].Size()
	}
	if load {
		t.Into = make([]byte, t.size)
	}
	return t
}

// NewFileTransfer makes a transfer into a new blob that is a part of a file (BlobIO.NewFileWriter).
func NewFileTransfer(chunk int, source ...Piece) *Transfer {
	t := NewTransfer(false, source...)
	t.file, t.chunk = true, chunk
	return t
}

// NewCheck makes a transfer that reads and verifies, and keeps nothing.
func NewCheck(source ...Piece) *Transfer {
	t := NewTransfer(false, source...)
	t.check = true
	return t
}

// Size returns how many bytes are moved.
func (t *Transfer) Size() int64 { return t.size }

// Done reports whether the transfer has ended, and how: ErrFull, ErrCorrupt, or what else ended it.
func (t *Transfer) Done() (bool, error) { return t.done, t.err }

// Fail ends a transfer that was never started.
func (t *Transfer) Fail(err error) { t.done, t.err = true, err }

// Blob returns the blob that was written. The reference is the transfer's.
func (t *Transfer) Blob() *Blob { return t.blob }

// Free gives back all references. The transfer has ended, or was never started.
func (t *Transfer) Free() {
	for i := range t.Source {
		if b := t.Source[i].Blob; b != nil && !mutant.On(mutant.FreeBlobUnderReader) {
			b.Release(0)
		}
	}
	t.Source = nil
	if t.blob != nil {
		t.blob.Release(0)
		t.blob = nil
	}
}

// Start begins a transfer. tell, if not nil, is called by a Step when it has ended.
func (bio *BlobIO) Start(t *Transfer, tell func(*Transfer)) {
	t.tell, t.started = tell, bio.v.clock.Monotonic()
	bio.transfers = append(bio.transfers, t)
}

// Cancel ends a transfer that somebody started and nobody waits for any more, without telling.
func (bio *BlobIO) Cancel(t *Transfer) {
	for i, x := range bio.transfers {
		if x == t {
			bio.transfers = append(bio.transfers[:i], bio.transfers[i+1:]...)
			t.stop(bio)
			t.done, t.err = true, ErrClosed
			return
		}
	}
}

// stepTransfers moves all transfers on, each by a few chunks, and takes leave of those that have ended.
func (bio *BlobIO) stepTransfers() (moved bool) {
	for i := 0; i < len(bio.transfers); i++ {
		t := bio.transfers[i]
		progress, err := t.step(bio)
		moved = moved || progress
		if err == nil && !t.done {
			continue
		}
		moved = true
		t.done, t.err = true, err
		t.stop(bio)
		bio.transfers = append(bio.transfers[:i], bio.transfers[i+1:]...)
		i--
		if t.tell != nil {
			t.tell(t)
		}
	}
	return moved
}

const (
	// transferTurn bounds the chunks that a transfer moves in one step, so that others get their turn.
	transferTurn = 4
	// transferWait bounds how long a transfer waits for blocks that were freed to be free.
	transferWait = 30 * time.Second
)

func (t *Transfer) step(bio *BlobIO) (moved bool, err error) {
	if t.Into == nil && t.w == nil && !t.check {
		w, err := t.newWriter(bio)
		switch {
		case err == ErrBusy && bio.v.clock.Monotonic()-t.started < transferWait:
			return false, nil
		case err == ErrBusy:
			return false, fmt.Errorf("blocks that were freed are still in use: %w", ErrFull)
		case err != nil:
			return false, err
		}
		t.w = w
	}
	for range transferTurn {
		n, err := t.move(bio)
		if err != nil {
			return moved, err
		}
		if n == 0 {
			break
		}
		moved = true
	}
	if t.piece < len(t.Source) {
		return moved, nil
	}
	if t.w == nil {
		t.done = true
		return true, nil
	}
	done, err := t.w.Done()
	if done {
		t.blob, t.w, t.done = t.w.Blob(), nil, true
	}
	return moved || done, err
}

func (t *Transfer) newWriter(bio *BlobIO) (*BlobWriter, error) {
	if t.file {
		return bio.NewFileWriter(t.size, t.chunk)
	}
	return bio.NewWriter(t.size)
}

// zeroPiece is what pieces of zeros are made of.
var zeroPiece [64 << 10]byte

// move moves up to a chunk, and returns how many bytes: 0 if it must wait, or nothing is left.
func (t *Transfer) move(bio *BlobIO) (n int, err error) {
	for t.piece < len(t.Source) {
		p := &t.Source[t.piece]
		left := p.Size() - t.off
		if left == 0 {
			t.closeReader()
			t.piece++
			t.off = 0
			continue
		}
		from, err := t.source(bio, p, left)
		if err != nil || len(from) == 0 {
			return 0, err
		}
		if n = t.give(from); n == 0 {
			if t.w != nil {
				_, err = t.w.Done()
			}
			return 0, err
		}
		if p.Blob != nil {
			t.r.Consume(n)
		}
		t.off += int64(n)
		return n, nil
	}
	return 0, nil
}

// source returns bytes of the piece from off on, none if they are still on their way.
func (t *Transfer) source(bio *BlobIO, p *Piece, left int64) (from []byte, err error) {
	switch {
	case p.Blob != nil:
		if t.r == nil {
			if t.r, err = bio.NewReader(p.Blob, p.From, p.To); err != nil {
				return nil, err
			}
		}
		if from, err = t.r.Next(); err == io.EOF {
			panic("internal error: a piece ended early")
		}
		return from, err
	case p.Bytes != nil:
		return p.Bytes[t.off:], nil
	}
	return zeroPiece[:min(left, int64(len(zeroPiece)))], nil
}

func (t *Transfer) give(from []byte) int {
	switch {
	case t.check:
		return len(from)
	case t.w != nil:
		return t.w.Write(from)
	}
	at := t.off
	for i := range t.piece {
		at += t.Source[i].Size()
	}
	return copy(t.Into[at:], from)
}

func (t *Transfer) closeReader() {
	if t.r != nil {
		t.r.Close()
		t.r = nil
	}
}

// stop gives back what a transfer that ends holds.
func (t *Transfer) stop(*BlobIO) {
	t.closeReader()
	if t.w != nil {
		t.w.Abandon()
		t.w = nil
	}
}

// idleMax bounds the BlobIOs that library users leave to each other.
const idleMax = 4

// DoTransfer runs a transfer and waits for it, for library users; it leads the committer if nobody does. The caller frees the
// transfer. After an error of the context the transfer has ended, too.
func (v *Volume) DoTransfer(ctx context.Context, t *Transfer) error {
	bio, err := v.borrowIO()
	if err != nil {
		t.Fail(err)
		return err
	}
	defer v.returnIO(bio)
	bio.Start(t, nil)
	for !t.done {
		if err := ctx.Err(); err != nil {
			bio.Cancel(t)
			return err
		}
		if !bio.Wait(time.Millisecond) && bio.e.Outstanding() == 0 && !v.Step() {
			time.Sleep(50 * time.Microsecond) // the flush, or the room, is not there yet
		}
		v.Step()
	}
	return t.err
}

// Load runs a transfer into memory inside the open batch, at the cost of everybody's time.
func (t *Tx) Load(x *Transfer) error {
	bio, err := t.v.borrowIO()
	if err != nil {
		x.Fail(err)
		return err
	}
	defer t.v.returnIO(bio)
	bio.Start(x, nil)
	for !x.done { // the engine bounds how long the device may take
		bio.Wait(time.Millisecond)
	}
	return x.err
}

func (v *Volume) borrowIO() (*BlobIO, error) {
	p := &v.blobs
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		bio := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return bio, nil
	}
	p.mu.Unlock()
	return v.NewBlobIO()
}

func (v *Volume) returnIO(bio *BlobIO) {
	p := &v.blobs
	p.mu.Lock()
	if len(p.idle) < idleMax && bio.e.Err() == nil && v.Err() == nil {
		p.idle = append(p.idle, bio)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if err := bio.Close(); err != nil {
		v.log.Warn().Err(err).Msg("blob engine")
	}
}
