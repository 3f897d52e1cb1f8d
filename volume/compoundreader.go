package volume

import (
	"fmt"
	"io"
)

// compoundReader hands on a part of a compound: one reader a piece, and the next one begins ahead when the one before has asked for
// all of its chunks.
type compoundReader struct {
	io     *BlobIO
	pieces []CompoundPiece // that have no reader yet, the part that is wanted of each
	open   []*BlobReader   // of those before, in order: at most two
	at, to int64           // offset in the compound
	err    error
}

func (bio *BlobIO) newCompoundReader(b *Blob, from, to int64) *compoundReader {
	c := &compoundReader{io: bio, at: from, to: to}
	at := int64(0)
	for _, p := range b.compound.pieces {
		size := p.To - p.From
		lo, hi := max(from-at, 0), min(to-at, size)
		if lo < hi {
			c.pieces = append(c.pieces, CompoundPiece{p.Blob, p.From + lo, p.From + hi})
		}
		at += size
	}
	return c
}

// next is BlobReader.Next.
func (c *compoundReader) next() ([]byte, error) {
	switch {
	case c.err != nil:
		return nil, c.err
	case c.at == c.to:
		return nil, io.EOF
	}
	if err := c.ahead(); err != nil {
		return nil, c.fail(err)
	}
	got, err := c.open[0].Next()
	if err != nil {
		return nil, c.fail(err)
	}
	return got, nil
}

func (c *compoundReader) fail(err error) error {
	c.err = fmt.Errorf("offset %d: %w", c.at, err)
	return c.err
}

// ahead opens the reader whose turn it is, and the next one early.
func (c *compoundReader) ahead() error {
	for len(c.pieces) > 0 && (len(c.open) == 0 || len(c.open) == 1 && c.open[0].askedAll()) {
		p := c.pieces[0]
		r, err := c.io.NewReader(p.Blob, p.From, p.To)
		if err != nil {
			return err
		}
		c.open, c.pieces = append(c.open, r), c.pieces[1:]
	}
	return nil
}

func (c *compoundReader) consume(n int) {
	r := c.open[0]
	r.Consume(n)
	c.at += int64(n)
	if r.Left() == 0 {
		r.Close()
		c.open = append(c.open[:0], c.open[1:]...)
	}
}

func (c *compoundReader) suspend() {
	for _, r := range c.open {
		r.Suspend()
	}
}

func (c *compoundReader) close() {
	for _, r := range c.open {
		r.Close()
	}
	c.open, c.pieces = nil, nil
}
