//go:build !purego

#include "textflag.h"

// func moveIn(dst, src *byte, n int)
TEXT ·moveIn(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	CLD
	REP; MOVSB
	RET

// func moveOut(dst, src *byte, n int)
TEXT ·moveOut(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	PREFETCHT0 1024(SI)
	MOVOU   (SI), X0
	MOVOU   16(SI), X1
	MOVOU   32(SI), X2
	MOVOU   48(SI), X3
	MOVNTO  X0, (DI)
	MOVNTO  X1, 16(DI)
	MOVNTO  X2, 32(DI)
	MOVNTO  X3, 48(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JNE  loop
	SFENCE
	RET
