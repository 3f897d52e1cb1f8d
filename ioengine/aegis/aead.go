package aegis

import (
	"crypto/cipher"
	"strconv"
)

// KeySizeError is returned by NewAEAD for a key that is not KeySize bytes long.
type KeySizeError int

// Error returns the message with the length that was given.
func (k KeySizeError) Error() string { return "aegis: invalid key size " + strconv.Itoa(int(k)) }

// TagSizeError is returned by NewAEAD for a tag size that is neither TagSize128 nor TagSize256.
type TagSizeError int

// Error returns the message with the length that was given.
func (t TagSizeError) Error() string { return "aegis: invalid tag size " + strconv.Itoa(int(t)) }

// aead is a Cipher in the shape of the standard library. The tag follows the ciphertext, as the draft says.
type aead struct {
	cipher  Cipher
	tagSize int
}

var _ cipher.AEAD = (*aead)(nil)

// NewAEAD returns the variant as a cipher.AEAD with nonces of NonceSize bytes and the given tag size, 16 or 32. Its
// methods panic on misuse as those of the standard library's AEADs do.
func NewAEAD(v Variant, key []byte, tagSize int) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, KeySizeError(len(key))
	}
	if tagSize != TagSize128 && tagSize != TagSize256 {
		return nil, TagSizeError(tagSize)
	}
	a := &aead{tagSize: tagSize}
	a.cipher.Init(v, key)
	return a, nil
}

func (a *aead) NonceSize() int { return NonceSize }

func (a *aead) Overhead() int { return a.tagSize }

func (a *aead) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	if len(nonce) != NonceSize {
		panic("aegis: incorrect nonce length given to AEAD")
	}
	ret, out := sliceForAppend(dst, len(plaintext)+a.tagSize)
	if inexactOverlap(out, plaintext) {
		panic("aegis: invalid buffer overlap of output and input")
	}
	if overlap(out, additionalData) {
		panic("aegis: invalid buffer overlap of output and additional data")
	}
	// The tag is made apart because out may end where the plaintext's array goes on with the caller's data.
	var tag [TagSize256]byte
	n := len(plaintext)
	a.cipher.seal(out[:n], tag[:a.tagSize], nonce, plaintext, additionalData)
	copy(out[n:], tag[:a.tagSize])
	return ret
}

func (a *aead) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	if len(nonce) != NonceSize {
		panic("aegis: incorrect nonce length given to AEAD")
	}
	n := len(ciphertext) - a.tagSize
	if n < 0 {
		return nil, ErrOpen
	}
	ret, out := sliceForAppend(dst, n)
	if inexactOverlap(out, ciphertext) {
		panic("aegis: invalid buffer overlap of output and input")
	}
	if overlap(out, additionalData) {
		panic("aegis: invalid buffer overlap of output and additional data")
	}
	var want [TagSize256]byte
	a.cipher.open(out, want[:a.tagSize], nonce, ciphertext[:n], additionalData)
	if !equalTags(&want, ciphertext[n:]) {
		clear(out)
		return nil, ErrOpen
	}
	return ret, nil
}

// sliceForAppend extends in by n bytes and returns the whole and the new part.
func sliceForAppend(in []byte, n int) (head, tail []byte) {
	total := len(in) + n
	if total < len(in) {
		panic("aegis: message too large")
	}
	if cap(in) >= total {
		head = in[:total]
	} else {
		head = make([]byte, total)
		copy(head, in)
	}
	return head, head[len(in):]
}
