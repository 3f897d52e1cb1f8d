#include "textflag.h"

// X0..X7 eight blocks, X8 a round key, X9 scratch.

#define LOAD(at, X) \
	MOVOU at(SI), X; \
	MOVOU at(DX), X9; \
	PXOR  X9, X; \
	PXOR  X8, X

#define STORE(at, X) \
	MOVOU at(DX), X9; \
	PXOR  X9, X; \
	MOVOU X, at(DI)

#define ROUND(OP, at) \
	MOVOU at(AX), X8; \
	OP X8, X0; OP X8, X1; OP X8, X2; OP X8, X3; OP X8, X4; OP X8, X5; OP X8, X6; OP X8, X7

// func encryptBlocks(keys, tweaks, dst, src *byte, n int)
TEXT ·encryptBlocks(SB), NOSPLIT, $0-40
	MOVQ keys+0(FP), AX
	MOVQ tweaks+8(FP), DX
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX

encryptLoop:
	MOVOU (AX), X8
	LOAD(0, X0); LOAD(16, X1); LOAD(32, X2); LOAD(48, X3); LOAD(64, X4); LOAD(80, X5); LOAD(96, X6); LOAD(112, X7)
	ROUND(AESENC, 16)
	ROUND(AESENC, 32)
	ROUND(AESENC, 48)
	ROUND(AESENC, 64)
	ROUND(AESENC, 80)
	ROUND(AESENC, 96)
	ROUND(AESENC, 112)
	ROUND(AESENC, 128)
	ROUND(AESENC, 144)
	ROUND(AESENC, 160)
	ROUND(AESENC, 176)
	ROUND(AESENC, 192)
	ROUND(AESENC, 208)
	ROUND(AESENCLAST, 224)
	STORE(0, X0); STORE(16, X1); STORE(32, X2); STORE(48, X3); STORE(64, X4); STORE(80, X5); STORE(96, X6); STORE(112, X7)
	ADDQ $128, SI
	ADDQ $128, DI
	ADDQ $128, DX
	SUBQ $128, CX
	JNE  encryptLoop
	RET

// func decryptBlocks(keys, tweaks, dst, src *byte, n int)
TEXT ·decryptBlocks(SB), NOSPLIT, $0-40
	MOVQ keys+0(FP), AX
	MOVQ tweaks+8(FP), DX
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX

decryptLoop:
	MOVOU (AX), X8
	LOAD(0, X0); LOAD(16, X1); LOAD(32, X2); LOAD(48, X3); LOAD(64, X4); LOAD(80, X5); LOAD(96, X6); LOAD(112, X7)
	ROUND(AESDEC, 16)
	ROUND(AESDEC, 32)
	ROUND(AESDEC, 48)
	ROUND(AESDEC, 64)
	ROUND(AESDEC, 80)
	ROUND(AESDEC, 96)
	ROUND(AESDEC, 112)
	ROUND(AESDEC, 128)
	ROUND(AESDEC, 144)
	ROUND(AESDEC, 160)
	ROUND(AESDEC, 176)
	ROUND(AESDEC, 192)
	ROUND(AESDEC, 208)
	ROUND(AESDECLAST, 224)
	STORE(0, X0); STORE(16, X1); STORE(32, X2); STORE(48, X3); STORE(64, X4); STORE(80, X5); STORE(96, X6); STORE(112, X7)
	ADDQ $128, SI
	ADDQ $128, DI
	ADDQ $128, DX
	SUBQ $128, CX
	JNE  decryptLoop
	RET

// func invert(dec, enc *byte)
TEXT ·invert(SB), NOSPLIT, $0-16
	MOVQ  dec+0(FP), DI
	MOVQ  enc+8(FP), SI
	MOVOU 224(SI), X0
	MOVOU X0, (DI)
	MOVQ  $13, CX
	ADDQ  $208, SI

invertLoop:
	ADDQ   $16, DI
	MOVOU  (SI), X0
	AESIMC X0, X0
	MOVOU  X0, (DI)
	SUBQ   $16, SI
	SUBQ   $1, CX
	JNE    invertLoop
	ADDQ   $16, DI
	MOVOU  (SI), X0
	MOVOU  X0, (DI)
	RET
