// Shared by the AVX-512 files. Operands stand in Go order: the destination is the last.

// UPDATE is the draft's Update(M0, M1) on registers of any width. VAESENC has three operands, so that
// S'i = AESRound(S(i-1)) ^ Si can overwrite Si, from 7 down to 1: no register moves, no unrolling by rotation. M0 and M1
// enter as round keys of S7 and S3, which takes the XOR off the path from S0 to S'0: in Init and Finalize, where nothing
// but latency counts, a round costs 3.25 cycles instead of 4.
#define UPDATE(S0, S1, S2, S3, S4, S5, S6, S7, M0, M1, T, U) \
	VAESENC M0, S7, T;  \
	VAESENC M1, S3, U;  \
	VAESENC S7, S6, S7; \
	VAESENC S6, S5, S6; \
	VAESENC S5, S4, S5; \
	VPXORQ  U, S4, S4;  \
	VAESENC S3, S2, S3; \
	VAESENC S2, S1, S2; \
	VAESENC S1, S0, S1; \
	VPXORQ  T, S0, S0

// UPDATE3 is the same with M0 and M1 joined by three-input XORs (ZERO is a register of zeros). When opening they hang on
// the key stream, and this takes the AES round off that path; when sealing it is measured to share out the execution
// ports better: 8.5 instead of 10.2 cycles for a block of AEGIS-128X4.
#define UPDATE3(S0, S1, S2, S3, S4, S5, S6, S7, M0, M1, ZERO, T, U) \
	VAESENC ZERO, S7, T;  \
	VAESENC ZERO, S3, U;  \
	VAESENC S7, S6, S7; \
	VAESENC S6, S5, S6; \
	VAESENC S5, S4, S5; \
	XOR3(U, M1, S4);    \
	VAESENC S3, S2, S3; \
	VAESENC S2, S1, S2; \
	VAESENC S1, S0, S1; \
	XOR3(T, M0, S0)

// XORAND: X ^= A & B. XOR3: X ^= A ^ B. The constants are truth tables over (X, A, B).
#define XORAND(A, B, X) VPTERNLOGQ $0x78, A, B, X
#define XOR3(A, B, X) VPTERNLOGQ $0x96, A, B, X
