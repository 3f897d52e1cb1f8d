//go:build !purego

#include "textflag.h"

// AEGIS-128L with AES instructions in VEX form on XMM registers, for CPUs without AVX-512: each function is a whole
// message. There are no byte masks here, so that partial blocks come in a buffer that the caller has padded with zeros:
// `tails` holds 32 bytes of ad and then 32 bytes of the message, which are replaced by the result.
//
// X0..X7    S0..S7
// X8, X9    block going in (M0, M1)
// X10, X11  block coming out
// X12, X13  scratch of UPDATE

// UPDATE is the draft's Update(M0, M1); avx512_amd64.h explains the order.
#define UPDATE(M0, M1) \
	VAESENC M0, X7, X12; \
	VAESENC M1, X3, X13; \
	VAESENC X7, X6, X7; \
	VAESENC X6, X5, X6; \
	VAESENC X5, X4, X5; \
	VPXOR   X13, X4, X4; \
	VAESENC X3, X2, X3; \
	VAESENC X2, X1, X2; \
	VAESENC X1, X0, X1; \
	VPXOR   X12, X0, X0

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
	UPDATE(X9, X8); UPDATE(X9, X8); UPDATE(X9, X8); UPDATE(X9, X8); UPDATE(X9, X8); \
	UPDATE(X9, X8); UPDATE(X9, X8); UPDATE(X9, X8); UPDATE(X9, X8); UPDATE(X9, X8)

// ABSORB takes len bytes at ptr; those of a partial block are at pad.
#define ABSORB(ptr, len, pad) \
	SUBQ $32, len; \
	JB   absorbTail; \
absorbLoop: \
	VMOVDQU (ptr), X8; \
	VMOVDQU 16(ptr), X9; \
	UPDATE(X8, X9); \
	ADDQ $32, ptr; \
	SUBQ $32, len; \
	JAE  absorbLoop; \
absorbTail: \
	ADDQ $32, len; \
	JZ   absorbDone; \
	VMOVDQU (pad), X8; \
	VMOVDQU 16(pad), X9; \
	UPDATE(X8, X9); \
absorbDone:

// CRYPT: (X10, X11) = the block in (X8, X9) with the key stream on it, z0 = S1^S6^(S2&S3) and z1 = S2^S5^(S6&S7).
#define CRYPT \
	VPXOR X1, X6, X12; \
	VPXOR X2, X5, X13; \
	VPAND X2, X3, X10; \
	VPAND X6, X7, X11; \
	VPXOR X8, X12, X12; \
	VPXOR X9, X13, X13; \
	VPXOR X10, X12, X10; \
	VPXOR X11, X13, X11

// FINALIZE makes the tag and returns; lo and hi are the two lengths in bytes. It serves the MAC as well.
#define FINALIZE(lo, hi, tag, tagLen) \
	SHLQ $3, lo; \
	SHLQ $3, hi; \
	VMOVQ lo, X8; \
	VPINSRQ $1, hi, X8, X8; \
	VPXOR X2, X8, X8; \
	UPDATE(X8, X8); UPDATE(X8, X8); UPDATE(X8, X8); UPDATE(X8, X8); \
	UPDATE(X8, X8); UPDATE(X8, X8); UPDATE(X8, X8); \
	VPXOR X0, X1, X0; \
	VPXOR X2, X3, X2; \
	VPXOR X4, X5, X4; \
	VPXOR X0, X2, X0; \
	VPXOR X4, X6, X4; \
	CMPQ tagLen, $16; \
	JNE  tag256; \
	VPXOR X0, X4, X0; \
	VMOVDQU X0, (tag); \
	RET; \
tag256: \
	VPXOR X4, X7, X4; \
	VMOVDQU X0, (tag); \
	VMOVDQU X4, 16(tag); \
	RET

// func sealLAVX(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int, tails *byte)
TEXT ·sealLAVX(SB), NOSPLIT, $0-80
	MOVQ key+0(FP), AX
	MOVQ nonce+8(FP), BX
	MOVQ ad+40(FP), DX
	MOVQ adLen+48(FP), R8
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	MOVQ tails+72(FP), R9
	INIT(AX, BX)
	ABSORB(DX, R8, R9)
	SUBQ $32, CX
	JB   tail

loop:
	VMOVDQU (SI), X8
	VMOVDQU 16(SI), X9
	CRYPT
	VMOVDQU X10, (DI)
	VMOVDQU X11, 16(DI)
	UPDATE(X8, X9)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JAE  loop

tail:
	ADDQ $32, CX
	JZ   done
	VMOVDQU 32(R9), X8
	VMOVDQU 48(R9), X9
	CRYPT
	VMOVDQU X10, 32(R9)
	VMOVDQU X11, 48(R9)
	UPDATE(X8, X9)

done:
	MOVQ adLen+48(FP), AX
	MOVQ n+32(FP), BX
	MOVQ tag+56(FP), DI
	MOVQ tagLen+64(FP), CX
	FINALIZE(AX, BX, DI, CX)

// func openLAVX(key, nonce, dst, src *byte, n int, ad *byte, adLen int, tag *byte, tagLen int, tails *byte)
TEXT ·openLAVX(SB), NOSPLIT, $0-80
	MOVQ key+0(FP), AX
	MOVQ nonce+8(FP), BX
	MOVQ ad+40(FP), DX
	MOVQ adLen+48(FP), R8
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	MOVQ tails+72(FP), R9
	INIT(AX, BX)
	ABSORB(DX, R8, R9)
	SUBQ $32, CX
	JB   tail

loop:
	VMOVDQU (SI), X8
	VMOVDQU 16(SI), X9
	CRYPT
	VMOVDQU X10, (DI)
	VMOVDQU X11, 16(DI)
	UPDATE(X10, X11)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JAE  loop

tail:
	ADDQ $32, CX
	JZ   done
	VMOVDQU 32(R9), X8
	VMOVDQU 48(R9), X9
	CRYPT

	// Beyond the message the plaintext is zero, not the key stream: keep CX bytes of the block.
	LEAQ    ·keepMask+32(SB), R10
	SUBQ    CX, R10
	VPAND   (R10), X10, X10
	VPAND   16(R10), X11, X11
	VMOVDQU X10, 32(R9)
	VMOVDQU X11, 48(R9)
	UPDATE(X10, X11)

done:
	MOVQ adLen+48(FP), AX
	MOVQ n+32(FP), BX
	MOVQ tag+56(FP), DI
	MOVQ tagLen+64(FP), CX
	FINALIZE(AX, BX, DI, CX)

// func macLAVX(key, nonce, data *byte, n int, tag *byte, tagLen int, tails *byte)
TEXT ·macLAVX(SB), NOSPLIT, $0-56
	MOVQ key+0(FP), AX
	MOVQ nonce+8(FP), BX
	MOVQ data+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ tails+48(FP), R9
	INIT(AX, BX)
	ABSORB(SI, CX, R9)
	MOVQ n+24(FP), AX
	MOVQ tagLen+40(FP), BX
	MOVQ tag+32(FP), DI
	MOVQ BX, CX
	FINALIZE(AX, BX, DI, CX)
