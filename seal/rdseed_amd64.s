//go:build !purego

#include "textflag.h"

// func rdseed64() (x uint64, ok bool)
// Intel SDM volume 2, RDSEED: the carry flag says whether the destination holds entropy; it is zero otherwise.
TEXT ·rdseed64(SB), NOSPLIT, $0-9
	RDSEEDQ AX
	SETCS   ok+8(FP)
	MOVQ    AX, x+0(FP)
	RET
