package volume

import (
	"fmt"
	"sync"
	"sync/atomic"

	"cvmstore/epoch"
	"cvmstore/internal/mutant"
	"cvmstore/ioengine"
	"cvmstore/ioengine/device"
)

// Blob is a large value in extents of its own: the chunks of one write, sealed under a key of their own and never changed.
// What it is (blobformat.go) stands in pointer records; whoever uses it holds a reference: the index one a pointer record, a
// reader or a writer one while it is at work. Without references its extents go back to the allocator by the rule of
// DESIGN.md 6.2 (blobspace.go). Its methods may be called from any goroutine.
type Blob struct {
	v        *Volume
	size     int64
	gen      epoch.Generation
	life     [32]byte // random: makes the key, and names the blob
	chunkLog uint8
	extents  []extent
	tree     bool           // tags are those of a tree's top (blobtree.go), else
	tags     []ioengine.Tag // one a chunk, in order
	compound *compound      // it is made of parts of other blobs (compound.go), and has no chunks of its own

	// Under blobTable.mu:
	refs    int
	freedBy Counter // the newest record that took a reference away; 0: no record ever held one
}

// BlobID names a blob that has references, in memory only. 0: none.
type BlobID uint64

// ID returns the blob's name: the front of its random bytes.
func (b *Blob) ID() BlobID { return BlobID(le.Uint64(b.life[:])) }

// Size returns the length of the plaintext in bytes.
func (b *Blob) Size() int64 { return b.size }

// ChunkBytes returns the unit in which the blob is read and verified, in bytes.
func (b *Blob) ChunkBytes() int {
	if b.compound != nil {
		return b.compound.chunkBytes()
	}
	return 1 << b.chunkLog
}

func (b *Blob) chunks() int { return chunksOf(b.size, b.chunkLog) }

// blocks is how many blocks its extents have: for the chunks, and for the tree's nodes.
func (b *Blob) blocks() device.BlockCount {
	n := ioengine.BlocksFor(b.size)
	if b.tree {
		n += device.BlockCount(treeOf(b.chunks()).nodes())
	}
	return n
}

// blobTable is the blobs that have references, and those that wait to be free.
type blobTable struct {
	mu      sync.Mutex
	live    map[BlobID]*Blob
	serving bool    // recovery is over: what loses its last reference must wait
	freed   []*Blob // without references, in that order
	trims   []blobTrim
	synced  timeOrNone // when the counter was last flushed for the sake of freed
	// starving says that somebody found no room while freed held some.
	starving bool

	nodes nodeCache

	compounds uint64 // made by this generation

	pool *ioengine.Pool // of all BlobIOs; nil until the first
	idle []*BlobIO      // of DoTransfer

	// Flushes of blobs (blobflush.go), by the number that each blob gets when its last write has completed.
	written, wanted, flushed atomic.Uint64
	flushing                 bool // the leader's
}

func (t *blobTable) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live, t.freed, t.serving = map[BlobID]*Blob{}, nil, false
}

// AdoptBlob takes a reference to the blob that a pointer record names, for the index. Recovery calls it with every pointer that
// it finds live, so that the allocator knows what is in use. The pointer comes from a record that verified.
func (v *Volume) AdoptBlob(pointer []byte) (*Blob, error) {
	if isCompound(pointer) {
		return v.adoptCompound(pointer)
	}
	b, err := decodeBlob(pointer)
	if err != nil {
		return nil, err
	}
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.adoptLocked(v, b)
}

func (t *blobTable) adoptLocked(v *Volume, b *Blob) (*Blob, error) {
	if known := t.live[b.ID()]; known != nil {
		if known.life != b.life || known.size != b.size || (known.compound == nil) != (b.compound == nil) {
			return nil, fmt.Errorf("two blobs of one name: %w", ErrCorrupt)
		}
		known.refs++
		return known, nil
	}
	b.v, b.refs = v, 1
	t.live[b.ID()] = b
	return b, nil
}

// BlobByID returns a blob that somebody holds a reference to. The reference stays the caller's: the index calls it under the
// key's lock.
func (v *Volume) BlobByID(id BlobID) *Blob {
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.live[id]
	if b == nil {
		panic("internal error: a blob was freed that the index refers to")
	}
	return b
}

// Retain takes another reference, of somebody who is protected by one that exists.
func (b *Blob) Retain() {
	t := &b.v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.refs <= 0 {
		panic("internal error: a blob was used after its last reference")
	}
	b.refs++
}

// Release gives a reference back. by is the counter of the record that took it away, 0 if it was a reader's or a writer's.
func (b *Blob) Release(by Counter) {
	t := &b.v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked(b, by)
}

func (t *blobTable) releaseLocked(b *Blob, by Counter) {
	if b.refs <= 0 {
		panic("internal error: a reference to a blob was given back twice")
	}
	b.refs--
	b.freedBy = max(b.freedBy, by)
	if b.refs > 0 {
		return
	}
	delete(t.live, b.ID())
	if b.compound != nil {
		for _, p := range b.compound.parts {
			t.releaseLocked(p, b.freedBy)
		}
		return
	}
	t.nodes.forget(b)
	if t.serving {
		t.freed = append(t.freed, b)
	}
}

// takeBlobs marks the extents of all live blobs in the allocator that recovery makes (DESIGN.md 6: its state is derived from live
// references). Two references to one block are no state of ours.
func (v *Volume) takeBlobs() error {
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving = true
	if mutant.On(mutant.ForgetBlobs) {
		return nil
	}
	for _, b := range t.live {
		for _, x := range b.extents {
			if !v.space.take(x) {
				return fmt.Errorf("blob at block %d: its blocks belong to something else as well, or are outside: %w", x.lba, ErrCorrupt)
			}
		}
	}
	return nil
}
