package volume

import (
	"fmt"

	"cvmstore/epoch"
)

// # Compound
//
// A blob may be made of parts of other blobs, each sealed on its own, at another time, perhaps in another run: that is a file, whose
// parts came one by one. It carries attributes, which mean nothing here. Its pointer:
//
//	 0   8  size, bytes: the sum of its pieces   truncation, extension
//	 8   8  generation that made it
//	16  32  a hash of generation and number      its name in memory
//	48   1  zero
//	49   1  2
//	50   2  zero
//	52   4  length of the attributes
//	56   4  number of pieces
//	60   4  number of parts
//	64   a  attributes
//	  24*n  pieces, in order: part 4, zero 4, offset in it 8, length 8
//	        parts: length 4, pointer
//
// A compound holds a reference to each of its parts; they have the blocks. It is not made of compounds.
type compound struct {
	attrs  []byte
	parts  []*Blob
	pieces []CompoundPiece
}

// CompoundPiece is a part of a compound: the bytes from From up to To of a blob.
type CompoundPiece struct {
	Blob     *Blob
	From, To int64
}

const (
	compoundAttrs  = 52
	compoundPieces = 56
	compoundParts  = 60
	compoundHeader = 64
	compoundPiece  = 24

	compoundAttrsMax = 1 << 20
	compoundPartsMax = 1 << 16
)

func isCompound(p []byte) bool { return len(p) >= compoundHeader && p[blobChunk+1] == blobCompound }

// Compound makes a blob of pieces of others, which are on the device, flushed, and which the caller protects by references. The caller
// gets a reference to the compound. ErrTooLarge: its pointer would be longer than a record.
func (v *Volume) Compound(attrs []byte, pieces ...CompoundPiece) (*Blob, error) {
	c := &compound{attrs: append([]byte(nil), attrs...), pieces: append([]CompoundPiece(nil), pieces...)}
	b := &Blob{v: v, gen: v.gen, refs: 1, compound: c}
	known := make(map[*Blob]bool, len(pieces))
	for i := range pieces {
		p := &pieces[i]
		if p.From < 0 || p.From >= p.To || p.To > p.Blob.size || p.Blob.compound != nil {
			panic("internal error: a piece that is no part of a blob")
		}
		b.size += p.To - p.From
		if !known[p.Blob] {
			known[p.Blob] = true
			c.parts = append(c.parts, p.Blob)
		}
	}
	if len(pieces) == 0 || len(c.parts) > compoundPartsMax || len(attrs) > compoundAttrsMax || c.size() > v.MaxRecord() {
		return nil, fmt.Errorf("%d parts in %d pieces: %w", len(c.parts), len(pieces), ErrTooLarge)
	}
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range c.parts {
		p.refs++
	}
	// Its name seals nothing, so it need not come from the generator, which is the leader's: that lock must not be taken here, inside
	// of a batch.
	for b.ID() == 0 || t.live[b.ID()] != nil {
		t.compounds++
		name := le.AppendUint64(le.AppendUint64([]byte("compound"), uint64(v.gen)), t.compounds)
		v.ItemHash(storeVolume, name, 0).put(b.life[:])
	}
	t.live[b.ID()] = b
	return b, nil
}

// Attrs returns what a compound was made with; nil for another blob. It must not be changed.
func (b *Blob) Attrs() []byte {
	if b.compound == nil {
		return nil
	}
	return b.compound.attrs
}

// Pieces returns of what a compound is made, in order.
func (b *Blob) Pieces() []CompoundPiece {
	if b.compound == nil {
		return nil
	}
	return b.compound.pieces
}

func (c *compound) chunkBytes() (n int) {
	for _, p := range c.parts {
		n = max(n, p.ChunkBytes())
	}
	return n
}

func (c *compound) size() int {
	n := compoundHeader + len(c.attrs) + compoundPiece*len(c.pieces)
	for _, p := range c.parts {
		n += 4 + p.PointerSize()
	}
	return n
}

// put writes what follows the name into a pointer.
func (c *compound) put(p []byte) {
	clear(p[blobChunk:compoundHeader])
	p[blobChunk+1] = blobCompound
	le.PutUint32(p[compoundAttrs:], uint32(len(c.attrs)))
	le.PutUint32(p[compoundPieces:], uint32(len(c.pieces)))
	le.PutUint32(p[compoundParts:], uint32(len(c.parts)))
	p = p[compoundHeader:]
	p = p[copy(p, c.attrs):]
	number := make(map[*Blob]uint32, len(c.parts))
	for i, b := range c.parts {
		number[b] = uint32(i)
	}
	for i := range c.pieces {
		x := &c.pieces[i]
		le.PutUint64(p[0:], uint64(number[x.Blob]))
		le.PutUint64(p[8:], uint64(x.From))
		le.PutUint64(p[16:], uint64(x.To-x.From))
		p = p[compoundPiece:]
	}
	for _, b := range c.parts {
		n := b.PointerSize()
		le.PutUint32(p, uint32(n))
		b.PutPointer(p[4 : 4+n])
		p = p[4+n:]
	}
}

// rawCompound is a decoded pointer whose parts are not adopted yet.
type rawCompound struct {
	Blob
	parts []*Blob
	of    []int // of each piece, the part
}

// decodeCompound reads a pointer. It verified as part of a record, but perhaps a later version wrote it, so everything is checked.
func decodeCompound(p []byte) (*rawCompound, error) {
	whole := len(p)
	bad := func(what string) (*rawCompound, error) {
		return nil, fmt.Errorf("compound pointer of %d bytes: %s: %w", whole, what, ErrCorrupt)
	}
	if !isCompound(p) || p[blobChunk] != 0 || !zero(p[blobCount:compoundAttrs]) {
		return bad("malformed")
	}
	c := &compound{}
	b := &rawCompound{Blob: Blob{size: int64(le.Uint64(p[blobSize:])), gen: epoch.Generation(le.Uint64(p[blobGen:])), compound: c}}
	copy(b.life[:], p[blobLife:])
	attrs, pieces, parts := int(le.Uint32(p[compoundAttrs:])), int(le.Uint32(p[compoundPieces:])), int(le.Uint32(p[compoundParts:]))
	p = p[compoundHeader:]
	if b.ID() == 0 || b.size <= 0 || attrs > len(p) || pieces > (len(p)-attrs)/compoundPiece || pieces == 0 || parts > compoundPartsMax {
		return bad("lengths")
	}
	c.attrs = append([]byte(nil), p[:attrs]...)
	p = p[attrs:]
	list := p[:pieces*compoundPiece]
	for p = p[len(list):]; len(b.parts) < parts; {
		if len(p) < 4 || int(le.Uint32(p)) > len(p)-4 {
			return bad("part")
		}
		n := int(le.Uint32(p))
		part, err := decodeBlob(p[4 : 4+n])
		if err != nil {
			return nil, err
		}
		b.parts = append(b.parts, part)
		p = p[4+n:]
	}
	if len(p) > 0 {
		return bad("parts")
	}
	return b, b.readPieces(list)
}

// readPieces checks that the pieces lie in the parts and add up to the size.
func (b *rawCompound) readPieces(list []byte) error {
	left := b.size
	for ; len(list) > 0; list = list[compoundPiece:] {
		n, from, length := le.Uint64(list[0:]), int64(le.Uint64(list[8:])), int64(le.Uint64(list[16:]))
		if n >= uint64(len(b.parts)) {
			return fmt.Errorf("compound pointer: no part %d: %w", n, ErrCorrupt)
		}
		size := b.parts[n].size
		if from < 0 || length <= 0 || from > size || length > size-from || length > left {
			return fmt.Errorf("compound pointer: a piece outside its part: %w", ErrCorrupt)
		}
		left -= length
		b.of = append(b.of, int(n))
		b.compound.pieces = append(b.compound.pieces, CompoundPiece{From: from, To: from + length})
	}
	if left != 0 {
		return fmt.Errorf("compound pointer: %d bytes are missing: %w", left, ErrCorrupt)
	}
	return nil
}

// adoptCompound is AdoptBlob.
func (v *Volume) adoptCompound(pointer []byte) (*Blob, error) {
	raw, err := decodeCompound(pointer)
	if err != nil {
		return nil, err
	}
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	b, err := t.adoptLocked(v, &raw.Blob)
	if err != nil || b != &raw.Blob {
		return b, err // known already, with its parts
	}
	for _, p := range raw.parts {
		part, err := t.adoptLocked(v, p)
		if err != nil {
			return nil, err // recovery ends here
		}
		b.compound.parts = append(b.compound.parts, part)
	}
	for i, n := range raw.of {
		b.compound.pieces[i].Blob = b.compound.parts[n]
	}
	return b, nil
}
