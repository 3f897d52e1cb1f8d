package ioengine

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"cvmstore/ioengine/aegis"
)

// All raw AEAD calls of this package stand in this file (DESIGN.md 5.4).

// TagSize is the size of a chunk's tag, in bytes.
const TagSize = 16

// Tag authenticates one chunk. Whoever stores it must keep it authentic and fresh; it is not secret.
type Tag [TagSize]byte

// The cipher suites, by the names that the key file has. Nothing on the device chooses one.
const (
	SuiteAEGIS  = "aegis"       // AEGIS-128X4
	SuiteAESGCM = "aes-256-gcm" // for those who need an approved cipher
)

// KeySize returns how many bytes of key a suite takes, 0 if there is no such suite.
func KeySize(suite string) int {
	switch suite {
	case SuiteAEGIS:
		return aegis.KeySize
	case SuiteAESGCM:
		return 32
	}
	return 0
}

// Identity says what the chunks of a Key are. It is bound into each chunk's associated data.
type Identity struct {
	Store   [16]byte // the store
	Blob    [32]byte // the blob's own random bytes, the same that its key was derived from
	Kind    byte     // what the blob holds, in the words of who writes it
	Version byte     // of the key
}

// The associated data of a chunk (DESIGN.md 5.2): what the ciphertext is, and where it belongs.
//
//	0   16  store id           another store's data
//	16  32  blob               another blob's chunk, an older blob at the same place
//	48   1  kind               one kind of blob served as another
//	49   1  key version
//	50   2  zero
//	52   4  ciphertext length  truncation, extension
//	56   8  chunk number       chunks swapped inside a blob
const (
	adStore   = 0
	adBlob    = 16
	adKind    = 48
	adVersion = 49
	adLength  = 52
	adChunk   = 56
	adSize    = 64
)

// Key seals and opens the chunks of one blob. It may be used from any goroutine, but for one Writer in all its life.
type Key struct {
	aegis *aegis.Cipher // one of the two
	gcm   cipher.AEAD
	ad    [adSize]byte
	spent atomic.Bool

	ablated ablated // stands in for the cipher in a benchmark; else nil
}

// NewKey returns the key of one blob. The caller derives the bytes for this blob alone: HKDF over its label, the store, the
// volume, the generation and 32 fresh random bytes (DESIGN.md 5.1). They are copied.
func NewKey(suite string, key []byte, id Identity) (*Key, error) {
	if n := KeySize(suite); n == 0 || len(key) != n {
		return nil, fmt.Errorf("blob key of %d bytes for cipher suite %q", len(key), suite)
	}
	k := &Key{}
	copy(k.ad[adStore:], id.Store[:])
	copy(k.ad[adBlob:], id.Blob[:])
	k.ad[adKind], k.ad[adVersion] = id.Kind, id.Version
	if suite == SuiteAEGIS {
		k.aegis = aegis.New(aegis.AEGIS128X4, key)
		return k, nil
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	k.gcm, err = cipher.NewGCM(b)
	return k, err
}

// spend takes the right to seal. There is one, because a chunk's nonce is its number.
func (k *Key) spend() {
	if k.spent.Swap(true) {
		panic("internal error: a second writer under one blob key")
	}
}

// scratch is memory for one call, so that none is allocated; one goroutine uses it.
type scratch struct {
	nonce  [aegis.NonceSize]byte
	tag    [TagSize]byte
	ad     [adSize]byte
	staged []byte // GCM only
}

func (x *scratch) prepare(k *Key, chunk uint64, length int) {
	binary.LittleEndian.PutUint64(x.nonce[:], chunk)
	x.ad = k.ad
	binary.LittleEndian.PutUint32(x.ad[adLength:], uint32(length))
	binary.LittleEndian.PutUint64(x.ad[adChunk:], chunk)
}

// seal encrypts src into dst, shared memory of the same length, and returns the tag.
//
// The nonce is the chunk's number, the rest zero. It is unique because the key is derived from 32 bytes that are random for
// this blob, because a Key serves one Writer (spend), and because a Writer numbers each chunk that it seals and counts up,
// whether or not the device ever gets it. The associated data is the table above.
func (k *Key) seal(x *scratch, dst, src []byte, chunk uint64) Tag {
	if k.ablated != nil {
		return k.ablated.seal(x, dst, src, chunk)
	}
	x.prepare(k, chunk, len(src))
	if k.aegis != nil {
		k.aegis.Seal(dst, x.tag[:], x.nonce[:], src, x.ad[:])
		return x.tag
	}
	// The standard library computes the tag from what it wrote, which the device could change meanwhile. So it works in
	// private memory, and what is authenticated is copied.
	out := k.gcm.Seal(x.room(len(src) + TagSize)[:0], x.nonce[:k.gcm.NonceSize()], src, x.ad[:])
	copy(dst, out[:len(src)])
	return Tag(out[len(src):])
}

// errTag says that a chunk is not the one that was sealed.
var errTag = errors.New("its tag is wrong")

// open decrypts src, shared memory that is read once, into dst, private memory of the same length. If the tag is wrong it
// fills dst with zeros.
func (k *Key) open(x *scratch, dst, src []byte, chunk uint64, tag *Tag) error {
	if k.ablated != nil {
		return k.ablated.open(x, dst, src, chunk, tag)
	}
	x.prepare(k, chunk, len(src))
	if k.aegis != nil {
		x.tag = *tag
		if k.aegis.Open(dst, x.nonce[:], src, x.tag[:], x.ad[:]) != nil {
			return errTag
		}
		return nil
	}
	in := x.room(len(src) + TagSize)
	copy(in, src)
	copy(in[len(src):], tag[:])
	// Decrypted in place, then copied: dst has no room for the tag that the standard library wants behind the ciphertext.
	out, err := k.gcm.Open(in[:0], x.nonce[:k.gcm.NonceSize()], in, x.ad[:])
	if err != nil {
		clear(dst)
		return errTag
	}
	copy(dst, out)
	return nil
}

func (x *scratch) room(n int) []byte {
	if cap(x.staged) < n {
		x.staged = make([]byte, ChunkMax+TagSize)
	}
	return x.staged[:n]
}
