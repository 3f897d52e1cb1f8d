package ioengine

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"

	"cvmstore/ioengine/aegis"
	"cvmstore/ioengine/device"
)

// Ablation takes one part of the engine away, so that a benchmark shows what that part is worth. Everything but Whole is for
// benchmarks only, and leaves data unprotected or badly protected. No configuration reaches it: a test sees that only bench
// names it.
type Ablation uint8

// The ablations.
const (
	Whole          Ablation = iota // nothing is taken away
	WithStaging                    // a copy into other private memory stands between the caller's and the cipher
	WithGCM                        // AES-256-GCM in place of AEGIS, straight between private and shared memory
	WithoutOverlap                 // a queue full is sealed, then written; read, then opened. Set Options.NoOverlap as well
	WithoutCipher                  // a copy in place of the cipher
	Raw                            // neither cipher nor copy: what the device gives this engine
	DiskLayer                      // each 4 KiB block alone, with a cipher of the caller's and a SHA-256, as a layer below a file system would
)

// String returns what a table calls it.
func (a Ablation) String() string {
	return [...]string{
		Whole: "full protection", WithStaging: "with a staging copy", WithGCM: "AES-256-GCM", WithoutOverlap: "no overlap",
		WithoutCipher: "copy, no cipher", Raw: "raw", DiskLayer: "XTS + SHA-256 a block",
	}[a]
}

// ablated stands in for a Key's cipher.
type ablated interface {
	seal(x *scratch, dst, src []byte, chunk uint64) Tag
	open(x *scratch, dst, src []byte, chunk uint64, tag *Tag) error
}

// SectorCipher encrypts blocks of 4096 bytes, each alone. It authenticates nothing.
type SectorCipher interface {
	Encrypt(dst, src []byte, sector uint64)
	Decrypt(dst, src []byte, sector uint64)
}

// Bench makes keys that an ablation works on. One goroutine uses it and what it makes.
type Bench struct {
	kind    Ablation
	staging staging
	sectors func(key []byte) (SectorCipher, error)
	sums    map[uint64][][sha256.Size]byte
}

// NewBench prepares an ablation for an engine of the given depth. Only DiskLayer needs sectors, which makes a cipher from 64
// bytes of key.
func NewBench(a Ablation, depth int, sectors func(key []byte) (SectorCipher, error)) *Bench {
	b := &Bench{kind: a, sectors: sectors, sums: map[uint64][][sha256.Size]byte{}}
	if a == WithStaging {
		for range depth {
			b.staging.buffers = append(b.staging.buffers, make([]byte, ChunkMax))
		}
	}
	return b
}

// Key is NewKey with AEGIS, or what stands in for it. key has 64 bytes. WithGCM wants room for a tag behind the chunk in the
// pool's buffers: a pool of larger chunks.
func (b *Bench) Key(key []byte, id Identity) (*Key, error) {
	k, err := NewKey(SuiteAEGIS, key[:aegis.KeySize], id)
	if err != nil {
		return nil, err
	}
	switch b.kind {
	case WithStaging:
		return &Key{ablated: &stagedKey{k, &b.staging}}, nil
	case WithGCM:
		block, err := aes.NewCipher(key[:32])
		if err != nil {
			return nil, err
		}
		gcm, err := cipher.NewGCM(block)
		return &Key{ablated: &directGCM{k, gcm}}, err
	case WithoutCipher:
		return &Key{ablated: copyKey{}}, nil
	case Raw:
		return &Key{ablated: rawKey{}}, nil
	case DiskLayer:
		c, err := b.sectors(key[:64])
		return &Key{ablated: &blockKey{c, b.sums}}, err
	}
	return k, nil
}

// staging is private memory, a buffer for each chunk in flight.
type staging struct {
	buffers [][]byte
	turn    int
}

func (s *staging) next(n int) []byte {
	s.turn = (s.turn + 1) % len(s.buffers)
	return s.buffers[s.turn][:n]
}

// stagedKey copies each chunk to or from a buffer of its own, as an engine does that bounces.
type stagedKey struct {
	*Key
	staging *staging
}

func (s *stagedKey) seal(x *scratch, dst, src []byte, chunk uint64) Tag {
	b := s.staging.next(len(src))
	copy(b, src)
	return s.Key.seal(x, dst, b, chunk)
}

func (s *stagedKey) open(x *scratch, dst, src []byte, chunk uint64, tag *Tag) error {
	b := s.staging.next(len(src))
	err := s.Key.open(x, b, src, chunk, tag)
	copy(dst, b)
	return err
}

// directGCM lets the standard library work in shared memory, which no product may: see Key.seal. So its figure is the cipher's
// alone.
type directGCM struct {
	*Key
	gcm cipher.AEAD
}

// The nonce is the chunk's number, unique and bound as in Key.seal.
func (g *directGCM) seal(x *scratch, dst, src []byte, chunk uint64) Tag {
	x.prepare(g.Key, chunk, len(src))
	out := g.gcm.Seal(dst[:0], x.nonce[:g.gcm.NonceSize()], src, x.ad[:])
	return Tag(out[len(src):])
}

func (g *directGCM) open(x *scratch, dst, src []byte, chunk uint64, tag *Tag) error {
	x.prepare(g.Key, chunk, len(src))
	in := src[:len(src)+TagSize]
	copy(in[len(src):], tag[:])
	if _, err := g.gcm.Open(dst[:0], x.nonce[:g.gcm.NonceSize()], in, x.ad[:]); err != nil {
		return errTag
	}
	return nil
}

type copyKey struct{}

func (copyKey) seal(_ *scratch, dst, src []byte, _ uint64) Tag {
	copy(dst, src)
	return Tag{}
}

func (copyKey) open(_ *scratch, dst, src []byte, _ uint64, _ *Tag) error {
	copy(dst, src)
	return nil
}

type rawKey struct{}

func (rawKey) seal(*scratch, []byte, []byte, uint64) Tag         { return Tag{} }
func (rawKey) open(*scratch, []byte, []byte, uint64, *Tag) error { return nil }

// blockKey protects each block alone. The hashes stay in private memory.
type blockKey struct {
	c    SectorCipher
	sums map[uint64][][sha256.Size]byte // by chunk
}

// The sector is the number of the block in the blob. XTS authenticates nothing, and nothing is bound to it: that is the point of
// the comparison.
func (b *blockKey) seal(_ *scratch, dst, src []byte, chunk uint64) Tag {
	sums := b.sums[chunk][:0]
	for at := 0; at+device.BlockSize <= len(src); at += device.BlockSize {
		sums = append(sums, sha256.Sum256(src[at:at+device.BlockSize]))
		b.c.Encrypt(dst[at:at+device.BlockSize], src[at:at+device.BlockSize], chunk<<8+uint64(at/device.BlockSize))
	}
	b.sums[chunk] = sums
	return Tag{}
}

func (b *blockKey) open(_ *scratch, dst, src []byte, chunk uint64, _ *Tag) error {
	for at := 0; at+device.BlockSize <= len(src); at += device.BlockSize {
		b.c.Decrypt(dst[at:at+device.BlockSize], src[at:at+device.BlockSize], chunk<<8+uint64(at/device.BlockSize))
		if sha256.Sum256(dst[at:at+device.BlockSize]) != b.sums[chunk][at/device.BlockSize] {
			return errTag
		}
	}
	return nil
}

// batch is Options.NoOverlap: nothing is submitted before the depth is used up or the caller waits, and nothing is sealed or
// opened while the device has something.
type batch struct {
	out  bool // the device has it
	held []device.Completion
}

// hold reports whether requests must wait for more.
func (e *Engine) hold() bool { return e.opts.NoOverlap && !e.batch.out && len(e.free) > 0 }

// gather keeps completions until all are there, and returns them then.
func (e *Engine) gather(done []device.Completion) []device.Completion {
	e.batch.held = append(e.batch.held, done...)
	if e.flight > 0 || len(e.backlog) > 0 {
		return nil
	}
	all := e.batch.held
	e.batch.held, e.batch.out = e.batch.held[:0], false
	return all
}
