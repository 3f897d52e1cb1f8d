//go:build !purego && (amd64 || arm64)

package aegis

import (
	"encoding/binary"
	"unsafe"
)

// This file drives the assembly that knows whole blocks of one or two lanes only (lane_*.s, pair_*.s): the lanes of a
// message are independent until its end, so that each goes through the message on its own. The fused implementations
// do not come here.

// rowBytes is the distance of two rows of laneState, and the width of one under AEGIS-128X4.
const rowBytes = 16 * lanesMax

// laneChunk bounds how far the first lanes run ahead of the last ones, so that a message is fetched from memory into the
// first-level cache once rather than for each lane. It is a multiple of both block sizes.
const laneChunk = 4 << 10

// laneState is the state of all lanes: row r holds S_r of lane i at 16*i.
type laneState struct {
	rows  [8][rowBytes]byte
	width int // bytes in use in a row: 16, or 64 under AEGIS-128X4
	step  int // bytes of a row that the assembly works on at once: 16 or 32
	impl  implementation
}

// constants is what Init needs, in memory order: C0, C1, the contexts of the four lanes, and that of AEGIS-128L.
var constants = [112]byte{
	0x00, 0x01, 0x01, 0x02, 0x03, 0x05, 0x08, 0x0d, 0x15, 0x22, 0x37, 0x59, 0x90, 0xe9, 0x79, 0x62,
	0xdb, 0x3d, 0x18, 0x55, 0x6d, 0xc2, 0x2f, 0xf1, 0x20, 0x11, 0x31, 0x42, 0x73, 0xb5, 0x28, 0xdd,
	32: 0, 33: 3,
	48: 1, 49: 3,
	64: 2, 65: 3,
	80: 3, 81: 3,
}

func xor16(dst, a, b []byte) {
	binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(a)^binary.LittleEndian.Uint64(b))
	binary.LittleEndian.PutUint64(dst[8:], binary.LittleEndian.Uint64(a[8:])^binary.LittleEndian.Uint64(b[8:]))
}

// init is Init; the assembly fills in the rows.
func (s *laneState) init(key, nonce []byte) {
	context := constants[32:]
	if s.width == 16 {
		context = constants[96:]
	}
	for off := 0; off < s.width; off += s.step {
		s.initLanes(off, &key[0], &nonce[0], &context[off])
	}
}

// absorb takes n blocks at src, distance bytes apart; 0 takes the same block n times.
func (s *laneState) absorb(src *byte, distance, n int) {
	for off := 0; off < s.width; off += s.step {
		s.absorbLanes(off, (*byte)(unsafe.Add(unsafe.Pointer(src), off)), distance, n)
	}
}

// absorbAll takes data and pads its last block with zeros.
func (s *laneState) absorbAll(data []byte) {
	rate := 2 * s.width
	for len(data) >= rate {
		n := min(len(data), laneChunk) &^ (rate - 1)
		s.absorb(&data[0], rate, n/rate)
		data = data[n:]
	}
	if len(data) > 0 {
		var pad [2 * rowBytes]byte
		copy(pad[:rate], data)
		s.absorb(&pad[0], rate, 1)
	}
}

func (s *laneState) sealAll(dst, src []byte) {
	rate := 2 * s.width
	for len(src) >= rate {
		n := min(len(src), laneChunk) &^ (rate - 1)
		for off := 0; off < s.width; off += s.step {
			s.sealLanes(off, &dst[off], &src[off], n/rate)
		}
		dst, src = dst[n:], src[n:]
	}
	if len(src) > 0 {
		var pad [2 * rowBytes]byte
		copy(pad[:rate], src)
		for off := 0; off < s.width; off += s.step {
			s.sealLanes(off, &pad[off], &pad[off], 1)
		}
		copy(dst, pad[:len(src)])
	}
}

func (s *laneState) openAll(dst, src []byte) {
	rate := 2 * s.width
	for len(src) >= rate {
		n := min(len(src), laneChunk) &^ (rate - 1)
		for off := 0; off < s.width; off += s.step {
			s.openLanes(off, &dst[off], &src[off], n/rate)
		}
		dst, src = dst[n:], src[n:]
	}
	if len(src) > 0 {
		// A copy of the state seals zeros, which gives the key stream; the state itself takes the padded plaintext.
		var pad, stream [2 * rowBytes]byte
		ahead := *s
		for off := 0; off < s.width; off += s.step {
			ahead.sealLanes(off, &stream[off], &stream[off], 1)
		}
		n := copy(pad[:rate], src) // the only read of these bytes of src
		for i := range n {
			pad[i] ^= stream[i]
		}
		s.absorb(&pad[0], rate, 1)
		copy(dst, pad[:n])
	}
}

// finish runs the seven last rounds with the length block lo || hi on lanes from 0 to width.
func (s *laneState) finish(lo, hi uint64, width int) {
	var u [16]byte
	binary.LittleEndian.PutUint64(u[:], lo)
	binary.LittleEndian.PutUint64(u[8:], hi)
	var t [2 * rowBytes]byte
	for i := 0; i < width; i += 16 {
		xor16(t[i:], s.rows[2][i:], u[:])
		copy(t[s.width+i:], t[i:i+16])
	}
	for off := 0; off < width; off += s.step {
		s.absorbLanes(off, &t[off], 0, 7)
	}
}

// laneTag adds the tag of the lane at offset i to tag.
func (s *laneState) laneTag(tag []byte, i int) {
	for r := range 8 {
		switch {
		case len(tag) == TagSize256:
			half := tag[r/4*16:]
			xor16(half, half, s.rows[r][i:])
		case r < 7:
			xor16(tag, tag, s.rows[r][i:])
		}
	}
}

func (s *laneState) finalize(tag []byte, adLen, msgLen int) {
	s.finish(uint64(adLen)*8, uint64(msgLen)*8, s.width)
	clear(tag)
	for i := 0; i < s.width; i += 16 {
		s.laneTag(tag, i)
	}
}

func (s *laneState) finalizeMAC(tag []byte, dataLen int) {
	tagBits := uint64(len(tag)) * 8
	s.finish(uint64(dataLen)*8, tagBits, s.width)
	if lanes := s.width / 16; lanes > 1 {
		var tags [lanesMax * TagSize256]byte
		for i := range lanes {
			s.laneTag(tags[i*len(tag):(i+1)*len(tag)], 16*i)
		}
		// With 128 bits the tags of all lanes, two in a block; with 256 bits those of lanes 1 to 3, one in a block.
		list := tags[:lanes*len(tag)]
		if len(tag) == TagSize256 {
			list = list[TagSize256:]
		}
		for ; len(list) > 0; list = list[32:] {
			var m [2 * rowBytes]byte
			copy(m[:16], list)
			copy(m[s.width:], list[16:32])
			s.absorbLanes(0, &m[0], 0, 1) // lane 0; the others do not count any more
		}
		s.finish(uint64(lanes), tagBits, 16)
	}
	clear(tag)
	s.laneTag(tag, 0)
}

func (s *laneState) reset(c *Cipher, impl implementation, step int) {
	s.width, s.step, s.impl = 16*c.lanes(), step, impl
}

func (c *Cipher) sealByLanes(impl implementation, step int, dst, tag, nonce, src, ad []byte) {
	var s laneState
	s.reset(c, impl, step)
	s.init(c.key[:], nonce)
	s.absorbAll(ad)
	s.sealAll(dst, src)
	s.finalize(tag, len(ad), len(src))
}

func (c *Cipher) openByLanes(impl implementation, step int, dst, tag, nonce, src, ad []byte) {
	var s laneState
	s.reset(c, impl, step)
	s.init(c.key[:], nonce)
	s.absorbAll(ad)
	s.openAll(dst, src)
	s.finalize(tag, len(ad), len(src))
}

func (c *Cipher) macByLanes(impl implementation, step int, tag, nonce, data []byte) {
	var s laneState
	s.reset(c, impl, step)
	s.init(c.key[:], nonce)
	s.absorbAll(data)
	s.finalizeMAC(tag, len(data))
}
