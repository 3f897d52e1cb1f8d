package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"cvmstore/seal"
)

// keySource is seal's, but with a generator that depends on the seed of the simulation only, and an eye on DESIGN.md 5.1:
// the keys of a segment that is to be written must never have been derived before.
type keySource struct {
	*seal.Keys
	seed    uint64
	seen    map[string]bool
	recent  []string // contexts of segment keys derived since the last read of the device
	scratch []byte
}

func newKeySource(seed uint64, suite string) *keySource {
	return newKeySourceOf([16]byte{1}, seed, suite)
}

func newKeySourceOf(store [16]byte, seed uint64, suite string) *keySource {
	var secret [32]byte
	binary.LittleEndian.PutUint64(secret[:], seed)
	k, err := seal.NewKeys(store, suite, secret)
	if err != nil {
		panic(err)
	}
	return &keySource{Keys: k, seed: seed, seen: map[string]bool{}}
}

// Seed implements volume.KeySource.
func (k *keySource) Seed(gen uint64, fromCounter [32]byte) [32]byte {
	b := binary.LittleEndian.AppendUint64(nil, k.seed)
	b = binary.LittleEndian.AppendUint64(b, gen)
	return sha256.Sum256(append(b, fromCounter[:]...))
}

// Derive implements volume.KeySource.
func (k *keySource) Derive(out []byte, label string, context ...[]byte) {
	if strings.Contains(label, "segment record") {
		k.scratch = k.scratch[:0]
		for _, c := range context {
			k.scratch = append(k.scratch, c...)
		}
		k.recent = append(k.recent, string(k.scratch))
	}
	k.Keys.Derive(out, label, context...)
}

// read is told of each read of the device: what was derived before it served to read segments back.
func (k *keySource) read() {
	for _, c := range k.recent {
		k.seen[c] = true
	}
	k.recent = k.recent[:0]
}

// write is told of each write: what was derived since the last read serves to write.
func (k *keySource) write() {
	for _, c := range k.recent {
		if k.seen[c] {
			failf("5.1: the keys of a segment are derived a second time, for writing")
		}
	}
	k.read()
}
