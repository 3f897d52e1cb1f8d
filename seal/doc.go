// Package seal is where keys come from: the key file (later: attestation and provisioning), and the hierarchy in which every
// use has a key of its own. In comes a secret, out go derived keys and the seed of a run's random generator; the secret
// itself never leaves, and nothing here prints it. It satisfies volume.KeySource with plain types and imports nothing of
// ours but ioengine/aegis.
package seal
