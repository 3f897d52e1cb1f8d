package volume

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"cvmstore/epoch"
	"cvmstore/ioengine/aegis"
	"cvmstore/ioengine/device"
)

// All raw AEAD calls of this package stand in this file (DESIGN.md 5.4).

const tagSize = 16

// The cipher suites, by the name that KeySource.Suite gives. A suite is bound in the key derivation (seal) and repeated in
// the sealed superblock; nothing on the disk chooses it.
const (
	suiteAEGIS = "aegis"
	suiteGCM   = "aes-256-gcm"
)

// sealer is an AEAD under one key whose nonces are 64-bit places.
type sealer interface {
	// seal encrypts src into dst (equal length, disjoint) and writes the tag into private memory.
	seal(dst []byte, tag *[tagSize]byte, place uint64, src, ad []byte)
	// open decrypts src, which may be shared memory and is read once, into dst, and wipes dst if the tag is wrong.
	open(dst []byte, place uint64, src []byte, tag *[tagSize]byte, ad []byte) error
}

// newSealer makes the suite's AEAD with a key of its own, derived for label and context.
func newSealer(k KeySource, label string, context ...[]byte) (sealer, error) {
	switch k.Suite() {
	case suiteAEGIS:
		var key [aegis.KeySize]byte
		k.Derive(key[:], label, context...)
		return &aegisSealer{c: aegis.New(aegis.AEGIS128L, key[:])}, nil
	case suiteGCM:
		var key [32]byte
		k.Derive(key[:], label, context...)
		b, err := aes.NewCipher(key[:])
		if err != nil {
			return nil, err
		}
		a, err := cipher.NewGCM(b)
		if err != nil {
			return nil, err
		}
		return &gcmSealer{a: a}, nil
	}
	return nil, fmt.Errorf("unknown cipher suite %q", k.Suite())
}

// aegisSealer is AEGIS-128L. The nonce is the place (bytes 0 to 7, the rest zero). It is unique because callers seal each
// place once under a key: segment keys hold 32 random bytes and the generation, and a segment is filled from the front once;
// one-shot keys (superblock, manifest) hold a fresh random salt and seal place 0 only. The AD is the caller's: see adRecord.
type aegisSealer struct{ c *aegis.Cipher }

func (s *aegisSealer) seal(dst []byte, tag *[tagSize]byte, place uint64, src, ad []byte) {
	var nonce [aegis.NonceSize]byte
	binary.LittleEndian.PutUint64(nonce[:], place)
	s.c.Seal(dst, tag[:], nonce[:], src, ad)
}

func (s *aegisSealer) open(dst []byte, place uint64, src []byte, tag *[tagSize]byte, ad []byte) error {
	var nonce [aegis.NonceSize]byte
	binary.LittleEndian.PutUint64(nonce[:], place)
	return s.c.Open(dst, nonce[:], src, tag[:], ad)
}

// gcmSealer is AES-256-GCM, for those who need an approved cipher. Nonce: the place in 12 bytes, unique as above. The standard
// library keeps the tag beside the data, so both directions go through a private copy: ciphertext is read once all the same.
type gcmSealer struct {
	a cipher.AEAD
}

func (s *gcmSealer) seal(dst []byte, tag *[tagSize]byte, place uint64, src, ad []byte) {
	var nonce [12]byte
	binary.LittleEndian.PutUint64(nonce[:], place)
	out := s.a.Seal(make([]byte, 0, len(src)+tagSize), nonce[:], src, ad)
	copy(dst, out[:len(src)])
	copy(tag[:], out[len(src):])
}

func (s *gcmSealer) open(dst []byte, place uint64, src []byte, tag *[tagSize]byte, ad []byte) error {
	var nonce [12]byte
	binary.LittleEndian.PutUint64(nonce[:], place)
	in := make([]byte, 0, len(src)+tagSize)
	in = append(append(in, src...), tag[:]...)
	out, err := s.a.Open(in[:0], nonce[:], in, ad)
	if err != nil {
		clear(dst)
		return err
	}
	copy(dst, out)
	return nil
}

// Labels of the key derivation, one a use (DESIGN.md 5.5).
const (
	labelSuperblock  = "volume superblock"
	labelManifest    = "volume manifest"
	labelManifestTag = "volume manifest tag"
	labelRecord      = "volume segment record"
	labelHeader      = "volume segment frame header"
	labelChain       = "volume segment chain"
	labelBlob        = "volume blob"
	labelMultiset    = "volume multiset"
	labelName        = "volume name hash"
)

// segmentKeys are the keys of one segment's life. Store and suite enter in KeySource.Derive; volume, generation and life
// here.
type segmentKeys struct {
	record sealer
	header sealer
	chain  hash.Hash // HMAC-SHA-256; the committer's and recovery's only, one at a time
	ad     [adSize]byte
}

func newSegmentKeys(k KeySource, volume [16]byte, gen epoch.Generation, life [32]byte) (*segmentKeys, error) {
	var g [8]byte
	binary.LittleEndian.PutUint64(g[:], uint64(gen))
	s := &segmentKeys{}
	var err error
	if s.record, err = newSealer(k, labelRecord, volume[:], g[:], life[:]); err != nil {
		return nil, err
	}
	if s.header, err = newSealer(k, labelHeader, volume[:], g[:], life[:]); err != nil {
		return nil, err
	}
	var key [32]byte
	k.Derive(key[:], labelChain, volume[:], g[:], life[:])
	s.chain = hmac.New(sha256.New, key[:])
	id := k.StoreID()
	copy(s.ad[adStore:], id[:])
	copy(s.ad[adLife:], life[:])
	s.ad[adKeyVersion] = keyVersion
	return s, nil
}

// The associated data of a record or a frame header (DESIGN.md 5.2): what the ciphertext is, and where it belongs.
//
//	0   16  store id           another store's data
//	16  32  life of segment    another segment's, another generation's data
//	48   1  what               'R' record, 'H' frame header: one served as the other
//	49   1  key version
//	50   2  zero
//	52   4  ciphertext length  truncation, extension
//	56   8  byte offset in the segment: swapped places
const (
	adStore      = 0
	adLife       = 16
	adWhat       = 48
	adKeyVersion = 49
	adLength     = 52
	adOffset     = 56
	adSize       = 64

	keyVersion = 1
)

// fillAD writes the associated data into caller-provided scratch memory, because a slice that passes through the sealer
// interface would escape if it were a local array.
func (s *segmentKeys) fillAD(ad *[adSize]byte, what byte, length int, offset uint64) []byte {
	*ad = s.ad
	ad[adWhat] = what
	binary.LittleEndian.PutUint32(ad[adLength:], uint32(length))
	binary.LittleEndian.PutUint64(ad[adOffset:], offset)
	return ad[:]
}

// scratch is the private memory of one sealing or opening party: AD and tag of the record at hand.
type scratch struct {
	ad  [adSize]byte
	tag [tagSize]byte
}

func (s *segmentKeys) sealRecord(x *scratch, dst []byte, offset int, src []byte) {
	s.record.seal(dst, &x.tag, uint64(offset), src, s.fillAD(&x.ad, 'R', len(src), uint64(offset)))
}

func (s *segmentKeys) openRecord(x *scratch, dst []byte, offset int, src []byte) error {
	return s.record.open(dst, uint64(offset), src, &x.tag, s.fillAD(&x.ad, 'R', len(src), uint64(offset)))
}

func (s *segmentKeys) sealHeader(x *scratch, dst []byte, offset int, src []byte) {
	s.header.seal(dst, &x.tag, uint64(offset), src, s.fillAD(&x.ad, 'H', len(src), uint64(offset)))
}

func (s *segmentKeys) openHeader(x *scratch, dst []byte, offset int, src []byte) error {
	return s.header.open(dst, uint64(offset), src, &x.tag, s.fillAD(&x.ad, 'H', len(src), uint64(offset)))
}

// sealSummary seals a summary's body: a key of its own by the segment's life and a fresh random salt, place 0, used once. The AD
// says what it is.
func sealSummary(k KeySource, volume [16]byte, seg *segment, ref *summaryRef, dst, src []byte) error {
	s, err := newSealer(k, labelSummary, volume[:], seg.life[:], ref.salt[:])
	if err != nil {
		return err
	}
	s.seal(dst, &ref.tag, 0, src, []byte(labelSummary))
	return nil
}

func unsealSummary(k KeySource, volume [16]byte, seg *segment, dst, src []byte) error {
	s, err := newSealer(k, labelSummary, volume[:], seg.life[:], seg.summary.salt[:])
	if err != nil {
		return err
	}
	return s.open(dst, 0, src, &seg.summary.tag, []byte(labelSummary))
}

// sealOnce seals a superblock or manifest body: a key of its own by a fresh random salt, place 0, used once.
func sealOnce(k KeySource, label string, volume, salt, dst []byte, tag *[tagSize]byte, src, ad []byte) error {
	s, err := newSealer(k, label, volume, salt)
	if err != nil {
		return err
	}
	s.seal(dst, tag, 0, src, ad)
	return nil
}

func openOnce(k KeySource, label string, volume, salt, dst, src []byte, tag *[tagSize]byte, ad []byte) error {
	s, err := newSealer(k, label, volume, salt)
	if err != nil {
		return err
	}
	return s.open(dst, 0, src, tag, ad)
}

// generator is the run's random generator: SHA-256 over a seed that is unique if any one of its sources is honest (DESIGN.md
// 5.1), and a block number. The committer's only.
type generator struct {
	seed [32]byte
	n    uint64
}

func (g *generator) read(b []byte) {
	var in [41]byte
	copy(in[:], g.seed[:])
	in[40] = 'r'
	for len(b) > 0 {
		binary.LittleEndian.PutUint64(in[32:], g.n)
		g.n++
		h := sha256.Sum256(in[:])
		b = b[copy(b, h[:]):]
	}
}

// NameHash returns the keyed hash of a name for logs, metrics and errors that leave the machine (DESIGN.md 1, C).
func (v *Volume) NameHash(name []byte) string {
	m := hmac.New(sha256.New, v.nameKey[:])
	m.Write(name)
	return fmt.Sprintf("%x", m.Sum(nil)[:8])
}

// blocksOf is short for the number of blocks that n bytes take.
func blocksOf(n int) device.BlockCount { return device.BlocksFor(n) }
