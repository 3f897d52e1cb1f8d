package volume

import (
	"fmt"

	"cvmstore/epoch"
	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// # Blob
//
// The ciphertext of a blob's chunks, each as long as its plaintext, fills its extents in order, and a chunk may go on in the next
// one; the rest of the last block is zero. Nothing else lies there. Chunks have 2^n bytes, the last one what is left. Tags and places
// stand in the pointer, which is part of a record and sealed with it:
//
//	0    8  size of the plaintext, bytes     truncation, extension
//	8    8  generation                       enters the key
//	16  32  random bytes (its life)          enters the key: another blob, or an older one at the same place
//	48   1  n: chunks of 2^n bytes
//	49   1  what it is: 0 as here, 1 with a tree, 2 made of others (compound.go)
//	50   2  number of extents
//	52   4  zero
//	56 16*e extents: first block 8, blocks 8  data served from another place does not verify
//	   16*c tags, one a chunk                altered, torn, swapped or missing data
//
// With a tree (blobtree.go) its nodes stand in the blocks behind the chunks', and the tags are those of the top nodes.
//
// A pointer is self-contained: with it and the key source the blob can be read, so
// compaction moves the pointer and leaves the blob where it is.
const (
	blobSize    = 0
	blobGen     = 8
	blobLife    = 16
	blobChunk   = 48
	blobCount   = 50
	blobExtents = 56
	blobExtent  = 16

	blobPlain    = 0
	blobWithTree = 1
	blobCompound = 2

	blobExtentsMax  = 64
	blobSizeMax     = 1 << 50
	blobChunkLogMin = 12 // a block
	blobChunkLogMax = 20
)

func chunksOf(size int64, log uint8) int { return int((size + 1<<log - 1) >> log) }

// pointerSize is what a pointer takes.
func pointerSize(extents, chunks int) int { return blobExtents + extents*blobExtent + chunks*tagSize }

// PointerSize returns the size of the blob's pointer in bytes.
func (b *Blob) PointerSize() int {
	if b.compound != nil {
		return b.compound.size()
	}
	return pointerSize(len(b.extents), b.tagCount())
}

// tagCount is how many tags the pointer has.
func (b *Blob) tagCount() int {
	if b.tree {
		return treeOf(b.chunks()).top()
	}
	return b.chunks()
}

// PutPointer writes the pointer, which others read with AdoptBlob, into p.
func (b *Blob) PutPointer(p []byte) {
	le.PutUint64(p[blobSize:], uint64(b.size))
	le.PutUint64(p[blobGen:], uint64(b.gen))
	copy(p[blobLife:blobChunk], b.life[:])
	if b.compound != nil {
		b.compound.put(p)
		return
	}
	p[blobChunk], p[blobChunk+1] = b.chunkLog, blobPlain
	if b.tree {
		p[blobChunk+1] = blobWithTree
	}
	le.PutUint16(p[blobCount:], uint16(len(b.extents)))
	le.PutUint32(p[blobCount+2:], 0)
	p = p[blobExtents:]
	for _, x := range b.extents {
		le.PutUint64(p[0:], uint64(x.lba))
		le.PutUint64(p[8:], uint64(x.n))
		p = p[blobExtent:]
	}
	for i := range b.tags {
		copy(p[i*tagSize:], b.tags[i][:])
	}
}

// decodeBlob reads a pointer. It verified as part of a record, but perhaps a later version wrote it, so everything is checked.
func decodeBlob(p []byte) (*Blob, error) {
	bad := func(what string) (*Blob, error) {
		return nil, fmt.Errorf("blob pointer of %d bytes: %s: %w", len(p), what, ErrCorrupt)
	}
	if len(p) < blobExtents || p[blobChunk+1] > blobWithTree || !zero(p[blobCount+2:blobExtents]) {
		return bad("malformed")
	}
	b := &Blob{size: int64(le.Uint64(p[blobSize:])), gen: epoch.Generation(le.Uint64(p[blobGen:])), chunkLog: p[blobChunk], tree: p[blobChunk+1] == blobWithTree}
	copy(b.life[:], p[blobLife:])
	n := int(le.Uint16(p[blobCount:]))
	switch {
	case b.ID() == 0 || b.chunkLog < blobChunkLogMin || b.chunkLog > blobChunkLogMax || n == 0 || n > blobExtentsMax:
		return bad("malformed")
	case b.size <= 0 || b.size > blobSizeMax || len(p) != pointerSize(n, b.tagCount()):
		return bad("size")
	}
	blocks := device.BlockCount(0)
	for i := range n {
		e := p[blobExtents+i*blobExtent:]
		x := extent{device.LBA(le.Uint64(e[0:])), device.BlockCount(le.Uint64(e[8:]))}
		if x.lba < superblockSlots || x.n == 0 || x.n > 1<<40 || x.lba > 1<<40 {
			return bad("extent")
		}
		blocks += x.n
		b.extents = append(b.extents, x)
	}
	if blocks != b.blocks() {
		return bad("blocks")
	}
	b.tags = make([]ioengine.Tag, b.tagCount())
	for i := range b.tags {
		copy(b.tags[i][:], p[blobExtents+n*blobExtent+i*tagSize:])
	}
	return b, nil
}
