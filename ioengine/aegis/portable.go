package aegis

import (
	"encoding/binary"
	"math/bits"
)

// The portable implementation follows the draft step by step and is what all others are tested against. Its AES round
// looks up a table at secret indices: on a CPU with a data cache, whoever can watch the cache learns about the state.
// It is there for CPUs without AES instructions and for -tags purego, not for protecting secrets next to an adversary.

// block is an AES block as four little-endian words, one a column.
type block [4]uint32

// lanesMax is the degree of AEGIS-128X4.
const lanesMax = 4

// portableState is V[row][lane] of the draft; AEGIS-128L uses lane 0 only.
type portableState struct {
	v     [8][lanesMax]block
	lanes int
}

var (
	constC0 = loadBlock([]byte{0x00, 0x01, 0x01, 0x02, 0x03, 0x05, 0x08, 0x0d, 0x15, 0x22, 0x37, 0x59, 0x90, 0xe9, 0x79, 0x62})
	constC1 = loadBlock([]byte{0xdb, 0x3d, 0x18, 0x55, 0x6d, 0xc2, 0x2f, 0xf1, 0x20, 0x11, 0x31, 0x42, 0x73, 0xb5, 0x28, 0xdd})
)

// roundTable holds MixColumns(SubBytes(x)) for a byte in the first row; the other rows are rotations of it.
var roundTable = func() (t [256]uint32) {
	// p runs through the field by powers of 3, q by powers of its inverse, so that q is 1/p at each step.
	p, q := byte(1), byte(1)
	for {
		p ^= xtime(p)
		q ^= q << 1
		q ^= q << 2
		q ^= q << 4
		if q&0x80 != 0 {
			q ^= 0x09
		}
		t[p] = column(q ^ bits.RotateLeft8(q, 1) ^ bits.RotateLeft8(q, 2) ^ bits.RotateLeft8(q, 3) ^ bits.RotateLeft8(q, 4) ^ 0x63)
		if p == 1 {
			break
		}
	}
	t[0] = column(0x63) // zero has no inverse
	return t
}()

// xtime multiplies by x in the field of AES.
func xtime(b byte) byte { return b<<1 ^ b>>7*0x1b }

// column is s times the first column of the MixColumns matrix: 2, 1, 1, 3.
func column(s byte) uint32 {
	d := uint32(xtime(s))
	return d | uint32(s)<<8 | uint32(s)<<16 | (d^uint32(s))<<24
}

func loadBlock(b []byte) block {
	_ = b[15]
	return block{
		binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]),
		binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:]),
	}
}

func storeBlock(b []byte, x block) {
	_ = b[15]
	binary.LittleEndian.PutUint32(b, x[0])
	binary.LittleEndian.PutUint32(b[4:], x[1])
	binary.LittleEndian.PutUint32(b[8:], x[2])
	binary.LittleEndian.PutUint32(b[12:], x[3])
}

func lengthBlock(lo, hi uint64) block {
	return block{uint32(lo), uint32(lo >> 32), uint32(hi), uint32(hi >> 32)}
}

func xor(a, b block) block { return block{a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2], a[3] ^ b[3]} }

func and(a, b block) block { return block{a[0] & b[0], a[1] & b[1], a[2] & b[2], a[3] & b[3]} }

// aesRound is the draft's AESRound(in, rk). ShiftRows takes row i of column c from column c+i.
func aesRound(in, rk block) (out block) {
	for c := range 4 {
		out[c] = rk[c] ^ roundTable[byte(in[c])] ^
			bits.RotateLeft32(roundTable[byte(in[(c+1)%4]>>8)], 8) ^
			bits.RotateLeft32(roundTable[byte(in[(c+2)%4]>>16)], 16) ^
			bits.RotateLeft32(roundTable[byte(in[(c+3)%4]>>24)], 24)
	}
	return out
}

// updateLane is Update on one lane.
func (s *portableState) updateLane(i int, m0, m1 block) {
	last := s.v[7][i]
	for r := 7; r > 0; r-- {
		s.v[r][i] = aesRound(s.v[r-1][i], s.v[r][i])
	}
	s.v[0][i] = xor(aesRound(last, s.v[0][i]), m0)
	s.v[4][i] = xor(s.v[4][i], m1)
}

func (s *portableState) init(key, nonce []byte) {
	k, n := loadBlock(key), loadBlock(nonce)
	for i := range s.lanes {
		init := [8]block{xor(k, n), constC1, constC0, constC1, xor(k, n), xor(k, constC0), xor(k, constC1), xor(k, constC0)}
		for r, b := range init {
			s.v[r][i] = b
		}
		context := block{uint32(i) | uint32(s.lanes-1)<<8} // zero for AEGIS-128L
		for range 10 {
			s.v[3][i] = xor(s.v[3][i], context)
			s.v[7][i] = xor(s.v[7][i], context)
			s.updateLane(i, n, k)
		}
	}
}

// rate is the number of bytes a block of the variant has.
func (s *portableState) rate() int { return 32 * s.lanes }

// absorb takes one whole block of additional data.
func (s *portableState) absorb(b []byte) {
	for i := range s.lanes {
		s.updateLane(i, loadBlock(b[16*i:]), loadBlock(b[16*(s.lanes+i):]))
	}
}

// absorbAll takes data and pads its last block with zeros.
func (s *portableState) absorbAll(data []byte) {
	for rate := s.rate(); len(data) > 0; data = data[min(rate, len(data)):] {
		var pad [32 * lanesMax]byte
		copy(pad[:rate], data)
		s.absorb(pad[:rate])
	}
}

// crypt encrypts or decrypts b, a whole block, in place; only n bytes of it are the message, the rest is zero.
func (s *portableState) crypt(b []byte, n int, decrypt bool) {
	var stream [32 * lanesMax]byte
	for i := range s.lanes {
		v := func(r int) block { return s.v[r][i] }
		storeBlock(stream[16*i:], xor(xor(v(1), v(6)), and(v(2), v(3))))
		storeBlock(stream[16*(s.lanes+i):], xor(xor(v(2), v(5)), and(v(6), v(7))))
	}
	if !decrypt {
		s.absorb(b)
	}
	for j := range n {
		b[j] ^= stream[j]
	}
	if decrypt {
		s.absorb(b)
	}
}

func (s *portableState) cryptAll(dst, src []byte, decrypt bool) {
	for rate := s.rate(); len(src) > 0; {
		var b [32 * lanesMax]byte
		n := copy(b[:rate], src) // the only read of src
		s.crypt(b[:rate], n, decrypt)
		copy(dst, b[:n])
		dst, src = dst[n:], src[n:]
	}
}

// finish runs the seven last updates with the length block u on the given number of lanes.
func (s *portableState) finish(u block, lanes int) {
	for i := range lanes {
		t := xor(s.v[2][i], u)
		for range 7 {
			s.updateLane(i, t, t)
		}
	}
}

// laneTag is the tag of one lane: a block, or two if the tag has 256 bits.
func (s *portableState) laneTag(i, tagSize int) (t0, t1 block) {
	for r := range 4 {
		t0, t1 = xor(t0, s.v[r][i]), xor(t1, s.v[4+r][i])
	}
	if tagSize == TagSize128 {
		return xor(xor(t0, t1), s.v[7][i]), block{}
	}
	return t0, t1
}

func storeTag(tag []byte, t0, t1 block) {
	storeBlock(tag, t0)
	if len(tag) == TagSize256 {
		storeBlock(tag[16:], t1)
	}
}

// finalize is Finalize: the tags of all lanes are added up.
func (s *portableState) finalize(tag []byte, adLen, msgLen int) {
	s.finish(lengthBlock(uint64(adLen)*8, uint64(msgLen)*8), s.lanes)
	var t0, t1 block
	for i := range s.lanes {
		x0, x1 := s.laneTag(i, len(tag))
		t0, t1 = xor(t0, x0), xor(t1, x1)
	}
	storeTag(tag, t0, t1)
}

// finalizeMAC is FinalizeMac: the tags of the lanes are absorbed into lane 0, which is then finished once more.
func (s *portableState) finalizeMAC(tag []byte, dataLen int) {
	tagBits := uint64(len(tag)) * 8
	s.finish(lengthBlock(uint64(dataLen)*8, tagBits), s.lanes)
	if s.lanes > 1 {
		var t0, t1 [lanesMax]block
		for i := range s.lanes {
			t0[i], t1[i] = s.laneTag(i, len(tag))
		}
		if len(tag) == TagSize128 {
			s.updateLane(0, t0[0], t0[1])
			s.updateLane(0, t0[2], t0[3])
		} else {
			for i := 1; i < s.lanes; i++ {
				s.updateLane(0, t0[i], t1[i])
			}
		}
		s.finish(lengthBlock(uint64(s.lanes), tagBits), 1)
	}
	t0, t1 := s.laneTag(0, len(tag))
	storeTag(tag, t0, t1)
}

func (c *Cipher) lanes() int {
	if c.variant == AEGIS128X4 {
		return 4
	}
	return 1
}

// cryptPortable seals or opens; it only computes the tag, Open compares it.
func (c *Cipher) cryptPortable(dst, tag, nonce, src, ad []byte, decrypt bool) {
	s := portableState{lanes: c.lanes()}
	s.init(c.key[:], nonce)
	s.absorbAll(ad)
	s.cryptAll(dst, src, decrypt)
	s.finalize(tag, len(ad), len(src))
}

func (c *Cipher) macPortable(tag, nonce, data []byte) {
	s := portableState{lanes: c.lanes()}
	s.init(c.key[:], nonce)
	s.absorbAll(data)
	s.finalizeMAC(tag, len(data))
}
