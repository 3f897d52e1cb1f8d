// Package xts is AES-256-XTS for the comparison with a disk layer, as fast as a kernel's: eight blocks at a time. It protects
// nothing of the product's. golang.org/x/crypto/xts, which it falls back to and is tested against, goes block by block and takes
// ten times as long, which would flatter the engine.
package xts

import (
	"crypto/aes"
	"encoding/binary"

	"golang.org/x/crypto/xts"
)

// Size is the size of a sector, in bytes, the only one that is taken here.
const Size = 4096

// KeySize is that of the key: two AES-256 keys.
const KeySize = 64

const sectorBlocks = Size / aes.BlockSize

// Cipher encrypts sectors. One goroutine uses it.
type Cipher struct {
	slow   *xts.Cipher
	fast   *rounds // nil: this processor has no AES instructions
	tweak  tweaker
	tweaks [sectorBlocks * aes.BlockSize]byte
}

type tweaker interface{ Encrypt(dst, src []byte) }

// New returns a cipher with a key of KeySize bytes.
func New(key []byte) (*Cipher, error) {
	slow, err := xts.NewCipher(aes.NewCipher, key)
	if err != nil {
		return nil, err
	}
	tweak, err := aes.NewCipher(key[KeySize/2:])
	if err != nil {
		return nil, err
	}
	return &Cipher{slow: slow, fast: newRounds(key[:KeySize/2]), tweak: tweak}, nil
}

// Encrypt encrypts one sector from src to dst.
func (c *Cipher) Encrypt(dst, src []byte, sector uint64) {
	if c.fast == nil {
		c.slow.Encrypt(dst[:Size], src[:Size], sector)
		return
	}
	c.setTweaks(sector)
	c.fast.encrypt(dst[:Size], src[:Size], &c.tweaks)
}

// Decrypt decrypts one sector from src to dst.
func (c *Cipher) Decrypt(dst, src []byte, sector uint64) {
	if c.fast == nil {
		c.slow.Decrypt(dst[:Size], src[:Size], sector)
		return
	}
	c.setTweaks(sector)
	c.fast.decrypt(dst[:Size], src[:Size], &c.tweaks)
}

// setTweaks computes what is XORed around each block of a sector: the encrypted sector number, doubled for each block.
func (c *Cipher) setTweaks(sector uint64) {
	le := binary.LittleEndian
	t := c.tweaks[:]
	clear(t[:aes.BlockSize])
	le.PutUint64(t, sector)
	c.tweak.Encrypt(t[:aes.BlockSize], t[:aes.BlockSize])
	lo, hi := le.Uint64(t), le.Uint64(t[8:])
	for at := aes.BlockSize; at < len(t); at += aes.BlockSize {
		carry := uint64(int64(hi)>>63) & 0x87
		lo, hi = lo<<1^carry, hi<<1|lo>>63
		le.PutUint64(t[at:], lo)
		le.PutUint64(t[at+8:], hi)
	}
}
