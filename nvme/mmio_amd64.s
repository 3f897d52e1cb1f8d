//go:build !purego

#include "textflag.h"

// func storeMMIO32(p *uint32, v uint32)
TEXT ·storeMMIO32(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL v+8(FP), BX
	MOVL BX, (AX)
	RET

// func storeMMIO64(p *uint64, v uint64)
TEXT ·storeMMIO64(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET

// func loadMMIO32(p *uint32) uint32
TEXT ·loadMMIO32(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL (AX), BX
	MOVL BX, ret+8(FP)
	RET

// func loadMMIO64(p *uint64) uint64
TEXT ·loadMMIO64(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ (AX), BX
	MOVQ BX, ret+8(FP)
	RET
