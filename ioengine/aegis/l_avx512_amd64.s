//go:build !purego

#include "textflag.h"
#include "avx512_amd64.h"

// AEGIS-128L with AVX-512VL: XMM registers, but three-input logic and byte masks. As in x4_avx512_amd64.s each function
// is a whole message, which is what makes small records cheap. No register wider than XMM is written, so that there is
// no upper half to clear.
//
// X0..X7    S0..S7
// X8, X9    block going in (M0, M1)
// X10, X11  block coming out
// X12, X13  scratch of UPDATE
// X14       zero, in blocks of the message
// K1, K2    masks of a partial block's two halves

#define UPDATEL(M0, M1) UPDATE(X0, X1, X2, X3, X4, X5, X6, X7, M0, M1, X12, X13)
#define UPDATEMSG(M0, M1) UPDATE3(X0, X1, X2, X3, X4, X5, X6, X7, M0, M1, X14, X12, X13)

// INIT is Init(key, nonce) with pointers to both.
#define INIT(key, nonce) \
	VMOVDQU (key), X8; \
	VMOVDQU (nonce), X9; \
	VMOVDQU ·constants+0(SB), X2; \
	VMOVDQU ·constants+16(SB), X1; \
	VPXOR X8, X9, X0; \
	VMOVDQA X1, X3; \
	VMOVDQA X0, X4; \
	VPXOR X8, X2, X5; \
	VPXOR X8, X1, X6; \
	VMOVDQA X5, X7; \
	UPDATEL(X9, X8); UPDATEL(X9, X8); UPDATEL(X9, X8); UPDATEL(X9, X8); UPDATEL(X9, X8); \
	UPDATEL(X9, X8); UPDATEL(X9, X8); UPDATEL(X9, X8); UPDATEL(X9, X8); UPDATEL(X9, X8)

// MASKS sets K1 and K2 for a partial block of len bytes, 1 to 31.
#define MASKS(len) \
	MOVL  $-1, R10; \
	BZHIL len, R10, R11; \
	KMOVD R11, K1; \
	SHRL  $16, R11; \
	KMOVD R11, K2

// ABSORB takes len bytes at ptr as additional data or as data of a MAC.
#define ABSORB(ptr, len) \
	SUBQ $32, len; \
	JB   absorbTail; \
absorbLoop: \
	VMOVDQU (ptr), X8; \
	VMOVDQU 16(ptr), X9; \
	UPDATEL(X8, X9); \
	ADDQ $32, ptr; \
	SUBQ $32, len; \
	JAE  absorbLoop; \
absorbTail: \
	ADDQ $32, len; \
	JZ   absorbDone; \
	MASKS(len); \
	VMOVDQU8.Z (ptr), K1, X8; \
	VMOVDQU8.Z 16(ptr), K2, X9; \
	UPDATEL(X8, X9); \
absorbDone:

// CRYPT: (X10, X11) = the block in (X8, X9) with the key stream on it, z0 = S1^S6^(S2&S3) and z1 = S2^S5^(S6&S7).
#define CRYPT \
	VMOVDQA X1, X10; \
	VMOVDQA X2, X11; \
	XORAND(X2, X3, X10); \
	XORAND(X6, X7, X11); \
	XOR3(X6, X8, X10); \
	XOR3(X5, X9, X11)

// FINALIZE makes the tag and returns; lo and hi are the two lengths in bytes. It serves the MAC as well.
#define FINALIZE(lo, hi, tag, tagLen) \
	SHLQ $3, lo; \
	SHLQ $3, hi; \
	VMOVQ lo, X8; \
	VPINSRQ $1, hi, X8, X8; \
	VPXOR X2, X8, X8; \
	UPDATEL(X8, X8); UPDATEL(X8, X8); UPDATEL(X8, X8); UPDATEL(X8, X8); \
	UPDATEL(X8, X8); UPDATEL(X8, X8); UPDATEL(X8, X8); \
	XOR3(X1, X2, X0); \
	CMPQ tagLen, $16; \
	JNE  tag256; \
	XOR3(X3, X4, X0); \
	XOR3(X5, X6, X0); \
	VMOVDQU X0, (tag); \
	RET; \
tag256: \
	VPXOR X3, X0, X0; \
	XOR3(X5, X6, X4); \
	VPXOR X7, X4, X4; \
	VMOVDQU X0, (tag); \
	VMOVDQU X4, 16(tag); \
	RET

// func sealLAVX512(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int)
TEXT ·sealLAVX512(SB), NOSPLIT, $0-72
	MOVQ key+0(FP), AX
	MOVQ nonce+8(FP), BX
	MOVQ ad+40(FP), DX
	MOVQ adLen+48(FP), R8
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	INIT(AX, BX)
	ABSORB(DX, R8)
	VPXOR X14, X14, X14
	SUBQ $32, CX
	JB   tail

loop:
	VMOVDQU (SI), X8
	VMOVDQU 16(SI), X9
	CRYPT
	VMOVDQU X10, (DI)
	VMOVDQU X11, 16(DI)
	UPDATEMSG(X8, X9)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JAE  loop

tail:
	ADDQ $32, CX
	JZ   done
	MASKS(CX)
	VMOVDQU8.Z (SI), K1, X8
	VMOVDQU8.Z 16(SI), K2, X9
	CRYPT
	VMOVDQU8 X10, K1, (DI)
	VMOVDQU8 X11, K2, 16(DI)
	UPDATEMSG(X8, X9)

done:
	MOVQ adLen+48(FP), AX
	MOVQ n+32(FP), BX
	MOVQ tag+56(FP), DI
	MOVQ tagLen+64(FP), CX
	FINALIZE(AX, BX, DI, CX)

// func openLAVX512(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int)
TEXT ·openLAVX512(SB), NOSPLIT, $0-72
	MOVQ key+0(FP), AX
	MOVQ nonce+8(FP), BX
	MOVQ ad+40(FP), DX
	MOVQ adLen+48(FP), R8
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	INIT(AX, BX)
	ABSORB(DX, R8)
	VPXOR X14, X14, X14
	SUBQ $32, CX
	JB   tail

loop:
	VMOVDQU (SI), X8
	VMOVDQU 16(SI), X9
	CRYPT
	VMOVDQU X10, (DI)
	VMOVDQU X11, 16(DI)
	UPDATEMSG(X10, X11)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JAE  loop

tail:
	ADDQ $32, CX
	JZ   done
	MASKS(CX)
	VMOVDQU8.Z (SI), K1, X8
	VMOVDQU8.Z 16(SI), K2, X9
	CRYPT

	// Beyond the message the plaintext is zero, not the key stream.
	VMOVDQU8.Z X10, K1, X10
	VMOVDQU8.Z X11, K2, X11
	VMOVDQU8 X10, K1, (DI)
	VMOVDQU8 X11, K2, 16(DI)
	UPDATEMSG(X10, X11)

done:
	MOVQ adLen+48(FP), AX
	MOVQ n+32(FP), BX
	MOVQ tag+56(FP), DI
	MOVQ tagLen+64(FP), CX
	FINALIZE(AX, BX, DI, CX)

// func macLAVX512(key, nonce, data *byte, n int, tag *byte, tagLen int)
TEXT ·macLAVX512(SB), NOSPLIT, $0-48
	MOVQ key+0(FP), AX
	MOVQ nonce+8(FP), BX
	MOVQ data+16(FP), SI
	MOVQ n+24(FP), CX
	INIT(AX, BX)
	ABSORB(SI, CX)
	MOVQ n+24(FP), AX
	MOVQ tagLen+40(FP), BX
	MOVQ tag+32(FP), DI
	MOVQ BX, CX
	FINALIZE(AX, BX, DI, CX)
