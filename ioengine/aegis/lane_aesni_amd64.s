//go:build !purego

#include "textflag.h"

// One lane of AEGIS-128L, or of AEGIS-128X4, with AES-NI in its SSE form, which every CPU with AES instructions has, and
// those that QEMU emulates as well. lanes.go calls these for whole blocks. The lane's eight state blocks are 64 bytes
// apart in memory; the two halves of a message block are `half` bytes apart and blocks are `step` bytes apart.
//
// X0..X7    S0..S7
// X8, X9    M0, M1
// X10..X13  scratch

// ROUNDTO: D ^= AESRound(S). AESENC has two operands, so that S is moved first.
#define ROUNDTO(S, D, T) \
	MOVO   S, T; \
	AESENC D, T; \
	MOVO   T, D

// UPDATE is the draft's Update(X8, X9). It clobbers X10 to X13.
#define UPDATE \
	MOVO   X7, X12; \
	AESENC X8, X12; \
	MOVO   X3, X13; \
	AESENC X9, X13; \
	ROUNDTO(X6, X7, X10); \
	ROUNDTO(X5, X6, X11); \
	ROUNDTO(X4, X5, X10); \
	PXOR   X13, X4; \
	ROUNDTO(X2, X3, X11); \
	ROUNDTO(X1, X2, X10); \
	ROUNDTO(X0, X1, X11); \
	PXOR   X12, X0

// STREAM: X10 = z0 = S1^S6^(S2&S3), X11 = z1 = S2^S5^(S6&S7).
#define STREAM \
	MOVO X2, X10; \
	MOVO X6, X11; \
	PAND X3, X10; \
	PAND X7, X11; \
	PXOR X1, X10; \
	PXOR X2, X11; \
	PXOR X6, X10; \
	PXOR X5, X11

#define LOADSTATE(p) \
	MOVOU (p), X0; \
	MOVOU 64(p), X1; \
	MOVOU 128(p), X2; \
	MOVOU 192(p), X3; \
	MOVOU 256(p), X4; \
	MOVOU 320(p), X5; \
	MOVOU 384(p), X6; \
	MOVOU 448(p), X7

#define STORESTATE(p) \
	MOVOU X0, (p); \
	MOVOU X1, 64(p); \
	MOVOU X2, 128(p); \
	MOVOU X3, 192(p); \
	MOVOU X4, 256(p); \
	MOVOU X5, 320(p); \
	MOVOU X6, 384(p); \
	MOVOU X7, 448(p)

// func initLaneAESNI(state, key, nonce, context *byte)
TEXT ·initLaneAESNI(SB), NOSPLIT, $0-32
	MOVQ  state+0(FP), AX
	MOVQ  key+8(FP), BX
	MOVQ  nonce+16(FP), SI
	MOVQ  context+24(FP), DI
	MOVOU (SI), X8
	MOVOU (BX), X9
	MOVOU (DI), X14
	MOVOU ·constants+0(SB), X2
	MOVOU ·constants+16(SB), X1
	MOVO  X8, X0
	PXOR  X9, X0
	MOVO  X1, X3
	MOVO  X0, X4
	MOVO  X9, X5
	PXOR  X2, X5
	MOVO  X9, X6
	PXOR  X1, X6
	MOVO  X5, X7
	MOVQ  $10, CX

loop:
	PXOR X14, X3
	PXOR X14, X7
	UPDATE
	DECQ CX
	JNZ  loop
	STORESTATE(AX)
	RET

// func absorbLaneAESNI(state, src *byte, half, step, n int)
TEXT ·absorbLaneAESNI(SB), NOSPLIT, $0-40
	MOVQ state+0(FP), AX
	MOVQ src+8(FP), SI
	MOVQ half+16(FP), R8
	MOVQ step+24(FP), R9
	MOVQ n+32(FP), CX
	LOADSTATE(AX)

loop:
	MOVOU (SI), X8
	MOVOU (SI)(R8*1), X9
	UPDATE
	ADDQ  R9, SI
	DECQ  CX
	JNZ   loop
	STORESTATE(AX)
	RET

// func sealLaneAESNI(state, dst, src *byte, half, step, n int)
TEXT ·sealLaneAESNI(SB), NOSPLIT, $0-48
	MOVQ state+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ half+24(FP), R8
	MOVQ step+32(FP), R9
	MOVQ n+40(FP), CX
	LOADSTATE(AX)

loop:
	MOVOU (SI), X8
	MOVOU (SI)(R8*1), X9
	STREAM
	PXOR  X8, X10
	PXOR  X9, X11
	MOVOU X10, (DI)
	MOVOU X11, (DI)(R8*1)
	UPDATE
	ADDQ  R9, SI
	ADDQ  R9, DI
	DECQ  CX
	JNZ   loop
	STORESTATE(AX)
	RET

// func openLaneAESNI(state, dst, src *byte, half, step, n int)
TEXT ·openLaneAESNI(SB), NOSPLIT, $0-48
	MOVQ state+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ half+24(FP), R8
	MOVQ step+32(FP), R9
	MOVQ n+40(FP), CX
	LOADSTATE(AX)

loop:
	MOVOU (SI), X8
	MOVOU (SI)(R8*1), X9
	STREAM
	PXOR  X10, X8
	PXOR  X11, X9
	MOVOU X8, (DI)
	MOVOU X9, (DI)(R8*1)
	UPDATE
	ADDQ  R9, SI
	ADDQ  R9, DI
	DECQ  CX
	JNZ   loop
	STORESTATE(AX)
	RET
