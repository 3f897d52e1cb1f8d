package xts

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/sys/cpu"
)

// roundKeys are those of AES-256.
const roundKeys = 15

type rounds struct{ enc, dec [roundKeys * 16]byte }

// newRounds expands a key of 32 bytes.
func newRounds(key []byte) *rounds {
	if !cpu.X86.HasAES || !cpu.X86.HasSSE41 {
		return nil
	}
	r := &rounds{}
	sbox := newSBox()
	word := func(w uint32) uint32 {
		return uint32(sbox[byte(w)]) | uint32(sbox[byte(w>>8)])<<8 | uint32(sbox[byte(w>>16)])<<16 | uint32(sbox[byte(w>>24)])<<24
	}
	var w [roundKeys * 4]uint32
	rcon := uint32(1)
	for i := range w {
		switch {
		case i < 8:
			w[i] = binary.LittleEndian.Uint32(key[4*i:])
		case i%8 == 0:
			w[i] = w[i-8] ^ word(bits.RotateLeft32(w[i-1], -8)) ^ rcon
			rcon <<= 1
		case i%8 == 4:
			w[i] = w[i-8] ^ word(w[i-1])
		default:
			w[i] = w[i-8] ^ w[i-1]
		}
		binary.LittleEndian.PutUint32(r.enc[4*i:], w[i])
	}
	invert(&r.dec[0], &r.enc[0])
	return r
}

// newSBox computes AES' table: the inverse in GF(2^8), then an affine map.
func newSBox() (s [256]byte) {
	p, q := byte(1), byte(1)
	for { // p goes through all elements by 3, q through their inverses
		p ^= p<<1 ^ byte(int8(p)>>7)&0x1b
		q ^= q << 1
		q ^= q << 2
		q ^= q << 4
		q ^= byte(int8(q)>>7) & 9
		s[p] = q ^ bits.RotateLeft8(q, 1) ^ bits.RotateLeft8(q, 2) ^ bits.RotateLeft8(q, 3) ^ bits.RotateLeft8(q, 4) ^ 0x63
		if p == 1 {
			s[0] = 0x63
			return s
		}
	}
}

func (r *rounds) encrypt(dst, src []byte, tweaks *[Size]byte) {
	encryptBlocks(&r.enc[0], &tweaks[0], &dst[0], &src[0], len(src))
}

func (r *rounds) decrypt(dst, src []byte, tweaks *[Size]byte) {
	decryptBlocks(&r.dec[0], &tweaks[0], &dst[0], &src[0], len(src))
}

// invert writes the round keys of decryption, last one first.
//
//go:noescape
func invert(dec, enc *byte)

// encryptBlocks encrypts n bytes, a multiple of 128, with the tweak of each block around it.
//
//go:noescape
func encryptBlocks(keys, tweaks, dst, src *byte, n int)

// decryptBlocks is the inverse.
//
//go:noescape
func decryptBlocks(keys, tweaks, dst, src *byte, n int)
