// Package aegis seals and opens with AEGIS-128L and AEGIS-128X4 of draft-irtf-cfrg-aegis-aead, with tags of 128 and 256
// bits, and computes their MACs (AEGISMAC). Keys and nonces have 16 bytes. It is the floor under the engine: plaintext
// comes in from private memory, ciphertext goes out to memory that a device shares, and sealing is the copy between them.
// It imports nothing of this module, knows no records and no devices, and never allocates on the data path.
//
// Cipher is the detached shape for the engine, NewAEAD the standard library's cipher.AEAD for everyone else. Use
// AEGIS-128L up to about 512 bytes and AEGIS-128X4 above; the two do not understand each other.
//
// # Implementations
//
// The best one that the CPU offers and that passes a self-test is taken at start (Implementation); tests and benchmarks may
// take another (Force):
//
//	avx512-vaes  whole messages in one call; one ZMM register holds a row of all four lanes (x4_avx512, l_avx512)
//	avx2-vaes    AEGIS-128X4 by pairs of lanes in YMM registers (pair_avx2), AEGIS-128L in one call (l_avx)
//	avx-aesni    lane by lane with AES-NI (lane_aesni), AEGIS-128L in one call (l_avx)
//	aesni        lane by lane with AES-NI in SSE form (lane_aesni)
//	arm64-aes    lane by lane with the AES extension of ARMv8 (lane_arm64)
//	portable     Go with a table for the AES round; the build tag purego leaves only this one
//
// All but the portable one run in time that depends on lengths, and on whether a tag is right, only. The portable one looks up a table at secret indices:
// who can watch the data cache may learn the state. It is a reference for tests and a last resort.
//
// # What Open guarantees about shared memory
//
// The bytes of src, tag, nonce and ad are each taken from memory once, into registers or into the stack, and it is these
// copies that are both decrypted and authenticated. A device that changes them meanwhile makes Open fail, or comes too
// late: when Open returns nil, dst holds the plaintext that was sealed. Before it returns ErrOpen it fills dst with zeros.
// Until it returns dst holds what is not verified, so dst must be private; if dst and src are the same shared memory, or
// overlap a device's buffer at all, none of this holds. Seal reads src once as well, and never reads dst.
//
// # Limits of use
//
//   - A nonce must not be used twice with a key, whatever the tag length or additional data: it gives away the XOR of the
//     two plaintexts and lets an attacker recover the state and forge. With random nonces at most 2^48 messages a key.
//   - A message or its additional data may have up to 2^61-1 bytes, which no slice reaches.
//   - A forgery passes with a probability of 2^-128 for each attempt. Tags are not to be shortened.
//   - Keys are uniformly random, or derived with a KDF. Tags and MACs are no keys and no hashes: who knows the key can make
//     messages that collide.
//   - Commitment to the key: whoever chooses the additional data can make one (ciphertext, tag) open under several keys,
//     with tags of either length. If the attacker does not choose it, finding such keys costs about 2^64 attempts with
//     a 128-bit tag and 2^128 with a 256-bit one. Where it matters use 256 bits, and hash the additional data first or
//     put it into the derivation of the key.
//   - MAC may be used for many messages with one key and nonce, but those must not be shared with Seal.
//   - The key stays in the Cipher, and states stay in the registers and stack, until they are overwritten: nothing here
//     is erased but the plaintext of a message that failed.
//
// # Test vectors
//
// testdata/draft-vectors.json holds the draft's vectors for these variants, each with the section of "Test Vectors" it is
// from: AESRound and the AEGIS-128L Update (steps of the portable implementation), the AEGIS-128X4 initial state, Test
// Vectors 1 to 5 of AEGIS-128L and 1 and 2 of AEGIS-128X4, Test Vectors 6 to 9 of AEGIS-128L, which must be rejected, and
// AEGISMAC-128L and AEGISMAC-128X4. The draft has no rejecting vectors for AEGIS-128X4: forgery_test.go flips every bit.
// The corpus of testdata/fuzz was made here; its answers come from the portable implementation.
package aegis
