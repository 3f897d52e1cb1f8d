//go:build !purego

package aegis

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// detect lists the implementations in assembly that this CPU and its operating system can run, best first.
func detect() (impls []implementation) {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512VL && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VAES && x.HasBMI2 {
		impls = append(impls, implAVX512)
	}
	if x.HasAVX2 && x.HasAES && hasVAES() {
		impls = append(impls, implAVX2)
	}
	if x.HasAVX && x.HasAES {
		impls = append(impls, implAVX)
	}
	if x.HasAES && x.HasSSE2 {
		impls = append(impls, implAESNI)
	}
	return impls
}

// hasVAES reads leaf 7 of CPUID itself: golang.org/x/sys/cpu knows VAES only together with AVX-512.
func hasVAES() bool

// keepMask+32-n starts a mask of 32 bytes that keeps the first n.
//
//lint:ignore U1000 the assembly reads it
var keepMask = func() (m [64]byte) {
	for i := range 32 {
		m[i] = 0xff
	}
	return m
}()

//go:noescape
func sealX4AVX512(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int)

//go:noescape
func openX4AVX512(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int)

//go:noescape
func macX4AVX512(key, nonce, data *byte, n int, tag *byte, tagLen int)

//go:noescape
func sealLAVX512(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int)

//go:noescape
func openLAVX512(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int)

//go:noescape
func macLAVX512(key, nonce, data *byte, n int, tag *byte, tagLen int)

//go:noescape
func sealLAVX(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int, tails *byte)

//go:noescape
func openLAVX(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int, tails *byte)

//go:noescape
func macLAVX(key, nonce, data *byte, n int, tag *byte, tagLen int, tails *byte)

//go:noescape
func initPairAVX2(state, key, nonce, context *byte)

//go:noescape
func absorbPairAVX2(state, src *byte, step, n int)

//go:noescape
func sealPairAVX2(state, dst, src *byte, n int)

//go:noescape
func openPairAVX2(state, dst, src *byte, n int)

//go:noescape
func initLaneAESNI(state, key, nonce, context *byte)

//go:noescape
func absorbLaneAESNI(state, src *byte, half, step, n int)

//go:noescape
func sealLaneAESNI(state, dst, src *byte, half, step, n int)

//go:noescape
func openLaneAESNI(state, dst, src *byte, half, step, n int)

func (c *Cipher) seal(dst, tag, nonce, src, ad []byte) {
	pDst, pSrc, pAD := unsafe.SliceData(dst), unsafe.SliceData(src), unsafe.SliceData(ad)
	switch impl := implementation(active.Load()); {
	case impl == implAVX512 && c.variant == AEGIS128L:
		sealLAVX512(&c.key[0], &nonce[0], pDst, pSrc, len(src), pAD, len(ad), &tag[0], len(tag))
	case impl == implAVX512:
		sealX4AVX512(&c.key[0], &nonce[0], pDst, pSrc, len(src), pAD, len(ad), &tag[0], len(tag))
	case (impl == implAVX2 || impl == implAVX) && c.variant == AEGIS128L:
		var t tails
		t.load(ad, src)
		sealLAVX(&c.key[0], &nonce[0], pDst, pSrc, len(src), pAD, len(ad), &tag[0], len(tag), &t[0])
		t.store(dst)
	case impl == implAVX2:
		c.sealByLanes(impl, 32, dst, tag, nonce, src, ad)
	case impl == implAVX || impl == implAESNI:
		c.sealByLanes(impl, 16, dst, tag, nonce, src, ad)
	default:
		c.cryptPortable(dst, tag, nonce, src, ad, false)
	}
}

func (c *Cipher) open(dst, tag, nonce, src, ad []byte) {
	pDst, pSrc, pAD := unsafe.SliceData(dst), unsafe.SliceData(src), unsafe.SliceData(ad)
	switch impl := implementation(active.Load()); {
	case impl == implAVX512 && c.variant == AEGIS128L:
		openLAVX512(&c.key[0], &nonce[0], pDst, pSrc, len(src), pAD, len(ad), &tag[0], len(tag))
	case impl == implAVX512:
		openX4AVX512(&c.key[0], &nonce[0], pDst, pSrc, len(src), pAD, len(ad), &tag[0], len(tag))
	case (impl == implAVX2 || impl == implAVX) && c.variant == AEGIS128L:
		var t tails
		t.load(ad, src)
		openLAVX(&c.key[0], &nonce[0], pDst, pSrc, len(src), pAD, len(ad), &tag[0], len(tag), &t[0])
		t.store(dst)
	case impl == implAVX2:
		c.openByLanes(impl, 32, dst, tag, nonce, src, ad)
	case impl == implAVX || impl == implAESNI:
		c.openByLanes(impl, 16, dst, tag, nonce, src, ad)
	default:
		c.cryptPortable(dst, tag, nonce, src, ad, true)
	}
}

func (c *Cipher) mac(tag, nonce, data []byte) {
	p := unsafe.SliceData(data)
	switch impl := implementation(active.Load()); {
	case impl == implAVX512 && c.variant == AEGIS128L:
		macLAVX512(&c.key[0], &nonce[0], p, len(data), &tag[0], len(tag))
	case impl == implAVX512:
		macX4AVX512(&c.key[0], &nonce[0], p, len(data), &tag[0], len(tag))
	case (impl == implAVX2 || impl == implAVX) && c.variant == AEGIS128L:
		var t tails
		t.load(data, nil)
		macLAVX(&c.key[0], &nonce[0], p, len(data), &tag[0], len(tag), &t[0])
	case impl == implAVX2:
		c.macByLanes(impl, 32, tag, nonce, data)
	case impl == implAVX || impl == implAESNI:
		c.macByLanes(impl, 16, tag, nonce, data)
	default:
		c.macPortable(tag, nonce, data)
	}
}

// tails holds the partial blocks of additional data and message for l_avx_amd64.s, padded with zeros.
type tails [64]byte

func (t *tails) load(ad, src []byte) {
	copy(t[:32], ad[len(ad)&^31:])
	copy(t[32:], src[len(src)&^31:])
}

func (t *tails) store(dst []byte) { copy(dst[len(dst)&^31:], t[32:]) }

func (s *laneState) initLanes(off int, key, nonce, context *byte) {
	if s.impl == implAVX2 {
		initPairAVX2(&s.rows[0][off], key, nonce, context)
	} else {
		initLaneAESNI(&s.rows[0][off], key, nonce, context)
	}
}

func (s *laneState) absorbLanes(off int, src *byte, distance, n int) {
	if s.impl == implAVX2 {
		absorbPairAVX2(&s.rows[0][off], src, distance, n)
	} else {
		absorbLaneAESNI(&s.rows[0][off], src, s.width, distance, n)
	}
}

func (s *laneState) sealLanes(off int, dst, src *byte, n int) {
	if s.impl == implAVX2 {
		sealPairAVX2(&s.rows[0][off], dst, src, n)
	} else {
		sealLaneAESNI(&s.rows[0][off], dst, src, s.width, 2*s.width, n)
	}
}

func (s *laneState) openLanes(off int, dst, src *byte, n int) {
	if s.impl == implAVX2 {
		openPairAVX2(&s.rows[0][off], dst, src, n)
	} else {
		openLaneAESNI(&s.rows[0][off], dst, src, s.width, 2*s.width, n)
	}
}
