package volume

import (
	"errors"
	"fmt"
	"time"

	"cvmstore/ioengine"
)

// BlobOptions say how blobs are cut and moved. Zero values take the defaults.
type BlobOptions struct {
	ChunkBytes int // unit of sealing of new blobs, a power of two from 4 KiB to 1 MiB; default 256 KiB
	LargeChunk int // of large files, not smaller; default ChunkBytes, or 1 MiB where that has its default, too
	Buffers    int // DMA buffers of the larger size, of all BlobIOs together; default 28
	Depth      int // chunks that one BlobIO has in flight; default 32
	Ahead      int // chunks that one reader asks for ahead of its consumer; default 8

	Spin time.Duration // DoTransfer and Wait poll the device for so long before they sleep; default 0
}

func (o *BlobOptions) setDefaults() {
	if o.ChunkBytes == 0 {
		o.ChunkBytes = ioengine.ChunkDefault
		if o.LargeChunk == 0 {
			o.LargeChunk = ioengine.ChunkMax
		}
	}
	o.LargeChunk = max(o.LargeChunk, o.ChunkBytes)
	if o.Buffers == 0 {
		o.Buffers = 28
	}
	if o.Depth == 0 {
		o.Depth = 32
	}
	if o.Ahead == 0 {
		o.Ahead = 8
	}
}

// chunkLog is the binary logarithm of ChunkBytes.
func (o *BlobOptions) chunkLog() uint8 { return chunkLog(o.ChunkBytes) }

// chunkLog is the binary logarithm of a chunk's size, rounded down into what the format allows.
func chunkLog(bytes int) (log uint8) {
	for log = blobChunkLogMin; log < blobChunkLogMax && 2<<log <= bytes; log++ {
	}
	return log
}

// BlobIO moves blobs between memory and the device: one engine, and all writers, readers and transfers of the goroutine that uses
// it. Nothing here waits. An event loop polls Fd and calls Step; the others have DoTransfer.
type BlobIO struct {
	v         *Volume
	e         *ioengine.Engine
	transfers []*Transfer
	closing   []closingBlob
	spare     map[int][][]byte // private memory for chunks, by size
	spared    int              // bytes of it
	chunk     int
	keyed     *Blob          // whose chunks were read last
	key       *ioengine.Key  // of it, so that random reads of one blob derive it once
	counted   ioengine.Stats // of e, as they stand in the volume's
}

// closingBlob is a blob that was given up while the device still has chunks of it: its blocks are nobody's until those are home.
type closingBlob struct {
	w, tree *ioengine.Writer
	b       *Blob
}

func (c *closingBlob) idle() bool { return c.w.Idle() && (c.tree == nil || c.tree.Idle()) }

// NewBlobIO makes one. The first of a volume makes the buffers that all of them share.
func (v *Volume) NewBlobIO() (*BlobIO, error) {
	if err := v.Err(); err != nil && !errors.Is(err, ErrFailed) && !errors.Is(err, ErrFenced) {
		return nil, err
	}
	pool, err := v.blobPool()
	if err != nil {
		return nil, err
	}
	// Its clock stands still while the machine is suspended: that is no time that the device took.
	e, err := ioengine.New(v.dev, pool, ioengine.Options{Depth: v.opts.Blobs.Depth, Spin: v.opts.Blobs.Spin})
	if err != nil {
		return nil, err
	}
	return &BlobIO{v: v, e: e, chunk: 1 << v.opts.Blobs.chunkLog(), spare: map[int][][]byte{}}, nil
}

func (v *Volume) blobPool() (*ioengine.Pool, error) {
	p := &v.blobs
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != nil {
		return p.pool, nil
	}
	pool, err := ioengine.NewPool(v.dev, ioengine.PoolOptions{Buffers: v.opts.Blobs.Buffers, Chunk: 1 << chunkLog(v.opts.Blobs.LargeChunk)})
	p.pool = pool
	return pool, err
}

// closeBlobs frees what the volume itself made for blobs. Every BlobIO is closed before.
func (v *Volume) closeBlobs() error {
	t := &v.blobs
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	for _, io := range t.idle {
		err = errors.Join(err, io.e.Close())
	}
	t.idle = nil
	if t.pool != nil {
		err = errors.Join(err, t.pool.Close())
		t.pool = nil
	}
	return err
}

// Fd returns a descriptor that is readable when Step has something to do, or -1 if Step must be called now and then.
func (io *BlobIO) Fd() int { return io.e.Fd() }

// Busy reports that chunks are in flight, or that a transfer or a blob that was given up is not done with. Then Step is called
// at least every few milliseconds: a transfer may wait for room rather than for the device.
func (io *BlobIO) Busy() bool {
	return io.e.Outstanding() > 0 || len(io.transfers) > 0 || len(io.closing) > 0
}

// Step takes what the device completed and moves transfers on. It reports whether something moved: then writers and readers that
// had to wait try again. What fails shows at the writer or reader.
func (io *BlobIO) Step() (moved bool) {
	io.giveWay()
	moved, _ = io.e.Step()
	return io.after(moved)
}

// Wait is Step that waits for the device a little, for those without an event loop.
func (io *BlobIO) Wait(d time.Duration) bool {
	io.giveWay()
	moved, _ := io.e.Wait(d)
	return io.after(moved)
}

func (io *BlobIO) after(moved bool) bool {
	if now := io.e.Stats(); now != io.counted {
		io.v.stats.blobsWritten.Add(now.BytesWritten - io.counted.BytesWritten)
		io.v.stats.blobsRead.Add(now.BytesRead - io.counted.BytesRead)
		io.counted = now
	}
	kept := io.closing[:0]
	for _, c := range io.closing {
		if !c.idle() {
			kept = append(kept, c)
			continue
		}
		c.b.Release(0)
		moved = true
	}
	clear(io.closing[len(kept):])
	io.closing = kept
	return io.stepTransfers() || moved
}

// Close gives up all transfers and frees the engine. Writers and readers are closed before.
func (io *BlobIO) Close() error {
	for _, t := range io.transfers {
		t.stop(io)
	}
	io.transfers = nil
	err := io.e.Close()
	for _, c := range io.closing {
		c.b.Release(0)
	}
	io.closing = nil
	return err
}

// buffer returns private memory for a chunk of n bytes.
func (io *BlobIO) buffer(n int) []byte {
	class := io.chunk
	for class < n {
		class *= 2
	}
	if list := io.spare[class]; len(list) > 0 {
		b := list[len(list)-1]
		list[len(list)-1] = nil
		io.spare[class] = list[:len(list)-1]
		io.spared -= class
		return b[:n]
	}
	return make([]byte, n, class)
}

// spareMax bounds the private memory that nobody uses, in usual chunks, so that an idle server is small again.
const spareMax = 16

func (io *BlobIO) putBuffer(b []byte) {
	if cap(b)%io.chunk == 0 && io.spared+cap(b) <= spareMax*io.chunk {
		io.spare[cap(b)] = append(io.spare[cap(b)], b)
		io.spared += cap(b)
	}
}

// key derives the key of a blob.
func (v *Volume) blobKey(b *Blob) (*ioengine.Key, error) { return v.deriveBlobKey(b, labelBlob, 'B') }

// readKey is blobKey for a reader.
func (io *BlobIO) readKey(b *Blob) (*ioengine.Key, error) {
	if io.keyed != b {
		key, err := io.v.blobKey(b)
		if err != nil {
			return nil, err
		}
		io.keyed, io.key = b, key
	}
	return io.key, nil
}

func (v *Volume) deriveBlobKey(b *Blob, label string, kind byte) (*ioengine.Key, error) {
	var g [8]byte
	le.PutUint64(g[:], uint64(b.gen))
	key := make([]byte, ioengine.KeySize(v.keys.Suite()))
	v.keys.Derive(key, label, v.id[:], g[:], b.life[:])
	return ioengine.NewKey(v.keys.Suite(), key, ioengine.Identity{Store: v.keys.StoreID(), Blob: b.life, Kind: kind, Version: keyVersion})
}

func engineExtents(list []extent) []ioengine.Extent {
	out := make([]ioengine.Extent, len(list))
	for i, x := range list {
		out[i] = ioengine.Extent{LBA: x.lba, Blocks: x.n}
	}
	return out
}

// blobError words an error of the engine in this package's terms, with the place where the blob begins.
func (b *Blob) blobError(err error) error {
	if errors.Is(err, ioengine.ErrCorrupt) {
		return fmt.Errorf("blob at block %d: %w: %w", b.extents[0].lba, ErrCorrupt, err)
	}
	return fmt.Errorf("blob at block %d: %w", b.extents[0].lba, err)
}
