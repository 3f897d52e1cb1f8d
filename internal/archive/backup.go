package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// Backup copies the volume of a running server as it lies on the device, sealed, in one committed state: what the server writes
// meanwhile is in the copy or not, and nothing after the state counts. The server keeps freed blocks from being used again until the copy
// is complete (CVM.HOLD).
type Backup struct {
	Server string // as Redis.URL
	Volume string // the file or block device that the server has
	Bytes  atomic.Int64
	Items  atomic.Int64 // always 0, for progress
}

// State is what a copy holds.
type State struct {
	Store      string
	Generation uint64
	Value      uint64
	Tag        string
}

// ErrHold: the server let go of the blocks, so that the copy may hold others.
var ErrHold = errors.New("the server did not hold its blocks for as long as the copy took; try again")

const (
	holdSeconds  = 60
	holdRenewal  = 5 * time.Second
	frontBytes   = 8192 // the superblocks
	frontTries   = 100
	copyBytes    = 1 << 20
	backupErrTry = 20 * time.Millisecond
)

// Run copies to a file, which must not exist.
func (b *Backup) Run(ctx context.Context, to string) (*State, error) {
	conn, err := Redis{URL: b.Server}.dial()
	if err != nil {
		return nil, err
	}
	e := newExporter(conn)
	defer conn.Close() //nolint:errcheck // nothing is lost
	from, err := os.Open(b.Volume)
	if err != nil {
		return nil, err
	}
	defer from.Close() //nolint:errcheck // only read
	number, state, front, err := b.front(ctx, e, from)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = b.copy(ctx, e, number, from, out, front)
	if _, endErr := e.ask("CVM.HOLD", "END"); err == nil {
		err = endErr
	}
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(to))
	}
	return state, nil
}

// front begins the hold, and reads the superblocks between two answers that name states: they are the same before and after, so they
// list every segment that the state needs, and the frame that names their manifest is within it.
func (b *Backup) front(ctx context.Context, e *Exporter, from io.ReaderAt) (uint64, *State, []byte, error) {
	before, after := make([]byte, frontBytes), make([]byte, frontBytes)
	for range frontTries {
		if _, err := from.ReadAt(before, 0); err != nil {
			return 0, nil, nil, fmt.Errorf("volume: %w", err)
		}
		number, state, err := hold(ctx, e)
		if err != nil {
			return 0, nil, nil, err
		}
		if _, err := from.ReadAt(after, 0); err != nil {
			return 0, nil, nil, fmt.Errorf("volume: %w", err)
		}
		again, _, err := hold(ctx, e)
		if err != nil {
			return 0, nil, nil, err
		}
		if again == number && bytes.Equal(before, after) {
			return number, state, before, nil
		}
	}
	return 0, nil, nil, errors.New("the volume's superblocks change all the time; try again when less is written")
}

// hold asks for a hold, or renews it.
func hold(ctx context.Context, e *Exporter) (uint64, *State, error) {
	for {
		r, err := e.ask("CVM.HOLD", fmt.Sprint(holdSeconds))
		if err != nil && errors.Is(err, ErrRefused) && bytes.Contains([]byte(err.Error()), []byte("BUSY")) {
			select {
			case <-ctx.Done():
				return 0, nil, ctx.Err()
			case <-time.After(backupErrTry):
			}
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if len(r.list) != 5 {
			return 0, nil, errReply
		}
		return uint64(r.list[0].number), &State{
			Store: string(r.list[1].text), Generation: uint64(r.list[2].number), Value: uint64(r.list[3].number), Tag: string(r.list[4].text),
		}, nil
	}
}

// copy copies everything behind the superblocks, then puts these in front: a copy that was interrupted is no volume. Blocks of zeros
// become holes.
func (b *Backup) copy(ctx context.Context, e *Exporter, number uint64, from *os.File, out *os.File, front []byte) error {
	buf, zeros := make([]byte, copyBytes), make([]byte, copyBytes)
	renewed := time.Now()
	renew := func() error {
		again, _, err := hold(ctx, e)
		if err == nil && again != number {
			err = ErrHold
		}
		renewed = time.Now()
		return err
	}
	at := int64(frontBytes)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return fmt.Errorf("volume: %w", err)
		}
		if !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		b.Bytes.Add(int64(n))
		if err == io.EOF {
			break
		}
		if time.Since(renewed) > holdRenewal {
			if err := renew(); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(out.Truncate(at), out.Sync(), renew()); err != nil {
		return err
	}
	_, err := out.WriteAt(front, 0)
	return err
}
