package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
)

// copyFile copies a volume's file durably; blocks of zeros become holes.
func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buf, zeros, at := make([]byte, 1<<20), make([]byte, 1<<20), int64(0)
	for err == nil {
		var n int
		n, err = io.ReadFull(in, buf)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if _, werr := out.WriteAt(buf[:n], at); werr != nil {
				err = werr
			}
		}
		at += int64(n)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = out.Truncate(at)
	}
	return errors.Join(err, out.Sync(), out.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
