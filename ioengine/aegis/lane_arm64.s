//go:build !purego

#include "textflag.h"

// One lane of AEGIS-128L, or of AEGIS-128X4, with the AES extension of ARMv8. lanes.go calls these for whole blocks. The
// lane's eight state blocks are 64 bytes apart in memory; the two halves of a message block are `half` bytes apart and
// blocks are `step` bytes apart.
//
// V0..V7    S0..S7
// V8, V9    M0, M1
// V10..V14  scratch

// ROUND: T = AESRound(S) without a round key. AESE XORs its two operands first, hence the zero; it stands next to AESMC
// so that cores can fuse the two.
#define ROUND(S, T) \
	VEOR  T.B16, T.B16, T.B16; \
	AESE  S.B16, T.B16; \
	AESMC T.B16, T.B16

// UPDATE is the draft's Update(V8, V9). It clobbers V10 to V13.
#define UPDATE \
	ROUND(V7, V12); \
	ROUND(V3, V13); \
	ROUND(V6, V10); \
	ROUND(V5, V11); \
	VEOR V8.B16, V12.B16, V12.B16; \
	VEOR V9.B16, V13.B16, V13.B16; \
	VEOR V10.B16, V7.B16, V7.B16; \
	VEOR V11.B16, V6.B16, V6.B16; \
	ROUND(V4, V10); \
	ROUND(V2, V11); \
	VEOR V13.B16, V4.B16, V4.B16; \
	VEOR V10.B16, V5.B16, V5.B16; \
	VEOR V11.B16, V3.B16, V3.B16; \
	ROUND(V1, V10); \
	ROUND(V0, V11); \
	VEOR V12.B16, V0.B16, V0.B16; \
	VEOR V10.B16, V2.B16, V2.B16; \
	VEOR V11.B16, V1.B16, V1.B16

// STREAM: V10 = z0 = S1^S6^(S2&S3), V11 = z1 = S2^S5^(S6&S7).
#define STREAM \
	VAND V2.B16, V3.B16, V10.B16; \
	VAND V6.B16, V7.B16, V11.B16; \
	VEOR V1.B16, V6.B16, V12.B16; \
	VEOR V2.B16, V5.B16, V13.B16; \
	VEOR V12.B16, V10.B16, V10.B16; \
	VEOR V13.B16, V11.B16, V11.B16

#define LOADSTATE(p) \
	FMOVQ (p), F0; \
	FMOVQ 64(p), F1; \
	FMOVQ 128(p), F2; \
	FMOVQ 192(p), F3; \
	FMOVQ 256(p), F4; \
	FMOVQ 320(p), F5; \
	FMOVQ 384(p), F6; \
	FMOVQ 448(p), F7

#define STORESTATE(p) \
	FMOVQ F0, (p); \
	FMOVQ F1, 64(p); \
	FMOVQ F2, 128(p); \
	FMOVQ F3, 192(p); \
	FMOVQ F4, 256(p); \
	FMOVQ F5, 320(p); \
	FMOVQ F6, 384(p); \
	FMOVQ F7, 448(p)

// func initLaneARM64(state, key, nonce, context *byte)
TEXT ·initLaneARM64(SB), NOSPLIT, $0-32
	MOVD state+0(FP), R0
	MOVD key+8(FP), R1
	MOVD nonce+16(FP), R2
	MOVD context+24(FP), R3
	MOVD $·constants(SB), R4
	VLD1 (R2), [V8.B16]
	VLD1 (R1), [V9.B16]
	VLD1 (R3), [V14.B16]
	VLD1 (R4), [V2.B16, V3.B16]
	VMOV V3.B16, V1.B16
	VEOR V8.B16, V9.B16, V0.B16
	VMOV V0.B16, V4.B16
	VEOR V9.B16, V2.B16, V5.B16
	VEOR V9.B16, V1.B16, V6.B16
	VMOV V5.B16, V7.B16
	MOVD $10, R6

loop:
	VEOR V14.B16, V3.B16, V3.B16
	VEOR V14.B16, V7.B16, V7.B16
	UPDATE
	SUBS $1, R6
	BNE  loop
	STORESTATE(R0)
	RET

// func absorbLaneARM64(state, src *byte, half, step, n int)
TEXT ·absorbLaneARM64(SB), NOSPLIT, $0-40
	MOVD state+0(FP), R0
	MOVD src+8(FP), R2
	MOVD half+16(FP), R4
	MOVD step+24(FP), R5
	MOVD n+32(FP), R6
	ADD  R2, R4, R3
	LOADSTATE(R0)

loop:
	VLD1 (R2), [V8.B16]
	VLD1 (R3), [V9.B16]
	UPDATE
	ADD  R5, R2
	ADD  R5, R3
	SUBS $1, R6
	BNE  loop
	STORESTATE(R0)
	RET

// func sealLaneARM64(state, dst, src *byte, half, step, n int)
TEXT ·sealLaneARM64(SB), NOSPLIT, $0-48
	MOVD state+0(FP), R0
	MOVD dst+8(FP), R7
	MOVD src+16(FP), R2
	MOVD half+24(FP), R4
	MOVD step+32(FP), R5
	MOVD n+40(FP), R6
	ADD  R2, R4, R3
	ADD  R7, R4, R8
	LOADSTATE(R0)

loop:
	VLD1 (R2), [V8.B16]
	VLD1 (R3), [V9.B16]
	STREAM
	VEOR V8.B16, V10.B16, V10.B16
	VEOR V9.B16, V11.B16, V11.B16
	VST1 [V10.B16], (R7)
	VST1 [V11.B16], (R8)
	UPDATE
	ADD  R5, R2
	ADD  R5, R3
	ADD  R5, R7
	ADD  R5, R8
	SUBS $1, R6
	BNE  loop
	STORESTATE(R0)
	RET

// func openLaneARM64(state, dst, src *byte, half, step, n int)
TEXT ·openLaneARM64(SB), NOSPLIT, $0-48
	MOVD state+0(FP), R0
	MOVD dst+8(FP), R7
	MOVD src+16(FP), R2
	MOVD half+24(FP), R4
	MOVD step+32(FP), R5
	MOVD n+40(FP), R6
	ADD  R2, R4, R3
	ADD  R7, R4, R8
	LOADSTATE(R0)

loop:
	VLD1 (R2), [V8.B16]
	VLD1 (R3), [V9.B16]
	STREAM
	VEOR V10.B16, V8.B16, V8.B16
	VEOR V11.B16, V9.B16, V9.B16
	VST1 [V8.B16], (R7)
	VST1 [V9.B16], (R8)
	UPDATE
	ADD  R5, R2
	ADD  R5, R3
	ADD  R5, R7
	ADD  R5, R8
	SUBS $1, R6
	BNE  loop
	STORESTATE(R0)
	RET
