//go:build !purego

#include "textflag.h"

// Two neighbouring lanes of AEGIS-128X4 in one YMM register a row, with AVX2 and VAES in its VEX form. lanes.go calls
// these for whole blocks, once for each pair of lanes, since sixteen registers cannot hold all four. Rows of the state
// and halves of a block are 64 bytes apart in memory, blocks are `step` bytes apart.
//
// Y0..Y7    S0..S7
// Y8, Y9    M0, M1
// Y10, Y11  key stream or block coming out
// Y12, Y13  scratch of UPDATE

// UPDATE is the draft's Update(M0, M1); avx512_amd64.h explains the order.
#define UPDATE(M0, M1) \
	VAESENC M0, Y7, Y12; \
	VAESENC M1, Y3, Y13; \
	VAESENC Y7, Y6, Y7; \
	VAESENC Y6, Y5, Y6; \
	VAESENC Y5, Y4, Y5; \
	VPXOR   Y13, Y4, Y4; \
	VAESENC Y3, Y2, Y3; \
	VAESENC Y2, Y1, Y2; \
	VAESENC Y1, Y0, Y1; \
	VPXOR   Y12, Y0, Y0

// CRYPT: (Y10, Y11) = the block in (Y8, Y9) with the key stream on it, z0 = S1^S6^(S2&S3) and z1 = S2^S5^(S6&S7).
#define CRYPT \
	VPXOR Y1, Y6, Y12; \
	VPXOR Y2, Y5, Y13; \
	VPAND Y2, Y3, Y10; \
	VPAND Y6, Y7, Y11; \
	VPXOR Y8, Y12, Y12; \
	VPXOR Y9, Y13, Y13; \
	VPXOR Y10, Y12, Y10; \
	VPXOR Y11, Y13, Y11

#define LOADSTATE(p) \
	VMOVDQU (p), Y0; \
	VMOVDQU 64(p), Y1; \
	VMOVDQU 128(p), Y2; \
	VMOVDQU 192(p), Y3; \
	VMOVDQU 256(p), Y4; \
	VMOVDQU 320(p), Y5; \
	VMOVDQU 384(p), Y6; \
	VMOVDQU 448(p), Y7

#define STORESTATE(p) \
	VMOVDQU Y0, (p); \
	VMOVDQU Y1, 64(p); \
	VMOVDQU Y2, 128(p); \
	VMOVDQU Y3, 192(p); \
	VMOVDQU Y4, 256(p); \
	VMOVDQU Y5, 320(p); \
	VMOVDQU Y6, 384(p); \
	VMOVDQU Y7, 448(p); \
	VZEROUPPER

// func initPairAVX2(state, key, nonce, context *byte)
TEXT ·initPairAVX2(SB), NOSPLIT, $0-32
	MOVQ           state+0(FP), AX
	MOVQ           key+8(FP), BX
	MOVQ           nonce+16(FP), SI
	MOVQ           context+24(FP), DI
	VBROADCASTI128 (SI), Y8
	VBROADCASTI128 (BX), Y9
	VMOVDQU        (DI), Y14
	VBROADCASTI128 ·constants+0(SB), Y2
	VBROADCASTI128 ·constants+16(SB), Y1
	VPXOR          Y8, Y9, Y0
	VMOVDQA        Y1, Y3
	VMOVDQA        Y0, Y4
	VPXOR          Y9, Y2, Y5
	VPXOR          Y9, Y1, Y6
	VMOVDQA        Y5, Y7
	MOVQ           $10, CX

loop:
	VPXOR Y14, Y3, Y3
	VPXOR Y14, Y7, Y7
	UPDATE(Y8, Y9)
	DECQ  CX
	JNZ   loop
	STORESTATE(AX)
	RET

// func absorbPairAVX2(state, src *byte, step, n int)
TEXT ·absorbPairAVX2(SB), NOSPLIT, $0-32
	MOVQ state+0(FP), AX
	MOVQ src+8(FP), SI
	MOVQ step+16(FP), R9
	MOVQ n+24(FP), CX
	LOADSTATE(AX)

loop:
	VMOVDQU (SI), Y8
	VMOVDQU 64(SI), Y9
	UPDATE(Y8, Y9)
	ADDQ    R9, SI
	DECQ    CX
	JNZ     loop
	STORESTATE(AX)
	RET

// func sealPairAVX2(state, dst, src *byte, n int)
TEXT ·sealPairAVX2(SB), NOSPLIT, $0-32
	MOVQ state+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	LOADSTATE(AX)

loop:
	VMOVDQU (SI), Y8
	VMOVDQU 64(SI), Y9
	CRYPT
	VMOVDQU Y10, (DI)
	VMOVDQU Y11, 64(DI)
	UPDATE(Y8, Y9)
	ADDQ    $128, SI
	ADDQ    $128, DI
	DECQ    CX
	JNZ     loop
	STORESTATE(AX)
	RET

// func openPairAVX2(state, dst, src *byte, n int)
TEXT ·openPairAVX2(SB), NOSPLIT, $0-32
	MOVQ state+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	LOADSTATE(AX)

loop:
	VMOVDQU (SI), Y8
	VMOVDQU 64(SI), Y9
	CRYPT
	VMOVDQU Y10, (DI)
	VMOVDQU Y11, 64(DI)
	UPDATE(Y10, Y11)
	ADDQ    $128, SI
	ADDQ    $128, DI
	DECQ    CX
	JNZ     loop
	STORESTATE(AX)
	RET
