package aegis

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// An implementation is one way to compute the ciphers; the CPU decides which ones exist. See the arch_*.go files.
type implementation uint32

const (
	implPortable implementation = iota
	implAESNI
	implAVX
	implAVX2
	implAVX512
	implARM64
)

var implNames = [...]string{
	implPortable: "portable",
	implAESNI:    "aesni",
	implAVX:      "avx-aesni",
	implAVX2:     "avx2-vaes",
	implAVX512:   "avx512-vaes",
	implARM64:    "arm64-aes",
}

var (
	// available lists what this CPU can run, best first; the portable one is always the last.
	available []implementation
	// active is read at every call: an atomic load costs as much as a plain one, and Force reaches existing Ciphers.
	active atomic.Uint32
)

// init keeps those implementations that work. What a CPU says of itself is not enough: QEMU 7.2 offers VAES when it
// emulates a CPU (-cpu max) but computes the upper half of a YMM register from the lower one, which would seal two lanes
// with one key stream and yet open what it sealed. It takes less than a millisecond.
func init() {
	for _, impl := range detect() {
		active.Store(uint32(impl))
		if agreesWithPortable(AEGIS128L) && agreesWithPortable(AEGIS128X4) {
			available = append(available, impl)
		}
	}
	available = append(available, implPortable)
	active.Store(uint32(available[0]))
}

// agreesWithPortable seals, opens and authenticates a message of a few blocks with the active implementation.
func agreesWithPortable(v Variant) bool {
	var plain, want, got, back [300]byte
	var wantTag, gotTag, backTag [TagSize256]byte
	for i := range plain {
		plain[i] = byte(i)
	}
	key, nonce, ad := plain[:KeySize], plain[32:][:NonceSize], plain[64:][:150]
	c := Cipher{variant: v}
	copy(c.key[:], key)
	c.cryptPortable(want[:], wantTag[:], nonce, plain[:], ad, false)
	c.seal(got[:], gotTag[:], nonce, plain[:], ad)
	c.open(back[:], backTag[:], nonce, got[:], ad)
	if got != want || back != plain || gotTag != wantTag || backTag != wantTag {
		return false
	}
	c.macPortable(wantTag[:], nonce, plain[:])
	c.mac(gotTag[:], nonce, plain[:])
	return gotTag == wantTag
}

// Implementation names the implementation in use: "avx512-vaes", "avx2-vaes", "avx-aesni", "aesni",
// "arm64-aes" or "portable".
func Implementation() string { return implNames[active.Load()] }

// Implementations names all that this CPU can run, the best first.
func Implementations() []string {
	names := make([]string, len(available))
	for i, impl := range available {
		names[i] = implNames[impl]
	}
	return names
}

// Force makes all Ciphers of the process use the named implementation until restore is called. It is for tests and
// benchmarks: all implementations compute the same, so that running calls are not disturbed.
func Force(name string) (restore func(), err error) {
	i := slices.Index(Implementations(), name)
	if i < 0 {
		return nil, fmt.Errorf("aegis: no implementation %q on this CPU, only %s", name, strings.Join(Implementations(), ", "))
	}
	old := active.Swap(uint32(available[i]))
	return func() { active.Store(old) }, nil
}
