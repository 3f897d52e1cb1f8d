//go:build !purego

#include "textflag.h"

// DMB $2 is DMB OSHST: stores before it are seen first by everybody in the outer shareable domain. DMB $1 is DMB OSHLD.

// func storeMMIO32(p *uint32, v uint32)
TEXT ·storeMMIO32(SB), NOSPLIT, $0-12
	MOVD p+0(FP), R0
	MOVWU v+8(FP), R1
	DMB  $2
	MOVW R1, (R0)
	RET

// func storeMMIO64(p *uint64, v uint64)
TEXT ·storeMMIO64(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD v+8(FP), R1
	DMB  $2
	MOVD R1, (R0)
	RET

// func loadMMIO32(p *uint32) uint32
TEXT ·loadMMIO32(SB), NOSPLIT, $0-12
	MOVD  p+0(FP), R0
	MOVWU (R0), R1
	DMB   $1
	MOVW  R1, ret+8(FP)
	RET

// func loadMMIO64(p *uint64) uint64
TEXT ·loadMMIO64(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD (R0), R1
	DMB  $1
	MOVD R1, ret+8(FP)
	RET
