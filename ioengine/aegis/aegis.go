package aegis

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// Sizes in bytes, the same for both variants.
const (
	KeySize    = 16
	NonceSize  = 16
	TagSize128 = 16
	TagSize256 = 32
)

// ErrOpen says that a tag is wrong: nothing in the message can be trusted, and dst holds zeros.
var ErrOpen = errors.New("aegis: message authentication failed")

// Variant names one of the two ciphers built here.
type Variant uint8

const (
	// AEGIS128L works on blocks of 32 bytes. It starts and ends faster: use it for records up to about 512 bytes.
	AEGIS128L Variant = iota + 1
	// AEGIS128X4 runs four lanes of AEGIS-128L side by side on blocks of 128 bytes: use it for bulk data.
	AEGIS128X4
)

// String returns the draft's name of the variant.
func (v Variant) String() string {
	switch v {
	case AEGIS128L:
		return "AEGIS-128L"
	case AEGIS128X4:
		return "AEGIS-128X4"
	}
	return "AEGIS variant " + strconv.Itoa(int(v))
}

// Cipher seals and opens messages under one key. It is safe for concurrent use once it is initialised, and no method of
// it allocates. It may be copied and embedded by value; the zero Cipher must be initialised by Init before use.
type Cipher struct {
	key     [KeySize]byte
	variant Variant
}

// New returns a Cipher. It panics if the variant is unknown or the key is not KeySize bytes long.
func New(v Variant, key []byte) *Cipher {
	c := new(Cipher)
	c.Init(v, key)
	return c
}

// Init sets the variant and the key of c, for callers that embed a Cipher. It panics on the same misuse as New, and must
// not run at the same time as any other method.
func (c *Cipher) Init(v Variant, key []byte) {
	if v != AEGIS128L && v != AEGIS128X4 {
		panic("aegis: unknown variant")
	}
	if len(key) != KeySize {
		panic("aegis: invalid key length " + strconv.Itoa(len(key)))
	}
	c.variant = v
	copy(c.key[:], key)
}

// Seal encrypts src into dst and writes the tag of src and ad into tag, whose length (16 or 32) selects the tag's. It
// reads src once and writes dst once. dst and src must have equal lengths and be either the same memory or disjoint;
// dst overlaps neither tag nor ad. Seal panics if that does not hold. A nonce must never be used twice with a key.
func (c *Cipher) Seal(dst, tag, nonce, src, ad []byte) {
	c.check(dst, tag, nonce, src, ad)
	c.seal(dst, tag, nonce, src, ad)
}

// Open decrypts src into dst and returns nil if tag is the tag of the message and ad; otherwise it fills dst with zeros
// and returns ErrOpen. It reads each byte of src, tag, nonce and ad exactly once, so these may lie in memory that a
// hostile device writes meanwhile: a nil error means that the plaintext in dst is the authenticated one. That holds for
// a private dst, not when dst and src are the same shared memory. Requirements on lengths and overlap are those of Seal.
func (c *Cipher) Open(dst, nonce, src, tag, ad []byte) error {
	c.check(dst, tag, nonce, src, ad)
	var want [TagSize256]byte
	c.open(dst, want[:len(tag)], nonce, src, ad)
	if !equalTags(&want, tag) {
		clear(dst)
		return ErrOpen
	}
	return nil
}

// MAC writes AEGISMAC of data into tag, whose length (16 or 32) selects the tag's. Unlike Seal it may be used for many
// messages with one key and nonce; but a pair used here must never be used to seal.
func (c *Cipher) MAC(tag, nonce, data []byte) {
	c.checkSizes(tag, nonce)
	c.mac(tag, nonce, data)
}

// VerifyMAC returns nil if tag is the AEGISMAC of data, and ErrOpen otherwise. It reads each byte of data and tag once.
func (c *Cipher) VerifyMAC(nonce, data, tag []byte) error {
	c.checkSizes(tag, nonce)
	var want [TagSize256]byte
	c.mac(want[:len(tag)], nonce, data)
	if !equalTags(&want, tag) {
		return ErrOpen
	}
	return nil
}

// check panics if a caller broke the rules of Seal or Open. A record of 64 bytes takes some 100 cycles to seal, so that
// the usual case is a straight line, and the reason for a panic is looked for only when there is one.
func (c *Cipher) check(dst, tag, nonce, src, ad []byte) {
	sizes := (len(nonce) ^ NonceSize) | (len(dst) ^ len(src)) | (len(tag)-TagSize128)&^(TagSize256-TagSize128)
	if c.variant == 0 || sizes != 0 || !disjoint(address(dst), len(dst), address(src), address(tag), len(tag), address(ad), len(ad)) {
		c.misuse(dst, tag, nonce, src, ad)
	}
}

// disjoint reports whether dst may be written: src, of the same length n, is the same memory or apart, and tag and ad
// are apart. Differences of addresses wrap around: a range starts inside another one if they are less than its length.
func disjoint(dst uintptr, n int, src, tag uintptr, tagLen int, ad uintptr, adLen int) bool {
	return n == 0 || (src == dst || src-dst >= uintptr(n) && dst-src >= uintptr(n)) &&
		tag-dst >= uintptr(n) && dst-tag >= uintptr(tagLen) &&
		(adLen == 0 || ad-dst >= uintptr(n) && dst-ad >= uintptr(adLen))
}

// misuse panics with what check found.
func (c *Cipher) misuse(dst, tag, nonce, src, ad []byte) {
	c.checkSizes(tag, nonce)
	switch {
	case len(dst) != len(src):
		panic("aegis: lengths of dst and src differ")
	case inexactOverlap(dst, src):
		panic("aegis: invalid buffer overlap of dst and src")
	case overlap(dst, ad):
		panic("aegis: invalid buffer overlap of dst and ad")
	}
	panic("aegis: invalid buffer overlap of dst and tag")
}

func (c *Cipher) checkSizes(tag, nonce []byte) {
	if c.variant == 0 {
		panic("aegis: Cipher used before Init")
	}
	if len(nonce) != NonceSize {
		panic("aegis: incorrect nonce length")
	}
	if len(tag) != TagSize128 && len(tag) != TagSize256 {
		panic("aegis: incorrect tag length")
	}
}

// equalTags compares tag, 16 or 32 bytes long, with the start of want in constant time, and loads each byte of it once.
func equalTags(want *[TagSize256]byte, tag []byte) bool {
	le := binary.LittleEndian
	diff := le.Uint64(want[:]) ^ le.Uint64(tag)
	diff |= le.Uint64(want[8:]) ^ le.Uint64(tag[8:])
	if len(tag) == TagSize256 {
		diff |= le.Uint64(want[16:]) ^ le.Uint64(tag[16:])
		diff |= le.Uint64(want[24:]) ^ le.Uint64(tag[24:])
	}
	return diff == 0
}
